import functools
import gc
import inspect
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from unittest.mock import Mock

import pytest

from leasecron.advice import on_leases, on_retries
from leasecron.errors import ConfigurationError
from leasecron.jobs import DeclaredJob, Job, declare
from leasecron.options import JobOptions
from leasecron.schedules import Every

CONTEXT = object()


def declared(handler: Any, name: Any = "sync", interval: str = "1h", **options: Any) -> DeclaredJob:
    return declare(name, Every(interval), handler, options, JobOptions())


class Recorder:
    """Has handlers of every shape, and notes what they were called with."""

    def __init__(self) -> None:
        self.calls: list[object] = []
        self.lock = threading.Lock()

    def with_context(self, ctx: object) -> None:
        self.calls.append(ctx)

    def without(self) -> None:
        self.calls.append("nothing")

    def with_defaults(self, ctx: object = "default", extra: int = 1) -> None:
        self.calls.append(ctx)

    def with_one_required(self, ctx: object, extra: int = 1, *, more: int = 2) -> None:
        self.calls.append(ctx)

    def with_anything(self, *args: object, **kwargs: object) -> None:
        self.calls.append(args or "nothing")

    def with_two(self, ctx: object, path: str) -> None:
        self.calls.append(ctx)

    def with_keyword(self, *, path: str) -> None:
        self.calls.append(path)

    def __call__(self, ctx: object) -> None:
        self.calls.append(ctx)


@pytest.mark.parametrize(
    ("shape", "received"),
    [
        (lambda r: r.with_context, CONTEXT),
        (lambda r: r.without, "nothing"),
        (lambda r: r.with_defaults, "default"),
        (lambda r: r.with_one_required, CONTEXT),
        (lambda r: r.with_anything, "nothing"),
        (lambda r: r, CONTEXT),
        (lambda r: functools.partial(r.with_two, path="/srv"), CONTEXT),
        (lambda r: functools.partial(r.with_keyword, path="/srv"), "/srv"),
        (lambda r: functools.partial(r.with_context, "given"), "given"),
        (lambda r: lambda ctx: r.calls.append(ctx), CONTEXT),
        (lambda r: lambda: r.calls.append("nothing"), "nothing"),
        (lambda r: functools.wraps(r.with_context)(lambda *a: r.calls.extend(a)), CONTEXT),
    ],
)
def test_a_handler_gets_its_context_when_it_needs_exactly_one_argument(
    shape: Callable[[Recorder], Any], received: object
) -> None:
    recorder = Recorder()
    declared(shape(recorder)).call(CONTEXT)
    assert recorder.calls == [received]


def test_a_mock_is_called_with_nothing() -> None:
    mock = Mock(return_value=None)
    declared(mock).call(CONTEXT)
    mock.assert_called_once_with()


def test_a_callable_without_a_signature_gets_nothing() -> None:
    with pytest.raises(ValueError, match="signature"):
        inspect.signature(dict)
    assert not declared(dict).takes_context


def test_a_class_can_be_a_handler() -> None:
    seen: list[object] = []

    class Task:
        def __init__(self, ctx: object) -> None:
            seen.append(ctx)

    declared(Task).call(CONTEXT)
    assert seen == [CONTEXT]


@pytest.mark.parametrize("shape", ["with_two", "with_keyword"])
def test_a_handler_that_needs_other_arguments_is_refused(shape: str) -> None:
    with pytest.raises(ConfigurationError, match=r"job 'sync'.*path.*functools\.partial"):
        declared(getattr(Recorder(), shape))


async def coroutine_handler() -> None: ...


async def async_generator_handler() -> AsyncIterator[int]:
    yield 1


def generator_handler() -> Iterator[int]:
    yield 1


class Async:
    async def __call__(self) -> None: ...

    async def method(self) -> None: ...


