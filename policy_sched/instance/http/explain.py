"""Explanations of a running scheduler's decisions.

A pod that waits is decided once more, now and without any effect. Of a pod that has a node what was
logged at decision time is shown, if it is still kept. Users that may not read nodes see how many
each filter removes, but no single node.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import partial

from policy_sched.errors import PolicySchedError
from policy_sched.explain import Explanation, explain
from policy_sched.instance.app import Instance
from policy_sched.instance.observability import Decided
from policy_sched.model import DEFAULT_SCHEDULER, Pod, PodInfo
from policy_sched.report import Document, Report


class Unknown(PolicySchedError):  # noqa: N818 - an answer, not a failure
    """No pod of that name waits here, or runs where we know of it."""


@dataclass(frozen=True, slots=True)
class _Limited:
    """An explanation that names no node."""

    found: Explanation

    def text_lines(self) -> Iterable[str]:
        found = self.found
        if found.ignored:
            yield f"{found.pod} is not scheduled here"
        elif found.gated_by:
            yield f"{found.pod} does not enter the queue: {found.gated_by} keeps it out"
        else:
            yield f"{found.pod} fits on {found.feasible} of {found.nodes} nodes"
        if found.message:
            yield f"  {found.message}"
        for step in found.filters:
            if step.removed:
                reasons = ", ".join(f"{count} {why}" for why, count in step.reasons.items())
                yield f"  {step.name} removes {step.removed}: {reasons}"

    def document(self) -> Document:
        found = self.found
        return {
            "pod": found.pod,
            "profile": found.profile,
            "nodes": found.nodes,
            "feasible": found.feasible,
            "message": found.message,
            "gatedBy": found.gated_by,
            "rejectedBy": found.rejected_by,
            "filters": [asdict(step) for step in found.filters],
        }


@dataclass(frozen=True, slots=True)
class _Placed:
    """A pod that has a node, and what was said of its decision."""

    pod: str
    node: str
    decided: Decided | None

    def text_lines(self) -> Iterable[str]:
        yield f"{self.pod} has a node: {self.node}"
        if self.decided is None:
            yield "  It was not decided here, or that was too long ago."
        else:
            yield f"  {self.decided.why} (generation {self.decided.generation})"

    def document(self) -> Document:
        decided = None if self.decided is None else asdict(self.decided)
        return {"pod": self.pod, "node": self.node, "decided": decided}


class Explaining:
    """Explains the pods of one instance."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    async def of(self, namespace: str, name: str, *, detailed: bool) -> Report:
        """Explain one pod. Raises Unknown if there is none of that name here."""
        instance = self._instance
        await instance.settled()
        key = f"{namespace}/{name}"
        pod = next((one for one in instance.pods() if _is(one, namespace, name)), None)
        if pod is None:
            raise Unknown(f"there is no pod {key}")
        uid = pod.metadata.uid or key
        node = pod.spec.node_name or instance.scheduler.cache.node_of(uid)
        if node:
            decided = next((d for d in reversed(instance.log.last) if d.pod == key), None)
            if decided is not None and not detailed:
                decided = replace(decided, node="", why="")
            return _Placed(key, node, decided)
        waiting = instance.waiting(uid)
        if waiting is None:
            scheduler = pod.spec.scheduler_name or DEFAULT_SCHEDULER
            raise Unknown(f"pod {key} does not wait here: the scheduler {scheduler} decides")
        info, profile = waiting
        found = await instance.undisturbed(partial(self._explained, info, profile))
        return found if detailed else _Limited(found)

    def _explained(self, pod: PodInfo, profile: str) -> Explanation:
        with self._instance.metrics.unmeasured():
            return explain(self._instance.scheduler, pod, by=profile)


def _is(pod: Pod, namespace: str, name: str) -> bool:
    meta = pod.metadata
    return meta.name == name and (meta.namespace or "default") == namespace
