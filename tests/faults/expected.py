"""What the attacks leave out, and what they allow, each with its reason.

Functions are named and not lines, so that neither list needs a look for every edit.
"""

from __future__ import annotations

_CALLER = (
    *("Backups.__init__", "ClaimOnlyRunner.__init__", "Engine.__init__", "Executor.__init__"),
    *("LeaseRunner.__init__", "Recovery.__init__", "Room.__init__", "Runner.__init__"),
    *("StoreQueue.__init__", "Workers.__init__"),
    *("Engine.start", "Engine.stop", "Engine.add", "Engine.remove", "Engine.resume"),
    *("Engine.abandon", "Engine.stop_firing", "Engine.tell_of_stop", "Engine.called_from_inside"),
    *("StoreQueue.start", "StoreQueue.open", "StoreQueue.ask", "StoreQueue.ended", "_stopped"),
    *("StoreQueue.rest", "Workers.in_thread"),
)
_RESUME = ("Engine._resume", "Runner.resume", "Engine._stop")
_DEFECT = (
    *("Call.answer", "StoreQueue._serve", "StoreQueue._run", "Runner.step", "LiveRun.give_up"),
    *("Runner._enter", "Recovery._step", "Executor.execute", "call_backend"),
)
_BROKEN = ("Backups._newest_due", "Engine._schedule_failed", "describe", "error_text")
_NO_THREAD = ("ClaimOnlyRunner._begin", "LeaseRunner._won", "LeaseRunner._not_started")
_RACES = (
    *("Backups._check", "Backups._looked", "Backups.not_started", "Executor._timed_out"),
    *("Executor._end_stored", "Executor._recorded", "Executor.give_up", "LeaseRunner._take_over"),
    *("LeaseRunner.take_over", "LeaseRunner._not_won", "LeaseRunner._tick", "Recovery._recovered"),
    *("Recovery._declared", "Recovery.catch_up_latest", "Runner._dropped", "Runner._skip"),
    *("StoreQueue._open", "StoreQueue._refuse_the_rest", "StoreQueue._requeue_delayed"),
    *("StoreQueue._attempt_singly", "StoreQueue._failed", "StoreQueue._take", "Worker._run"),
    *("Workers._retire", "ClaimOnlyRunner._failed", "LeaseRunner._check_failed"),
    "LeaseRunner._failed",
)

UNREACHED = {
    **dict.fromkeys(_CALLER, "runs in the thread of whoever calls the scheduler, or at a fork"),
    **dict.fromkeys(_RESUME, "a start() before a stop() has come to its end"),
    **dict.fromkeys(_DEFECT, "what is done about a defect, which no scene has"),
    **dict.fromkeys(_BROKEN, "a schedule or a handler's error of the user's that raises"),
    **dict.fromkeys(_NO_THREAD, "no thread can be had, or the store answered too late"),
    **dict.fromkeys(_RACES, "one branch, which needs a rare order of events: unit tests have it"),
}
"""Functions of which some line is executed in no scene."""

_STOP = (
    *("Engine._stop", "Engine._note_waiting", "Engine._idle", "Engine._closed", "Runner.stop"),
    *("LeaseRunner.stop", "Workers.end", "StoreQueue.close", "StoreQueue._run"),
    "StoreQueue._refuse_the_rest",
)
_LOST = ("StoreQueue._receive", "StoreQueue._take", "Engine._add", "Recovery.recover")
_HELD = (
    *("Runner._answered", "Runner.step", "Room.leave"),
    *("ClaimOnlyRunner._answered", "ClaimOnlyRunner._won"),
)

DEAF = {
    **dict.fromkeys(_STOP, "a stop() that meets an error says False, and its process is killed"),
    **dict.fromkeys(_LOST, "what was being handed over is lost, and others run the job"),
    **dict.fromkeys(_HELD, "a run, claim or place is still counted, and stop() waits in vain"),
}
"""Functions in which one error can make an instance deaf to something until it is restarted.

Its leases run out all the same, and the others are not disturbed.
"""

MENDED = (
    *("Worker._run", "Executor._begin", "Executor._store_end", "Executor._end_stored"),
    *(
        "Executor._take_back",
        "Executor._settle",
        "LeaseRunner._won",
        "LeaseRunner._tick",
        "LeaseRunner._beaten",
    ),
    *("Recovery._ask", "Recovery._recovered", "Runner._claim", "ClaimOnlyRunner._begin"),
    *("StoreQueue._attempt", "StoreQueue._serve", "Call.answer"),
)
"""Functions of which an error at any line costs one run at most, and no instance its hearing."""
