"""The README, read as its readers do: snippets and tables."""

import re
from dataclasses import dataclass
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"
TEXT = README.read_text(encoding="utf-8")

_SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"# ([\w./]+\.py)\n")
_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Snippet:
    """One block of Python. ``file`` is the name that its first line gives it."""

    line: int
    code: str
    file: str | None

    def __str__(self) -> str:
        return self.file or f"line-{self.line}"


def snippets() -> list[Snippet]:
    """Return all of them, in the order of the page."""
    found = []
    for match in _SNIPPET.finditer(TEXT):
        code = match.group(1)
        name = _NAME.match(code)
        line = TEXT.count("\n", 0, match.start()) + 1
        found.append(Snippet(line, code, name.group(1) if name else None))
    return found


def shell_commands() -> list[str]:
    """Return the lines of the shell blocks."""
    blocks: list[str] = re.findall(r"^```sh\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def console_commands() -> list[str]:
    """Return what is typed after a prompt."""
    blocks: list[str] = re.findall(r"^```console\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def table(header: str) -> list[list[str]]:
    """Return the rows of the table whose first row begins with ``header``."""
    lines = TEXT.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(header))
    rows = []
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


def in_code(text: str) -> list[str]:
    """Return what stands in backquotes."""
    return _CODE.findall(text)


def names(text: str) -> list[str]:
    """Return the names in backquotes, without the arguments of those that are called."""
    return [code.partition("(")[0] for code in in_code(text)]
