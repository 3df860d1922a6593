"""Where all pods of a group go together: each domain tried with the whole group, the best taken.

Theory of operation. This is kube-scheduler's placement algorithm for pod groups. In each domain the
pods are decided one after the other, those of higher priority first, as if there were no other
nodes; a pod that finds a node is assumed there, and its Reserve and Permit plugins run, so
that the next one sees it. A domain will do if a Permit plugin allowed one of them: that is where a
gang counts how many it has. Then the domain is rated, and all is undone before the next one is
tried. No pod is evicted for a group that is placed so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Final

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster import PodStateError
from policy_sched.errors import PluginError
from policy_sched.framework import (
    SUCCESS,
    Code,
    CycleState,
    Diagnosis,
    DryRunMarker,
    Handle,
    Placement,
    Status,
)
from policy_sched.framework.evaluate import Domain, Domains, rating
from policy_sched.model import NO_PLUGINS
from policy_sched.scheduler.attempt import Attempt, Bind, Reject
from policy_sched.scheduler.binding_cycle import undo
from policy_sched.scheduler.failure import rejectors
from policy_sched.scheduler.scheduling_cycle import select_host

Rejectors = tuple[frozenset[str], frozenset[str]]
"""The plugins that rejected a pod, and those that answered Pending."""
#: Upstream's words for a group of which too few pods find a node.
UNSCHEDULABLE: Final = "pod group is unschedulable"


@dataclass(frozen=True, slots=True)
class Member:
    """What was decided about one pod in a domain. ``allowed``: no Permit plugin lets it wait."""

    attempt: Attempt
    decision: Bind | Reject
    allowed: bool = False


@dataclass(frozen=True, slots=True)
class PlacementResult:
    """A domain with the group in it.

    ``members``: what was decided about each pod; ``placed``: how many find a node there.
    ``status``: Success, Unschedulable, or the error that ended it. ``scores``: what each
    PlacementScore plugin adds; empty where ``unrated`` says why there are none.
    """

    name: str
    nodes: int
    members: tuple[Member, ...]
    placed: int
    status: Status
    scores: Mapping[str, int] = field(default_factory=dict)
    unrated: str = ""

    @property
    def total(self) -> int:
        """The sum of its scores."""
        return sum(self.scores.values())

    def in_vain(self) -> PlacementResult:
        """Return it without the nodes that were found: the group goes elsewhere."""
        left = tuple(one for one in self.members if isinstance(one.decision, Reject))
        return replace(self, members=left)


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """The domains that were tried, and the best that will do; None: the group goes nowhere.

    ``status`` is the group's, ``rejected_by`` are the plugins that rejected its pods; ``plugins``
    generated the domains.
    """

    attempts: tuple[Attempt, ...]
    plugins: frozenset[str]
    tried: tuple[PlacementResult, ...]
    best: PlacementResult | None
    status: Status
    rejected_by: Rejectors = (NO_PLUGINS, NO_PLUGINS)


def plan_group(
    attempts: Sequence[Attempt],
    found: Domains,
    handle: Handle,
    rng: Random | None,
    watched: str = "",
) -> GroupPlan:
    """Find out where the pods of a group go; nothing is changed in the end.

    ``attempts``: its pods, of one profile, in the order in which they are decided. ``rng`` breaks
    ties, among nodes and among domains; without it the first is taken. ``watched``: the UID of a
    pod of which also is told why it was not for other nodes.
    """
    choose = partial(_decided, handle=handle, rng=rng, watched=watched)
    plan = partial(GroupPlan, tuple(attempts), frozenset(found.plugins))
    tried: list[PlacementResult] = []
    best = _Best(rng)
    rejected, pending = set(found.plugins), set[str]()
    for name, rows in found.rows.items():
        one = _try_domain(name, rows, attempts, handle, choose)
        best.take(one)
        one = one.in_vain()
        tried.append(one)
        if one.status.code is Code.ERROR:
            return plan(tuple(tried), None, one.status)
        for member in one.members:
            if isinstance(member.decision, Reject):
                more = rejectors_of(member.decision)
                rejected |= more[0]
                pending |= more[1]
    rejected_by = frozenset(rejected), frozenset(pending)
    if best.found is None:
        text = f"0/{len(tried)} placements are available"
        if tried:
            text += f", first placement status: {UNSCHEDULABLE}"
        return plan(tuple(tried), None, Status(Code.UNSCHEDULABLE, (text,)), rejected_by)
    if best.unrated and best.count > 1:
        return plan(tuple(tried), None, Status(Code.ERROR, (best.unrated,)))
    return plan(tuple(tried), best.found, SUCCESS, rejected_by)


class _Best:
    """The best of the domains that will do; of equals each has the same chance.

    Only one is held at a time: what is known of each pod in a domain takes room.
    """

    def __init__(self, rng: Random | None) -> None:
        self.found: PlacementResult | None = None
        self.count = 0
        self.unrated = ""
        self._rng = rng
        self._equals = 0

    def take(self, one: PlacementResult) -> None:
        """Look at the next domain."""
        if not one.status.ok:
            return
        self.count += 1
        self.unrated = self.unrated or one.unrated
        before = None if self.found is None else self.found.total
        if before is None or one.total > before:
            self.found, self._equals = one, 1
        elif one.total == before:
            self._equals += 1
            if self._rng is not None and self._rng.randrange(self._equals) == 0:
                self.found = one


def rejectors_of(decision: Reject) -> Rejectors:
    """Return the plugins that rejected one pod in a domain, on all nodes or after one was
    chosen."""
    return rejectors(decision if decision.diagnosis is not None else decision.status)


def _try_domain(
    name: str,
    rows: NDArray[np.intp],
    attempts: Sequence[Attempt],
    handle: Handle,
    choose: Callable[[Attempt, Domain, int], Bind | Reject],
) -> PlacementResult:
    """Put the group into a domain, see how it does there, and take it out again."""
    table = handle.nodes
    others = table.live.values[: table.n].copy()
    others[rows] = False
    domain = Domain(np.flatnonzero(others))
    held: list[tuple[Attempt, str]] = []
    members: list[Member] = []
    status = Status(Code.UNSCHEDULABLE, (UNSCHEDULABLE,))
    scores: Mapping[str, int] = {}
    unrated = ""
    try:
        for attempt in attempts:
            decision = choose(attempt, domain, rows.size)
            member = _held(attempt, decision, handle, held)
            members.append(member)
            if isinstance(member.decision, Reject):
                if member.decision.status.code is Code.ERROR:
                    words = member.decision.message
                    text = f"failed to schedule other pod from a pod group: {words}"
                    status = Status(Code.ERROR, (text,))
                    break
            elif member.allowed:
                status = SUCCESS
        placed = len(held)
        if status.ok:
            assigned = tuple((one.queued.info, node) for one, node in held)
            try:
                scores = _rated(attempts, Placement(name, rows, assigned))
            except PluginError as error:
                unrated = str(error)
    finally:
        for filter_dry_run, node in reversed(held):
            undo(filter_dry_run, node, handle)
    return PlacementResult(name, rows.size, tuple(members), placed, status, scores, unrated)


def _rated(attempts: Sequence[Attempt], placement: Placement) -> dict[str, int]:
    pods = [attempt.queued.info for attempt in attempts]
    return rating(attempts[0].profile.runner, CycleState(), pods, placement)


def _decided(
    attempt: Attempt,
    domain: Domain,
    nodes: int,
    *,
    handle: Handle,
    rng: Random | None,
    watched: str,
) -> Bind | Reject:
    """Return to which node of the domain a pod goes, or why to none of them."""
    pod, profile, table = attempt.queued.info, attempt.profile, handle.nodes
    try:
        evaluation = profile.evaluator.evaluate(pod, domain)
    except PluginError as error:
        return _broken(str(error))
    rejection = evaluation.rejection
    if rejection is not None and rejection.code is Code.ERROR:
        return _broken(rejection.message())
    best = evaluation.best()
    if best.size:
        row = best.item(0) if rng is None else select_host(best, rng)
        # Those of the group that are alike share an answer, which moves on with each of them.
        if watched != pod.uid:
            return Bind(table.names[row], row, evaluation.summary(row))
        evaluation = evaluation.snapshot()
        evaluation.filtering.statuses()  # computed now: the cluster may differ later
        return Bind(table.names[row], row, evaluation)
    diagnosis = Diagnosis(
        node_count=nodes,
        statuses=evaluation.filtering.statuses(),
        pre_filter=rejection,
        narrowed_by=evaluation.filtering.narrowed_by,
    )
    message = diagnosis.message()
    return Reject(Status(Code.UNSCHEDULABLE, (message,)), message, diagnosis)


def _held(
    attempt: Attempt,
    decision: Bind | Reject,
    handle: Handle,
    held: list[tuple[Attempt, str]],
) -> Member:
    """Assume the pod on its node, and run Reserve and Permit plugins; those that succeed are in
    ``held``."""
    if isinstance(decision, Reject):
        return Member(attempt, decision)
    filter_dry_run = Attempt(attempt.queued, attempt.profile, decision.evaluation.state.clone())
    filter_dry_run.state.write(DryRunMarker())
    pod, node, runner = filter_dry_run.queued.info, decision.node, filter_dry_run.profile.runner
    try:
        handle.cache.assume(pod, node)
    except PodStateError as error:
        return Member(attempt, _broken(str(error)))
    try:
        status = runner.run("reserve", filter_dry_run.state, pod, node).status
        if status.ok:
            status = runner.run("permit", filter_dry_run.state, pod, node).status
    except PluginError as error:
        status = Status(Code.ERROR, (str(error),))
    if status.ok or status.code is Code.WAIT:
        held.append((filter_dry_run, node))
        return Member(attempt, decision, status.ok)
    undo(filter_dry_run, node, handle)
    if not status.rejected:
        return Member(attempt, _broken(status.message()))
    message = f"0/1 nodes are available: 1 {status.message()}."
    return Member(attempt, Reject(status, message))


def _broken(message: str) -> Reject:
    return Reject(Status(Code.ERROR, (message,)), message)
