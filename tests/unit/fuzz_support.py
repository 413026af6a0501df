"""What damages a file: cuts, flipped bits, foreign bytes; and JSON of every kind."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st

Damage = Callable[[bytes], bytes]

_MEMORY = "/dev/shm"

fast = settings(max_examples=30, derandomize=True, deadline=None)
deep = settings(max_examples=300, deadline=None, print_blob=True)

_NUMBERS = st.integers() | st.floats() | st.sampled_from([10**18, -(10**18), 10**30, 0, -1, 2**63])
_TEXTS = st.text(st.characters(codec=None), max_size=30) | st.just("x" * 5000)
JSON = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@contextmanager
def scratch() -> Iterator[Path]:
    """Have an empty folder, in memory where there is one: many stores are made and none is kept."""
    folder = tempfile.mkdtemp(prefix="fuzz-", dir=_MEMORY if os.path.isdir(_MEMORY) else None)
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder)


def _flipped(content: bytes, bits: list[int]) -> bytes:
    changed = bytearray(content)
    for bit in bits if changed else []:
        changed[bit // 8 % len(changed)] ^= 1 << bit % 8
    return bytes(changed)


@st.composite
def damaged(draw: st.DrawFn) -> Damage:
    """What happens to the content of a file."""
    kind = draw(st.sampled_from(["cut", "flipped", "overwritten", "inserted", "other", "twice"]))
    place, piece = draw(st.floats(0, 1)), draw(st.binary(min_size=1, max_size=200))
    bits = draw(st.lists(st.integers(0, 2**20), min_size=1, max_size=20))

    def damage(content: bytes) -> bytes:
        at = round(place * len(content))
        match kind:
            case "cut":
                return content[:at]
            case "flipped":
                return _flipped(content, bits)
            case "overwritten":
                return content[:at] + piece + content[at + len(piece) :]
            case "inserted":
                return content[:at] + piece + content[at:]
            case "twice":
                return content + content[at:]
        return piece

    return damage
