"""Benchmarks of leasecron beside plain sqlite3 and beside its peers: ``python -m benchmarks``."""
