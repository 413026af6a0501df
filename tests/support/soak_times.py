"""How often the jobs of a soak are due: for those who run them, and for those who check."""

TICK_MS = 2_000
LONG_MS = 20_000