@pytest.mark.parametrize(
    ("handler", "kind"),
    [
        (coroutine_handler, "a coroutine"),
        (functools.partial(coroutine_handler), "a coroutine"),
        (functools.partial(functools.partial(Async().method)), "a coroutine"),
        (Async().method, "a coroutine"),
        (Async(), "a coroutine"),
        (functools.partial(Async()), "a coroutine"),
        (async_generator_handler, "an async generator"),
        (functools.partial(async_generator_handler), "an async generator"),
        (generator_handler, "a generator"),
        (functools.partial(generator_handler), "a generator"),
    ],
)
def test_a_handler_whose_call_does_no_work_is_refused(handler: Any, kind: str) -> None:
    with pytest.raises(ConfigurationError, match=f"job 'sync'.*{kind}.*inside a plain function"):
        declared(handler)


@pytest.mark.parametrize(
    "handler",
    [
        lambda: coroutine_handler(),
        lambda: async_generator_handler(),
        lambda: generator_handler(),
        lambda ctx: coroutine_handler(),
    ],
)
def test_a_handler_that_returns_undone_work_fails_without_a_warning(handler: Any) -> None:
    job = declared(handler)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(TypeError, match=r"job 'sync'.*has not run.*plain function"):
            job.call(CONTEXT)
        gc.collect()
    assert caught == []


@pytest.mark.parametrize("returned", [None, 5, object(), [], iter([])])
def test_any_other_returned_value_is_ignored(returned: object) -> None:
    declared(lambda: returned).call(CONTEXT)


def test_what_a_handler_raises_passes_through() -> None:
    def handler() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        declared(handler).call(CONTEXT)


@pytest.mark.parametrize("handler", [None, 5, "sync"])
def test_what_cannot_be_called_is_refused(handler: object) -> None:
    with pytest.raises(ConfigurationError, match=r"job 'sync'.*cannot be called"):
        declared(handler)


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800", None, 5, b"sync"])
def test_a_name_that_no_store_can_keep_is_refused(name: object) -> None:
    with pytest.raises(ConfigurationError, match="the name of"):
        declared(print, name=name)


@pytest.mark.parametrize("name", [".", "..", "../x", "a/b", "a\nb", "con", " ", "é" * 300])
def test_any_other_name_is_allowed(name: str) -> None:
    assert declared(print, name=name).name == name


def test_a_schedule_must_be_one() -> None:
    with pytest.raises(ConfigurationError, match="job 'sync'"):
        declare("sync", "10s", print, {}, JobOptions())  # type: ignore[arg-type]


def test_a_declaration_has_the_options_of_its_job_over_the_defaults() -> None:
    job = declare("sync", Every("1h"), print, {"timeout": "5m"}, JobOptions(lease=8))
    assert job.options == JobOptions(lease=8, timeout="5m")


def test_declarations_are_told_apart_by_identity() -> None:
    job, twin = declared(print), declared(print)
    assert job != twin
    assert len({job, twin}) == 2


def test_the_public_job_is_a_value() -> None:
    schedule = Every("1h")
    assert Job("a", schedule, JobOptions(), None) == Job("a", schedule, JobOptions(), None)


def test_options_of_retries_are_advised_against_where_nothing_is_tried_again() -> None:
    given = {"backoff": "5s", "retry_on": (OSError,)}
    assert [*on_retries(declared(print, backoff="5s", retry_on=(OSError,)), given)] == [
        "job 'sync': backoff means nothing without retries",
        "job 'sync': retry_on means nothing without retries",
    ]
    assert not [*on_retries(declared(print, backoff="5s", retries=1), {"backoff": "5s"})]
    assert not [*on_retries(declared(print), {})]


def test_an_interval_shorter_than_the_lease_is_advised_against() -> None:
    (advice,) = on_leases(declared(print, interval="2s"))
    assert "job 'sync': its interval (2.0 s) is shorter than its lease (20.0 s)" in advice
    assert not [*on_leases(declared(print, interval="20s"))]
    assert not [*on_leases(declared(print, interval="2s", lease="2s"))]
    assert not [*on_leases(declared(print, interval="2s", overlap="allow"))]
