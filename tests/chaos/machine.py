"""How busy the machine of a chaos run is."""

from pathlib import Path

_STAT = Path("/proc/stat")
_SPARE = 0.05


class Processors:
    """Says whether the processors had hardly any time to spare since they were last asked."""

    def __init__(self) -> None:
        self._idle, self._all = _times()

    def were_busy(self) -> bool:
        """Say so; never where the kernel does not tell."""
        idle, every = _times()
        spare, passed = idle - self._idle, every - self._all
        self._idle, self._all = idle, every
        return passed > 0 and spare < passed * _SPARE


def _times() -> tuple[int, int]:
    """Return for how many ticks the processors were idle so far, and of how many."""
    try:
        line = _STAT.read_text().partition("\n")[0]
    except FileNotFoundError:
        return 0, 0
    ticks = [int(text) for text in line.split()[1:]]
    return sum(ticks[3:5]), sum(ticks[:8])  # after those come guests, which are users too
