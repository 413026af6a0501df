"""The whole demo, as a user starts it."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "leasecron", "demo"]
LIMIT = 60.0
UP = re.compile(r"  ([ABC])  is up +pid (\d+)")

Starter = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starter]:
    """Start a demo whose temporary folder is ``tmp_path``; end it with the test."""
    demos: list[subprocess.Popen[str]] = []

    def starting(**environment: str) -> "subprocess.Popen[str]":
        # A handled signal is reset for a new program, an ignored one (a shell's background job)
        # would stay ignored.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            demo = subprocess.Popen(
                COMMAND,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "TMPDIR": str(tmp_path), **environment},
            )
        finally:
            signal.signal(signal.SIGINT, before)
        demos.append(demo)
        return demo

    yield starting
    for demo in demos:
        demo.kill()
        demo.communicate()


def lines_until(demo: "subprocess.Popen[str]", pattern: str, count: int = 1) -> list[str]:
    """Return the lines up to the ``count``-th that contains ``pattern``."""
    assert demo.stdout is not None
    lines = []
    for line in demo.stdout:
        lines.append(line)
        count -= pattern in line
        if not count:
            return lines
    raise AssertionError(f"{pattern!r} did not come:\n{''.join(lines)}{demo.communicate()[1]}")


def instances(lines: list[str]) -> dict[str, int]:
    """Return the process id of each instance that said it is up."""
    found = UP.findall("".join(lines))
    assert len(found) == 3
    return {name: int(pid) for name, pid in found}


def alive(pid: int) -> bool:
    shown = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return shown.stdout.strip()[:1] not in ("", "Z")


def wait_until_gone(pids: dict[str, int]) -> None:
    deadline = time.monotonic() + LIMIT
    while any(map(alive, pids.values())):
        assert time.monotonic() < deadline, f"still alive: {pids}"
        time.sleep(0.05)


def test_the_demo_shows_a_takeover_and_ends_well(start: Starter, tmp_path: Path) -> None:
    demo = start(LEASECRON_OFF="1")  # meant for test suites of applications, not for the demo
    out, err = demo.communicate(timeout=LIMIT)
    assert demo.returncode == 0, out + err
    assert err == ""
    assert "\x1b" not in out
    assert "hint" not in out
    assert len(instances(out.splitlines(keepends=True))) == 3

    (victim,) = re.findall(r"  ([ABC])  KILLED +SIGKILL in the middle of export", out)
    taker, seconds = re.findall(r"takeover: by ([ABC]), ([0-9.]+) s after the kill", out)[0]
    assert taker != victim
    assert 0 < float(seconds) < 30
    assert re.search(rf"  {taker}  takes over +export @ \S+  attempt 2", out)
    assert re.search(rf"  {victim}  heartbeat +export @ \S+  ok", out)
    assert re.search(r"  [ABC]  stands by +export @ \S+  skip \(taken\)", out)

    table = out[out.index("read back from the store") :]
    ticks, once = re.findall(r"^tick +(\d+) +(\d+)", table, re.MULTILINE)[0]
    assert int(ticks) == int(once) >= 8
    assert re.search(rf"^export +1 +1 +{taker} 1 +1$", table, re.MULTILINE)
    assert table.endswith("another instance finished the killed run\n")
    assert list(tmp_path.iterdir()) == []


def test_in_a_terminal_the_demo_is_drawn(tmp_path: Path) -> None:
    parent, terminal = pty.openpty()
    environment = {**os.environ, "TMPDIR": str(tmp_path), "TERM": "xterm-256color"}
    environment |= {"COLUMNS": "120", "LINES": "40"}
    with subprocess.Popen(
        COMMAND, stdin=terminal, stdout=terminal, stderr=terminal, env=environment
    ) as demo:
        os.close(terminal)
        try:
            shown = read_all(parent)
        finally:
            demo.kill()
            os.close(parent)
    assert demo.returncode == 0, shown
    assert "\x1b[" in shown
    for text in ("stands by for", "killed", "read back from the store", "right: each slot"):
        assert text in shown


def read_all(descriptor: int) -> str:
    """Return what a terminal shows until nobody has it open any more."""
    deadline = time.monotonic() + LIMIT
    shown = b""
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([descriptor], [], [], left)[0]:
            break
        try:
            chunk = os.read(descriptor, 65536)
        except OSError:  # Linux says EIO for the end
            chunk = b""
        if not chunk:
            return shown.decode()
        shown += chunk
    raise AssertionError(f"the demo did not end: {shown.decode()}")


@pytest.mark.parametrize("moment", ["three instances on", "is up", "KILLED", "takes over"])
def test_ctrl_c_ends_all_at_any_moment(start: Starter, tmp_path: Path, moment: str) -> None:
    demo = start()
    lines = lines_until(demo, moment, 3 if moment == "is up" else 1)
    demo.send_signal(signal.SIGINT)
    _, err = demo.communicate(timeout=LIMIT)
    assert demo.returncode == 130
    assert err == "interrupted\n"
    assert list(tmp_path.iterdir()) == []
    if moment != "three instances on":
        assert not any(map(alive, instances(lines).values()))


def test_a_demo_that_is_terminated_cleans_up(start: Starter, tmp_path: Path) -> None:
    demo = start()
    pids = instances(lines_until(demo, "is up", 3))
    demo.terminate()
    assert demo.wait(LIMIT) == 143
    assert not any(map(alive, pids.values()))
    assert list(tmp_path.iterdir()) == []


def test_instances_end_when_the_demo_is_killed(start: Starter) -> None:
    demo = start()
    pids = instances(lines_until(demo, "is up", 3))
    demo.kill()
    wait_until_gone(pids)


def test_an_instance_that_dies_by_itself_is_reported(start: Starter) -> None:
    demo = start()
    pids = instances(lines_until(demo, "is up", 3))
    os.kill(pids["B"], signal.SIGKILL)
    out, _ = demo.communicate(timeout=LIMIT)
    assert demo.returncode == 1
    assert "the demo failed: instance B ended by itself: exit code -9" in out
    assert not any(map(alive, pids.values()))


def test_an_instance_that_cannot_start_is_reported_with_its_words(
    start: Starter, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "sqlite3.py").write_text("raise RuntimeError('no sqlite here')\n")
    (broken / "sitecustomize.py").write_text(
        "import sys\n"
        "if 'leasecron.cli.demo_instance' not in sys.orig_argv:\n"
        f"    sys.path.remove({str(broken)!r})\n"
    )
    out, _ = start(PYTHONPATH=str(broken)).communicate(timeout=LIMIT)
    assert "ended by itself: exit code 1" in out
    assert "RuntimeError: no sqlite here" in out


def test_without_rich_the_demo_has_plain_lines_and_one_hint(start: Starter, tmp_path: Path) -> None:
    hiding = tmp_path / "hiding"
    hiding.mkdir()
    (hiding / "rich.py").write_text("raise ImportError('hidden by the test')\n")
    demo = start(PYTHONPATH=str(hiding))
    lines = lines_until(demo, "is up", 3)
    demo.send_signal(signal.SIGINT)
    out, _ = demo.communicate(timeout=LIMIT)
    assert "".join([*lines, out]).count("pip install 'leasecron[cli]'") == 1
