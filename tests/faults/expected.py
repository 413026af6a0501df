"""What the attacks leave out, and what they allow, each with its reason.

Functions and the text of lines are named and not their numbers, so that only an edit of what is
named here needs a look at it.
"""

from __future__ import annotations

_MADE = (
    *("Backups.__init__", "ClaimOnlyRunner.__init__", "Engine.__init__", "Executor.__init__"),
    *("LeaseRunner.__init__", "Recovery.__init__", "Room.__init__", "Runner.__init__"),
    *("StoreQueue.__init__", "Passes.__init__", "Pace.__init__", "Outages.__init__"),
    *("Workers.__init__", "Retries.__init__", "Inbox.__init__", "Backfilling.__init__"),
)
_CALLED = (
    *("Engine.start", "Engine.stop", "Engine.add", "Engine.remove", "Engine.abandon"),
    *("Engine.resume", "Engine.stop_firing", "Engine.tell_of_stop", "Engine.called_from_inside"),
    *("StoreQueue.start", "StoreQueue.open", "StoreQueue.ask", "StoreQueue.ended", "stopped"),
    *("StoreQueue.rest", "Workers.in_thread", "Executor.in_handler", "Engine._told"),
)

OTHERS = {
    **dict.fromkeys(_MADE, "runs before there is a thread of the victim"),
    **dict.fromkeys(_CALLED, "runs in the thread of whoever calls the scheduler, or at a fork"),
    **dict.fromkeys(("Engine._resume", "Runner.resume"), "a start() before a stop() has ended"),
    "Engine._schedule_failed": "a schedule of the user's that raises",
    **dict.fromkeys(
        ("LiveRun.give_up", "Executor._thread_died", "Inbox._look_all_the_same"),
        "what is done about a defect, which no scene has",
    ),
    "Outages.put_off": "a store that answers one item by another error than its batch",
    "ClaimOnlyRunner.released": "a store without leases, of which nobody is ever told anything",
    "LeaseRunner._not_started": "no thread can be had, or the store answered too late",
}
"""Functions that no scene needs to reach."""

_LINES: dict[str, dict[str, tuple[str, ...]]] = {
    "what is done about a defect of ours or of a backend, which errors here lead to": {
        "Executor._handler_ended": ("return",),
        "Executor._recorded": ("return",),
        "Executor._take_note": ("self._winner.run_ended(run)",),
        "Workers._look": (
            "self._workers.discard(worker)",
            "self._count -= 1",
            "if worker.live is not None:",
            "self._timers.post(self._lost, worker.live)  # each guarded",
            "self._start()",
        ),
        "Retries._counted": ("return",),
        "Runner._answered": ("return",),
        "call_backend": (
            'raise RuntimeError(f"{kind} answered {len(answers)} of {len(items)} items")',
        ),
    },
    "a store in a server, which tells by way of its connection": {
        "StoreQueue._run": ("self._notifying.pass_on()",),
    },
    "no thread can be had": {
        "Executor.give_up": ("run.exception, run.error = error, error_text(error)",),
    },
    "a store that is not there when start() opens it": {
        "StoreQueue._open": (
            "except BackendUnavailable as error:",
            "if self._clock.monotonic() < give_up and not self._abandoned:",
            "self._receive(0.1)",
            "continue",
            "opened.put(error)",
            "return False",
            "self._backend.close()",
        ),
    },
    "a fork, or whoever asks the store while it is stopped": {
        "StoreQueue._take": (
            "case Rest():",
            "try:",
            "self._backend.suspend()",
            "item.resting.put(None)",
            "item.resume.get()",
        ),
        "Passes.refuse": ("if call.awaited:", "call.answer(stopped(), 0.0)"),
        "Worker.run": ("return",),
    },
    "a store that fails for a hundred reasons": {
        "Outages.report": ("self._told_at.clear()",),
    },
    "a rival that has won nothing for ten minutes": {
        "Pace.rest": ("self._rivals.popitem(last=False)",),
    },
    "a second stop(), after the first one has ended": {
        "Engine._stop": ('waker.put("closed")', 'waker.put("drained")'),
    },
    "a store that has more to prune than one call may": {
        "Engine._pruned": ("self.timers.after(0.0, self._prune_jobs, retentions)",),
    },
    "a thousand slots in a row that have succeeded": {
        "Backfilling._advance": ("self._timers.post(self._step, state, self._advance, seen)",),
        "next_missing": ("return None, seen",),
    },
    "a backfill that has to wait for a run before its first step": {
        "Backfilling._has_to_wait": ("self._show(_id(state))",),
    },
    "a backfill of a job that is paused": {
        "Backfilling._advanced": (
            "self._not_before[_id(state)] = self._clock.monotonic() + _PAUSED",
        ),
    },
    "a job that is removed while the store is asked about it": {
        "Backfilling._advance": ("self._asked.discard(_id(state))", "return"),
        "Recovery._declared": ("return",),
        "Recovery._fixed": ("return",),
        "Recovery._recovered": ("return",),
    },
    "a store that answers one item by another error than its batch": {
        "Passes._attempt_singly": (
            "pending.remove(call)  # it was put back alone, before those that came before it",
            "pending.extendleft(reversed(batch[place:]))",
            "return False",
            "later = self._outages.put_off()",
            "self._delayed[:0] = [(later, other) for other in batch[place + 1 :]]",
            "break",
        ),
        "Passes._failed": ("call.give_up is None or now < call.give_up",),
    },
    "answers that come in an order or at a moment that no scene has": {
        "Backups._ask": ("return",),
        "Backups._ask_refused": ("break",),
        "Backups._check": ("continue",),
        "Backups._looked": ("return",),
        "Backups._wait": ("self._timers.cancel(check.timer)",),
        "Backups.not_started": ("self.drop(key)",),
        "Executor._recorded": (
            'run.reason = "takeover"',
            'run.result = replace(run.result, status="interrupted")',
        ),
        "Executor._timed_out": ("return",),
        "Executor._call_handler": (
            'run.signal.set("lease-lost")  # the worker was long in coming',
            "run.signal.raise_if_set()",
        ),
        "LeaseRunner._beaten": ("return",),
        "LeaseRunner.meet": ("return",),
        "LeaseRunner._not_won": ("return",),
        "LeaseRunner._tick": ("return",),
        "Retries._try_again": ("return",),
        "Room._look_at": ("self._timers.cancel(self._late_timer)",),
        "LeaseRunner._won": (
            'late = BackendUnavailable("the store answered a won claim after its lease was over")',
            "self._not_started(request, claim, late)",
            "return",
        ),
        "Runner._dropped": (
            "self._claiming.discard((claim.job, claim.slot))",
            "self._room.leave()",
        ),
        "Runner._skip": ("self.too_late(request.job, request.slot)",),
    },
    "the same, and the unit tests do not have it either": {
        "Backups.not_started": ("return",),
        "LeaseRunner.take_over": ("self.watch(job, slot)",),
    },
}

