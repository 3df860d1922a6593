"""Policies that are objects of the cluster: which there are, and what their status says.

Theory of operation. A watch signals that something has changed; what there is is listed then, from
what the process holds. Objects whose metadata and spec are as before are the same value, so writing
a status reloads nothing. After each reload every object is judged, on standbys, too. The leader
writes what differs from what the objects show: conditions at once, counts once a minute, one object
after the other. Counts go on from those that were shown when this process began to lead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from policy_sched.client.apimachinery import is_gone, timestamp
from policy_sched.errors import ClusterError, Diagnostic
from policy_sched.framework import tally
from policy_sched.instance.app import policy_status
from policy_sched.instance.observability import Metrics
from policy_sched.model import ApiObject, ObjectMeta
from policy_sched.profiles.load import Place, PolicyObject, paths_of, problem_of
from policy_sched.profiles.reload import Compilation, PolicyStore, Reload, ReloadResult
from policy_sched.scheduler import Attempt, Bind, Decision, GroupDecision, Scheduler

LOOK: Final = 0.5
"""Seconds between two looks whether there is something to write."""
EVERY: Final = 60.0
"""Seconds between two writes of counts."""
SPACING: Final = 0.05
"""Seconds between two writes."""
LONGEST: Final = 60.0
"""Seconds that an object whose status cannot be written is left alone, at most."""


class CustomRecord(ApiObject):
    """An object of a kind of ours."""

    spec: Any = None
    status: Any = None


def policy_object(record: CustomRecord) -> PolicyObject:
    """Return an object as the compiler reads it."""
    meta = {key: value for key, value in msgspec.to_builtins(record.metadata).items() if value}
    head = {"apiVersion": record.api_version, "kind": record.kind, "metadata": meta}
    raw = msgspec.json.encode({**head, "spec": record.spec})
    return PolicyObject(record.metadata.name, raw, record.metadata.generation, record.kind)


def with_status(record: CustomRecord, status: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with another status, as an update of the version that was read."""
    meta = record.metadata
    own = {"name": meta.name, "uid": meta.uid, "resourceVersion": meta.resource_version}
    head = {"apiVersion": record.api_version, "kind": record.kind, "metadata": own}
    return {**head, "spec": record.spec, "status": dict(status)}


Kept = dict[str, tuple[Any, PolicyObject]]
"""Objects by name, in this order, and by what they were told from others."""


def kept_objects(
    records: Iterable[CustomRecord], before: Kept, identity: Callable[[ObjectMeta], Any]
) -> Kept:
    """Return objects as values; those with the same identity as before are the same values."""
    kept: Kept = {}
    for record in sorted(records, key=lambda record: record.metadata.name):
        name, same = record.metadata.name, identity(record.metadata)
        known = before.get(name)
        kept[name] = known if known and known[0] == same else (same, policy_object(record))
    return kept


Objects = tuple[PolicyObject, ...]
Records = Callable[[], Iterable[CustomRecord] | None]
"""Returns the objects of a kind that there are; None while that is not known."""


class PolicyCounts:
    """What policies have done in a scheduler, from now on."""

    def __init__(self, scheduler: Scheduler, metrics: Metrics) -> None:
        self._metrics = metrics
        self._rejected: dict[str, int] = {}
        scheduler.observers.decided.append(self._decided)
        scheduler.observers.group_decided.append(self._group_decided)

    def _decided(self, _attempt: Attempt, decision: Decision, _start: float) -> None:
        if isinstance(decision, Bind):
            return
        diagnosis = decision.diagnosis
        if diagnosis is not None and diagnosis.pre_filter is not None:
            _add(self._rejected, diagnosis.pre_filter.plugin, diagnosis.node_count)
        elif diagnosis is not None:
            for status, count in tally(diagnosis.statuses).items():
                _add(self._rejected, status.plugin, count)

    def _group_decided(self, decision: GroupDecision, start: float) -> None:
        for member in decision.members:
            self._decided(member.attempt, member.decision, start)

    def totals(self) -> Callable[[str], dict[str, int]]:
        """Return the counts by policy, as they are now."""
        self._metrics.attempts.fold()
        evaluated = self._metrics.upstream.plugin_evaluation_total.values
        most: dict[tuple[str, str], float] = {}
        for (plugin, _, profile), count in evaluated.items():
            most[plugin, profile] = max(most.get((plugin, profile), 0), count)
        matched: dict[str, int] = {}
        for (plugin, _), count in most.items():
            _add(matched, plugin, int(count))
        by_name = (matched, dict(self._rejected), dict(self._metrics.attempts.broken))
        return lambda name: {
            field: of.get(name, 0) for field, of in zip(policy_status.COUNTS, by_name, strict=True)
        }


