import pickle
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, fields
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasecron.errors import ConfigurationError
from leasecron.model import Retention
from leasecron.option_values import MAX_LATE, OPTION_NAMES
from leasecron.options import UNSET, JobOptionArgs, JobOptions, lay_over
from leasecron.schedules import Every

DAY = 86_400.0
TEN_SECONDS = Every("10s")


def build(**arguments: Any) -> JobOptions:
    return JobOptions(**arguments)


def laid_over(
    arguments: Mapping[str, Any] | None = None,
    defaults: JobOptions | None = None,
    schedule: Every = TEN_SECONDS,
) -> JobOptions:
    return lay_over(defaults or JobOptions(), arguments or {}, job="sync", schedule=schedule)


def test_options_that_were_not_given_have_the_documented_defaults() -> None:
    options = JobOptions()
    assert options.lease == 20.0
    assert options.heartbeat == 5.0
    assert options.max_late == 300.0
    assert options.catch_up == 300.0
    assert options.timeout is None
    assert options.jitter is None
    assert options.overlap == "skip"
    assert options.max_attempts == 3
    assert options.keep == 1000
    assert options.given == frozenset()


@pytest.mark.parametrize("name", ["lease", "heartbeat", "max_late", "catch_up", "timeout"])
@pytest.mark.parametrize("value", [7, 7.0, "7s", timedelta(seconds=7)])
def test_a_duration_reads_as_float_seconds_however_it_was_given(name: str, value: object) -> None:
    options = build(**{name: value})
    assert getattr(options, name) == 7.0
    assert isinstance(getattr(options, name), float)
    assert options.given == {name}


def test_values_that_were_not_given_follow_those_that_were() -> None:
    options = JobOptions(lease="8s", max_late="1h")
    assert options.heartbeat == 2.0
    assert options.catch_up == 3600.0


def test_no_limit_on_lateness_means_thirty_days() -> None:
    assert JobOptions(max_late=None).max_late == 30 * DAY
    assert JobOptions(max_late=None) == JobOptions(max_late="30d")


def test_zero_turns_catch_up_and_jitter_off() -> None:
    options = JobOptions(catch_up=0, jitter=0)
    assert options.catch_up == 0.0
    assert options.jitter_for(10.0) == 0.0


WRONG: dict[str, list[object]] = {
    "lease": [0, -1, "soon", None, True, float("nan"), float("inf"), "20 years"],
    "heartbeat": [0, -1, "", None, []],
    "max_late": [0, -1, "31d", 31 * DAY, True],
    "catch_up": [-1, "x", None, "20 years"],
    "timeout": [0, -1, "x", False],
    "jitter": [-1, "x", None, True],
    "overlap": ["Skip", "", None, True, 1, []],
    "max_attempts": [0, -1, 1.0, "3", None, True, 2**63, 10**400],
    "retries": [-1, 1001, 1.0, "3", None, True, 10**400],
    "backoff": [0, -1, "soon", None, True],
    "backoff_max": [0, -1, "soon", None, True],
    "retry_on": [None, "OSError", 5, BaseException, OSError("no"), [OSError], (OSError, 5)],
    "pause_on_failure": [0, 1, "yes", None],
    "keep": [0, -1, 100_001, None, True, "", "0s", "1000", timedelta(0), [], 10**400],
}


def test_every_option_has_wrong_values_here() -> None:
    assert set(WRONG) == set(OPTION_NAMES)


@pytest.mark.parametrize(("name", "value"), [(k, v) for k, vs in WRONG.items() for v in vs])
def test_a_wrong_value_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=f"option {name}"):
        build(**{name: value})
    with pytest.raises(ConfigurationError, match=f"job 'sync'.*option {name}"):
        laid_over({name: value})


@pytest.mark.parametrize("name", OPTION_NAMES)
def test_the_error_shows_the_wrong_value(name: str) -> None:
    with pytest.raises(ConfigurationError, match="parsecs"):
        build(**{name: "5 parsecs"})


def test_a_float_to_keep_is_refused_because_it_could_mean_two_things() -> None:
    with pytest.raises(ConfigurationError, match="records or seconds"):
        build(keep=10.0)


def test_a_count_and_a_duration_to_keep_are_told_apart() -> None:
    records, seconds = JobOptions(keep=60), JobOptions(keep="60s")
    assert isinstance(records.keep, int)
    assert isinstance(seconds.keep, float)
    assert records != seconds


def test_a_heartbeat_of_more_than_half_the_lease_is_refused() -> None:
    assert JobOptions(lease=10, heartbeat=5).heartbeat == 5.0
    with pytest.raises(ConfigurationError, match=r"heartbeat is 5\.1 s: right .* so 5\.0 s"):
        JobOptions(lease=10, heartbeat=5.1)


def test_a_heartbeat_waits_for_the_lease_that_a_job_may_bring() -> None:
    defaults = JobOptions(heartbeat=15)
    assert laid_over({"lease": 60}, defaults).heartbeat == 15.0
    with pytest.raises(ConfigurationError, match=r"job 'sync': option heartbeat is 15\.0 s"):
        laid_over({}, defaults)


def test_a_jitter_that_makes_runs_late_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="less than max_late"):
        JobOptions(jitter=5, max_late=5)
    assert JobOptions(jitter=400).jitter == 400.0
    with pytest.raises(ConfigurationError, match=r"job 'sync'.*less than max_late"):
        laid_over({"jitter": 400}, schedule=Every("1h"))


def test_a_jitter_as_long_as_the_interval_is_refused() -> None:
    assert laid_over({"jitter": 9.9}).jitter == 9.9
    with pytest.raises(ConfigurationError, match=r"job 'sync'.*jitter is 10\.0 s.*interval"):
        laid_over({"jitter": 10})


