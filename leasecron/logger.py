"""The package's logger, as the service threads use it.

A filter or handler of the application may raise: one that looks at the current web request does so
in any thread that has none. The standard library lets that through to whoever logs.
"""

from __future__ import annotations

import contextlib
import logging
from typing import Any


class Logger:
    """Logs to the logger ``leasecron`` and never raises."""

    def __init__(self) -> None:
        self._logger = logging.getLogger("leasecron")

    def _log(self, level: int, message: str, args: tuple[Any, ...], *, caught: bool) -> None:
        with contextlib.suppress(Exception):
            self._logger.log(level, message, *args, exc_info=caught, stacklevel=3)

    def info(self, message: str, *args: Any) -> None:
        """Log what is as it should be."""
        self._log(logging.INFO, message, args, caught=False)

    def warning(self, message: str, *args: Any) -> None:
        """Log what the user should know."""
        self._log(logging.WARNING, message, args, caught=False)

    def exception(self, message: str, *args: Any) -> None:
        """Log a failure with the traceback of the exception that is being handled."""
        self._log(logging.ERROR, message, args, caught=True)


logger = Logger()