UNREACHED = {
    (function, text): reason
    for reason, functions in _LINES.items()
    for function, texts in functions.items()
    for text in texts
}
"""Other lines, by function and text, that are executed in no scene."""

_STOP = (
    *("Engine._stop", "Engine._note_waiting", "Engine._idle", "Engine._idle.<lambda>"),
    *("Engine._closed", "Runner.stop", "LeaseRunner.stop", "Workers.end", "StoreQueue.close"),
    *("Executor.end", "StoreQueue._run", "Passes.refuse", "Workers._end"),
)
_LOST = (
    *("StoreQueue._receive", "StoreQueue._take", "StoreQueue._hear_from_now_on"),
    *("Passes._give_up"),
    *("Engine._add", "Recovery.recover", "Recovery._ask_again"),
)
_ANSWER = ("Call.answer",)
_HELD = (
    *("Runner._answered", "Runner.step", "Room.fill", "Executor._handler_ended"),
    *("ClaimOnlyRunner._answered", "ClaimOnlyRunner._won"),
)

DEAF = {
    **dict.fromkeys(_STOP, "a stop() that meets an error says False, and its process is killed"),
    **dict.fromkeys(_LOST, "what was being handed over is lost, and others run the job"),
    **dict.fromkeys(_ANSWER, "the store's answer is lost, and whoever needs it waits for ever"),
    **dict.fromkeys(_HELD, "a run, claim or place is still counted, and stop() waits in vain"),
}
"""Functions in which one error can make an instance deaf to something until it is restarted.

That is: it runs some job no longer, or a stop() says False. Its leases run out all the same, and
the others are not disturbed.
"""

MENDED = (
    *("Worker.run", "Executor._call_handler", "error_text", "Workers.reserve", "Executor._begin"),
    *("Executor._store_end", "Executor._recorded", "Executor._ask", "Executor._released"),
    *("Executor._take_note", "Executor._settle", "LeaseRunner._won", "LeaseRunner._tick"),
    *("LeaseRunner._beaten", "Recovery._ask", "Recovery._recovered", "Runner._claim"),
    *("ClaimOnlyRunner._begin", "Passes._attempt", "Recovery._fixed", "LeaseRunner.meet"),
    *("Inbox._ask", "Inbox._found", "Inbox._look_in", "Backfilling.go_on", "Backfilling._begin"),
    *("Backfilling._known", "Backfilling._advance", "Backfilling._advanced", "next_missing"),
    *("Retries.fail", "Retries.go_on", "Retries._counted", "Retries._try_again"),
    *("Executor.tell", "Executor._end_between_tries", "Executor.execute"),
)
"""Functions of which an error at any line costs one run at most, and no instance its hearing."""
