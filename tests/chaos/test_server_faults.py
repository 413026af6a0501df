"""What befalls the server of a chaos run, and what is written down of it."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from chaos.log import Log, read_lines
from chaos.plan import Kind
from chaos.server_faults import ServerFaults
from chaos.server_place import ServerPlace


class Server:
    """One that notes what is done to it."""

    url = ""

    def __init__(self) -> None:
        self.done: list[str] = []

    def start(self) -> None:
        self.done.append("start")

    def stop(self) -> None:
        self.done.append("stop")

    def kill(self) -> None:
        self.done.append("kill")

    def suspend(self) -> None:
        self.done.append("suspend")

    def resume(self) -> None:
        self.done.append("resume")

    def frozen(self) -> AbstractContextManager[None]:
        return nullcontext()


@pytest.mark.parametrize(
    ("kind", "done"),
    [
        ("server-kill", ["kill", "start"]),
        ("server-restart", ["stop", "start"]),
        ("server-freeze", ["suspend", "resume"]),
    ],
)
def test_a_fault_is_undone_and_written_down_from_without_and_from_within(
    tmp_path: Path, kind: Kind, done: list[str]
) -> None:
    place = ServerPlace("redis")
    place.server = server = Server()
    faults = ServerFaults(place, Log(tmp_path / "log"))
    assert faults.begin(kind)
    assert not faults.begin("server-kill")  # one at a time
    faults.end()
    faults.end()  # nothing is left to be ended
    assert server.done == done
    lines = {line["kind"]: line for line in read_lines(tmp_path / "log")}
    outer, inner = lines[kind], lines["down"]
    assert len(lines) == 2
    assert outer["since"] < inner["since"] < inner["until"] < outer["until"]
    assert faults.begin("server-kill")


def test_a_process_keeps_nobody_from_a_server(tmp_path: Path) -> None:
    faults = ServerFaults(ServerPlace("postgres"), Log(tmp_path / "log"))
    assert not faults.is_held_by(faults.locks_of(1))
