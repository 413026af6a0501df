"""A store in a directory of lock files."""
