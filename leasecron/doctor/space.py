"""How much room the filesystem of a store has left."""

from __future__ import annotations

import os

from leasecron.backends.checks import Check

LITTLE = 16_000_000
"""Bytes; the write-ahead log of a busy SQLite store can need as much."""


def check_space(folder: str) -> Check:
    """Ask for what this user may still write."""
    try:
        found = os.statvfs(folder)
    except OSError as error:
        return Check("space", "bad", str(error), "the filesystem does not answer")
    free = found.f_bavail * found.f_frsize
    if found.f_blocks == 0:
        return Check("space", "good", "unknown", "the filesystem does not say how large it is")
    text = f"{free / 1e6:,.1f} MB free"
    if free < LITTLE:
        reason = f"nothing is claimed once {folder} is full: make room"
        return Check("space", "warning", text, reason)
    return Check("space", "good", text, "the store has room to grow")
