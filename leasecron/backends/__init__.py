"""The stores through which instances agree."""
