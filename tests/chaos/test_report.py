"""What the report of a chaos run takes for a defect of an instance's own."""

import ast
from collections.abc import Iterator
from pathlib import Path

import leasecron
from chaos.report import defects_told

PACKAGE = Path(leasecron.__file__).parent


def logged_with_a_traceback() -> Iterator[str]:
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "logger.exception":
                text = node.args[0]
                assert isinstance(text, ast.Constant), path
                yield str(text.value)


def test_every_defect_that_an_instance_logs_is_told(tmp_path: Path) -> None:
    errors = tmp_path / "errors-1"
    texts = [*logged_with_a_traceback(), "Fatal Python error: Segmentation fault"]
    assert any("could not be handed over" in text for text in texts)
    errors.write_text("\n".join(texts))
    assert defects_told([errors]) == [f"errors-1: {text}" for text in texts]


def test_what_is_no_defect_is_not_told(tmp_path: Path) -> None:
    errors = tmp_path / "errors-1"
    errors.write_text("the wall clock jumped by +3.0 s\nrun failed job=quick error=ValueError: x\n")
    assert defects_told([errors]) == []