def _said(raw: bytes) -> tuple[Any, Any]:
    """Return what decides of an object."""
    data = msgspec.json.decode(raw)
    return data["spec"], data["metadata"].get("annotations")


def _add(counts: dict[str, int], name: str, count: int) -> None:
    counts[name] = counts.get(name, 0) + count


class PolicyObjects:
    """The policies of a cluster that a scheduler reads as objects. ``run`` it as a task.

    ``records`` returns those that there are; ``may_write`` returns whether this process leads and
    ``write`` merges a status into that of an object. ``told`` gets the name and the error of a
    write that failed. ``sleep`` is that of the world unless another one is set.
    ``store`` has the set in force, and the candidate of a rollout.
    """

    def __init__(
        self,
        counts: PolicyCounts,
        may_write: Callable[[], bool],
        write: Callable[[str, dict[str, Any]], Awaitable[None]],
        told: Callable[[str, str], None],
        now: Callable[[], int],
        store: PolicyStore,
    ) -> None:
        self.records: Records = tuple
        self.changed = asyncio.Event()
        """Is set when there may be something new to compile."""
        self.sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
        self._counts = counts
        self._may_write = may_write
        self._write = write
        self._told = told
        self._now = now
        self._kept: Kept = {}
        self._in_force: dict[str, PolicyObject] = {}
        self._judged: dict[str, policy_status.Judgement] = {}
        self._store = store
        self._staged: tuple[Objects, Mapping[Place, str], Reload] | None = None
        """What was read and is the candidate of a rollout."""
        self._noted: dict[str, Sequence[Diagnostic]] = {}
        self._base: dict[str, dict[str, int]] = {}
        self._failed: dict[str, tuple[int, int]] = {}
        self._due = True
        self._counted_at = 0

    def given(self) -> tuple[PolicyObject, ...]:
        """Return the policies that there are, in order of name."""
        records = self.records()
        if records is None:
            return tuple(self._in_force.values())
        self._kept = kept_objects(
            records,
            self._kept,
            lambda meta: (meta.uid, meta.generation, meta.labels, meta.annotations),
        )
        return tuple(given for _, given in self._kept.values())

    def loaded(self, objects: Iterable[PolicyObject]) -> None:
        """Note the objects of the set that a scheduler was started with."""
        self._in_force = {given.name: given for given in objects}

    def restored(self, texts: Mapping[str, str]) -> None:
        """Note the objects of a set that is in force again, by their texts."""
        now = {given.file: given for given in self.given()}
        before = []
        for file, text in texts.items():
            if file.startswith("/"):  # no object
                continue
            name, raw = file.rpartition("/")[2], text.encode()
            given = now.get(file)
            if given is None or _said(given.raw) != _said(raw):
                given = PolicyObject(name, raw)
            before.append(given)
        self.loaded(before)

    def stable(self, candidate: Compilation) -> tuple[str, dict[str, str], bool] | None:
        """Return what the status of objects says of a candidate; None if it says nothing.

        That is the hash of the set in force, its texts as far as they are known, and whether the
        candidate was aborted.
        """
        # imported here: for rollouts alone
        from policy_sched.instance.app.rollout_storage import unpacked  # noqa: PLC0415
        from policy_sched.rollout import StateError  # noqa: PLC0415

        digest, texts, aborted = "", dict(candidate.sources), True
        for record in self.records() or ():
            shown = record.status if isinstance(record.status, dict) else {}
            if shown.get("candidate") != candidate.content_hash:
                continue
            file, digest = policy_object(record).file, shown.get("hash", "")
            texts.pop(file, None)
            if shown.get("stable"):
                with suppress(StateError):  # then the set is not the one that it was
                    texts[file] = unpacked(shown["stable"], "status.stable")
            reasons = {c.get("type"): c.get("reason") for c in shown.get("conditions", ())}
            aborted = aborted and reasons.get(policy_status.IN_FORCE) == policy_status.ABORTED
        return (digest, texts, aborted) if digest else None

    def noted(self, about: str, problems: Sequence[Diagnostic]) -> None:
        """Show problems that come from the cluster, until others are noted about the same."""
        self._noted[about], self._due = problems, True

    def judge(self, objects: Objects, paths: Mapping[Place, str], reload: Reload) -> None:
        """Judge the objects that a reload read."""
        rollout: policy_status.Candidate | None = None
        staged, self._staged = self._store.staged, None
        if reload.result is ReloadResult.STAGED and staged is not None:
            self._staged = objects, paths, reload
            rollout = policy_status.Candidate(staged.content_hash, staged.plans)
        elif reload.result is not ReloadResult.REFUSED:
            self.loaded(objects)
        self._judged = policy_status.judgements(
            objects, self._in_force, reload, paths, self._judged, rollout
        )
        self._due = True

    def _look_at_rollout(self) -> None:
        """Judge anew what was the candidate of a rollout that is over."""
        if self._staged is None or self._store.staged is not None:
            return
        objects, paths, reload = self._staged
        self._staged, current = None, self._store.current
        promoted = current is not reload.policies
        if promoted:
            self.loaded(objects)
        over = msgspec.structs.replace(reload, result=ReloadResult.LOADED, policies=current)
        candidate = policy_status.Candidate(self._store.loaded.content_hash)
        rollout = None if promoted else candidate
        self._judged = policy_status.judgements(objects, self._in_force, over, paths, {}, rollout)
        self._due = True

    async def run(self) -> None:
        """Write what changed, until cancelled."""
        while True:
            await self.sleep(LOOK)
            await self.publish()

    async def publish(self) -> None:
        """Write what is due, once."""
        self._look_at_rollout()
        if not self._may_write():
            self._base.clear()
            self._due = True
            return
        counting = abs(self._now() - self._counted_at) >= EVERY * 1e9
        if not (self._due or counting):
            return
        self._due = False
        totals = self._counts.totals()
        for record in list(self.records() or ()):
            judgement = self._judged.get(record.metadata.name)
            if judgement is None or not self._may_write():
                continue
            status = self._status(record, judgement, totals, counting=counting)
            if status is not None:
                await self._written(record.metadata.name, status)
                await self.sleep(SPACING)
        if counting:
            self._counted_at = self._now()
        for kept in (self._base, self._failed):
            for name in kept.keys() - self._kept.keys():
                del kept[name]

    def _status(
        self,
        record: CustomRecord,
        judgement: policy_status.Judgement,
        totals: Callable[[str], dict[str, int]],
        *,
        counting: bool,
    ) -> dict[str, Any] | None:
        """Return the status to write, None if the object shows it or cannot be written now."""
        name, shown, now = record.metadata.name, record.status, self._now()
        if now < self._failed.get(name, (0, 0))[1] <= now + LONGEST * 1e9:
            self._due = True
            return None
        own, before = totals(name), policy_status.counts_of(shown)
        base = self._base.setdefault(name, {key: before[key] - own[key] for key in own})
        counts = {key: base[key] + own[key] for key in own} if counting or not shown else before
        status = policy_status.status_of(judgement, shown, counts, timestamp(now))
        given = self._kept[name][1] if name in self._kept else None
        noted = [p for some in self._noted.values() for p in some if given and p.file == given.file]
        if given is not None and noted:
            paths = paths_of((given,), noted)
            shown_too = msgspec.to_builtins([problem_of(problem, paths) for problem in noted])
            status["problems"] = [*status["problems"], *shown_too][: policy_status.MOST_PROBLEMS]
        same = isinstance(shown, dict) and all(shown.get(key, "") == status[key] for key in status)
        return None if same else status

    async def _written(self, name: str, status: dict[str, Any]) -> None:
        try:
            await self._write(name, status)
        except ClusterError as error:
            if is_gone(error):
                return
            tries = self._failed.get(name, (0, 0))[0] + 1
            pause = min(LONGEST, 2.0**tries)
            self._failed[name] = tries, self._now() + int(pause * 1e9)
            self._due = True
            self._told(name, str(error))
        else:
            self._failed.pop(name, None)
