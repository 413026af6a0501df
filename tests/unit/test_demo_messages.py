from datetime import UTC, datetime

import pytest

from leasecron.cli.demo_messages import Message, decode, encode
from leasecron.model import to_ms

SLOT = datetime(2026, 5, 4, 12, 0, 2, tzinfo=UTC)


def test_a_message_comes_through_its_line() -> None:
    message = Message(
        instance="A",
        kind="skip",
        job="tick",
        slot_ms=to_ms(SLOT),
        attempt=2,
        holder="B",
        detail="a line\nand é",
    )
    line = encode(message)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode(line) == message
    assert message.run == ("tick", SLOT)


def test_a_message_is_stamped_with_both_clocks() -> None:
    first = Message(instance="A", kind="ready")
    second = Message(instance="A", kind="ready")
    assert 0 < first.monotonic <= second.monotonic
    assert first.wall > SLOT.timestamp() - 1e9


@pytest.mark.parametrize("line", [b"", b"warning: x", b"{}", b"[1]", b"5", b'{"a": 1}', b"\xff"])
def test_a_line_of_somebody_else_is_no_message(line: bytes) -> None:
    assert decode(line) is None
