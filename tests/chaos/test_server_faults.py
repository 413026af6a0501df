"""What befalls the server of a chaos run, and what is written down of it."""

import socket
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from support.proxy import before_port

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


@pytest.mark.parametrize("kind", ["cut-request", "cut-answer"])
def test_a_connection_is_cut_once_in_the_middle_of_what_goes_through_it(kind: Kind) -> None:
    place = ServerPlace("redis")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        place._proxy = before_port(listener.getsockname()[1])
        with socket.create_connection(place._proxy.address) as client:
            server, _ = listener.accept()
            with server:
                assert place.cut(kind, 3)
                assert not place.cut(kind, 3)  # the last cut is still to come
                sender, receiver = (client, server) if kind == "cut-request" else (server, client)
                sender.sendall(b"12345")
                assert receiver.recv(10) == b"123"
                assert receiver.recv(10) == b""
                assert place.cut(kind, 3)
        place._proxy.close()


def test_every_other_instance_may_be_cut_off() -> None:
    place = ServerPlace("redis")
    place.direct, place._cut = "direct", "cut"
    assert [place.url_of(number) for number in range(4)] == ["direct", "cut", "direct", "cut"]
