"""What stores in servers have in common."""