def test_a_job_lays_its_options_over_the_defaults_before_anything_is_derived() -> None:
    defaults = JobOptions(lease=40, max_late="1m", keep=5)
    options = laid_over({"lease": 8, "timeout": "1s"}, defaults)
    assert options == JobOptions(lease=8, max_late="1m", keep=5, timeout="1s")
    assert options.heartbeat == 2.0
    assert options.catch_up == 60.0
    assert options.given == {"lease", "max_late", "keep", "timeout"}


def test_a_job_can_set_an_option_of_the_defaults_back_to_none() -> None:
    defaults = JobOptions(timeout=5, max_late=5)
    options = laid_over({"timeout": None, "max_late": None}, defaults)
    assert options.timeout is None
    assert options.max_late == MAX_LATE


def test_a_sentinel_counts_as_not_given() -> None:
    assert laid_over({"lease": UNSET}, JobOptions(lease=8)).lease == 8.0


def test_an_unknown_option_is_refused_with_the_nearest_right_one() -> None:
    with pytest.raises(ConfigurationError, match=r"job 'sync'.*'time_out'.*did you mean 'timeout'"):
        laid_over({"time_out": 5})
    with pytest.raises(
        ConfigurationError, match=r"'zzz'; the options are lease, heartbeat, .*keep"
    ):
        laid_over({"zzz": 5})


def test_the_typed_keywords_are_the_fields() -> None:
    assert set(JobOptionArgs.__annotations__) == {f.name for f in fields(JobOptions)}


def test_catch_up_is_bound_to_the_first_sight_of_a_job_unless_it_was_given() -> None:
    assert JobOptions(max_late=5).catch_up_since_first_seen
    assert not JobOptions(catch_up=300).catch_up_since_first_seen
    assert not laid_over({}, JobOptions(catch_up=300)).catch_up_since_first_seen


def test_a_catch_up_may_be_as_late_as_either_limit_allows() -> None:
    options = JobOptions(max_late=10, catch_up=60)
    assert options.lateness_limit("catch-up") == 60.0
    assert options.lateness_limit("scheduled") == 10.0
    assert options.lateness_limit("takeover") == 10.0
    assert JobOptions(max_late=10, catch_up=0).lateness_limit("catch-up") == 10.0


def test_a_single_run_of_a_test_is_not_late() -> None:
    assert JobOptions(max_late=10).lateness_limit("manual") > 10 * 365 * DAY


@pytest.mark.parametrize(
    ("arguments", "gap", "width"),
    [
        ({}, 3600.0, 0.5),
        ({}, 1.0, 0.05),
        ({}, None, 0.5),
        ({"max_late": 1}, 3600.0, 0.25),
        ({"max_late": 1}, None, 0.25),
        ({"jitter": 3}, 3600.0, 3.0),
        ({"jitter": 3}, None, 3.0),
    ],
)
def test_the_width_of_the_jitter(
    arguments: dict[str, Any], gap: float | None, width: float
) -> None:
    assert build(**arguments).jitter_for(gap) == pytest.approx(width)


@given(
    gap=st.integers(1, 10**11).map(lambda milliseconds: milliseconds / 1000),
    jitter=st.one_of(st.none(), st.floats(0.001, 299)),
)
def test_jitter_never_reaches_the_following_slot(gap: float, jitter: float | None) -> None:
    options = JobOptions() if jitter is None else JobOptions(jitter=jitter)
    assert 0 < options.jitter_for(gap) < gap


@pytest.mark.parametrize(
    ("arguments", "records", "age"),
    [({}, 1000, DAY), ({"keep": 1000}, 1000, 0.0), ({"keep": "7d"}, 0, 7 * DAY)],
)
def test_history_is_kept_by_count_by_age_or_by_both(
    arguments: dict[str, Any], records: int, age: float
) -> None:
    kept = build(**arguments).retention("sync")
    assert (kept.job, kept.records, kept.age) == ("sync", records, age)


def test_a_run_is_kept_for_as_long_as_it_could_be_asked_for_and_a_day() -> None:
    options = JobOptions(lease=10, max_late=100, catch_up=1000, max_attempts=5)
    assert options.retention("sync") == Retention("sync", 100 + 1000 + 50 + DAY, 1000, DAY)


def test_the_largest_options_leave_a_store_a_64_bit_instant() -> None:
    kept = JobOptions(lease="3000d", max_attempts=2**63 - 1).retention("sync")
    assert kept.runs * 1000 < 2**62


def test_options_are_frozen_values() -> None:
    options = JobOptions(lease=8)
    with pytest.raises(FrozenInstanceError):
        options.lease = 9.0  # type: ignore[misc]
    assert options == JobOptions(lease="8s")
    assert hash(options) == hash(JobOptions(lease="8s"))
    assert options != JobOptions(lease=9)
    assert options != 8.0


def test_options_that_were_given_their_default_still_count_as_given() -> None:
    assert JobOptions(lease=20) != JobOptions()
    assert laid_over({"lease": 20}, JobOptions(lease=8)).lease == 20.0


def test_options_can_be_pickled() -> None:
    options = JobOptions(lease=8, keep="1h")
    copied = pickle.loads(pickle.dumps(options))
    assert copied == options
    assert copied.given == {"lease", "keep"}


def test_options_show_what_was_given() -> None:
    assert repr(JobOptions()) == "JobOptions()"
    assert repr(JobOptions(timeout="1m", lease=8)) == "JobOptions(lease=8.0, timeout=60.0)"
