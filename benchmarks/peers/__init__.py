"""The other schedulers, each driven by its own public API in the way that suits it best.

Each module has ``runs_per_second(folder, jobs)``, which is called in a process of its own.
"""

DISTRIBUTIONS = ("APScheduler", "SQLAlchemy", "huey", "pyncette", "aiosqlite")
"""What the peers are installed as, with what decides how fast their stores are."""
