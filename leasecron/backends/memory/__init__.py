"""A store in the memory of one process."""
