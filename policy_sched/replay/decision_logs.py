"""Decision logs beside a recording: what our scheduler decided, recorded from outside.

A line of a log names the policies of a profile by their hash. They are those of the recording whose
plan has this hash.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from policy_sched.diff import read_decision_log
from policy_sched.instance.observability import DecisionRecord
from policy_sched.model import Pod
from policy_sched.recording import FAILED, REJECTED, Added, Decided, Event, Modified
from policy_sched.replay.policies import PolicySet
from policy_sched.simulate import uid_of

_REASONS: Final = {"unschedulable": REJECTED, "error": FAILED}


def logged_decisions(paths: Sequence[str], sets: Mapping[str, PolicySet]) -> list[Decided]:
    """Return the decisions of logs in the order of their times; ``sets``: by hash.

    Those whose pod or UID is masked are left out. Raises PolicySchedError and OSError.
    """
    whole = {plan.content_hash: digest for digest, each in sets.items() for plan in each.plans}
    decided = [
        _decided(record, whole.get(record.content_hash, record.content_hash))
        for path in paths
        for record in read_decision_log(path)
        if record.pod and record.uid
    ]
    return sorted(decided, key=lambda decision: decision.time)


def _decided(record: DecisionRecord, policies: str) -> Decided:
    preempts = record.result == "preempting"
    return Decided(
        time=round(record.time * 1e9),
        pod=record.pod,
        uid=record.uid,
        scheduler=record.profile,
        policies=policies,
        node="" if preempts else record.node,
        nominated_node=record.node if preempts else "",
        reason=_REASONS.get(record.result, ""),
        message=record.message,
        victims=record.victims,
    )


def with_decisions(events: Iterable[Event], decided: Sequence[Decided]) -> Iterator[Event]:
    """Yield events with logged decisions, which stand in place of those seen of the same pods.

    Two clocks are not one: a decision comes after its pod came, and before its binding is seen.
    """
    return _Merge(decided).of(events) if decided else iter(events)


class _Merge:
    """Merges decisions, in the order of their times, into events."""

    def __init__(self, decided: Sequence[Decided]) -> None:
        self._logged = {decision.uid for decision in decided}
        self._left = deque(decided)
        self._by_uid: dict[str, deque[Decided]] = defaultdict(deque)
        for decision in decided:
            self._by_uid[decision.uid].append(decision)
        self._there: set[str] = set()
        self._held: dict[str, int] = {}
        """How many decisions of a pod are due that has not come."""
        self._early: Counter[str] = Counter()
        """How many decisions of a pod were told before their time."""

    def of(self, events: Iterable[Event]) -> Iterator[Event]:
        """Yield everything."""
        start = None
        for event in events:
            if start is None:
                start = event.time
                while self._left and self._left[0].time < start:
                    self._by_uid[self._left.popleft().uid].popleft()
            if isinstance(event, Decided) and event.uid in self._logged and not event.evicted:
                continue
            yield from self._due(event.time)
            yield from self._before(event)
            yield event
            yield from self._after(event)

    def _due(self, now: int) -> Iterator[Event]:
        """Yield the decisions whose time has come, of pods that are there."""
        while self._left and self._left[0].time <= now:
            uid = self._left.popleft().uid
            if self._early[uid]:
                self._early[uid] -= 1
            elif uid not in self._there:
                self._held[uid] = self._held.get(uid, 0) + 1
            else:
                yield from self._next(uid, 1)

    def _before(self, event: Event) -> Iterator[Event]:
        """Yield the decision that a binding shows, if its time is later by the log's clock."""
        if isinstance(event, Modified) and isinstance(event.object, Pod):
            uid = uid_of(event.object)
            left = self._by_uid.get(uid)
            if left and event.object.spec.node_name:
                bound = next((i for i, decision in enumerate(left, 1) if decision.node), 0)
                self._early[uid] += bound
                yield from self._next(uid, bound, event.time)

    def _after(self, event: Event) -> Iterator[Event]:
        """Yield the decisions that were due before their pod came."""
        if isinstance(event, Added) and isinstance(event.object, Pod):
            uid = uid_of(event.object)
            self._there.add(uid)
            yield from self._next(uid, self._held.pop(uid, 0), event.time)

    def _next(self, uid: str, count: int, now: int | None = None) -> Iterator[Event]:
        left = self._by_uid[uid]
        for _ in range(min(count, len(left))):
            decision = left.popleft()
            yield decision if now is None else replace(decision, time=now)
