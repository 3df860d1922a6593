"""The report of an explanation: text, plain data, and the simulator's annotations."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from policy_sched.explain.devices import (
    ClaimSteps,
    RatedStep,
    change_text,
    devices_lines,
    rated_lines,
)
from policy_sched.model import counted, quantity_text
from policy_sched.queue import held_text
from policy_sched.report import Document, table

NAMED: Final = 3
"""Nodes, or pods, that a sentence names."""


@dataclass(frozen=True, slots=True)
class FilterStep:
    """One filter: a plugin, or a rule of a policy."""

    plugin: str
    name: str
    removed: int
    """Nodes it rejected of those the earlier filters left."""
    alone: int
    """Of all nodes."""
    left: int
    """Nodes left after it."""
    reasons: Mapping[str, int]
    """The number of removed nodes with each reason."""


@dataclass(frozen=True, slots=True)
class NodeScore:
    """A node's total, and the part of each plugin: its normalised score times its weight."""

    node: str
    total: int
    plugins: Mapping[str, int]
    raw: Mapping[str, float] = field(default_factory=dict)
    """Each plugin's score before normalisation."""


@dataclass(frozen=True, slots=True)
class PlacementStep:
    """A domain in which the pod's group was tried as a whole."""

    name: str
    nodes: int
    placed: int
    """Pods of the group, of ``pods``, that fit."""
    pods: int
    feasible: bool
    """These are enough."""
    score: int
    """The sum of ``plugins``, 0 if the domain is not feasible."""
    plugins: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Alternative:
    """A change that would change the decision."""

    kind: str
    """filter, score or resource."""
    name: str
    """A plugin, a rule or a resource."""
    fits: int
    """The number of nodes that would be feasible."""
    best: tuple[str, ...]
    """The nodes with the highest total among them."""
    amount: str = ""
    """The reduction of a resource's request."""


class QueuePosition(msgspec.Struct, frozen=True, rename="camel"):
    """In which of several queues a pod waits: see docs/queue-order.md."""

    name: str
    ahead: int
    """Pods of the queue that are ready and come before it."""
    head: str
    """The first of these, "" if there are none."""
    held_by: str
    """The pod that holds it, if the queue is strict and that one was tried in vain; else ""."""


class QuotaStep(msgspec.Struct, frozen=True, rename="camel"):
    """The quota that the pod counts to, without the pod, by resource."""

    name: str
    used: dict[str, int]
    nominal: dict[str, int]
    limit: dict[str, int]
    available: dict[str, int]
    """In a tree, else empty."""
    borrowers: dict[str, dict[str, int]]
    """Quotas of its tree, where there is one, that use more than their own, and how much more."""


class NotVictims(msgspec.Struct, frozen=True, rename="camel"):
    """Pods that may not be evicted for the pod, and the part of ``victim`` that is false."""

    policy: str
    part: str
    pods: list[str]


class Explanation(msgspec.Struct, rename="camel"):
    """The reasons for a pod's node, or for having none."""

    pod: str
    profile: str
    content_hash: str = ""
    nodes: int = 0
    message: str = ""
    """kube-scheduler's message if no node is feasible, the error if one occurred."""
    failed: bool = False
    """An error occurred, so it is unknown where the pod fits."""
    ignored: bool = False
    """No profile has the pod's schedulerName, so that it is never decided."""
    gated_by: str = ""
    rejected_by: str = ""
    filters: list[FilterStep] = []
    feasible: int = 0
    rejections: dict[str, tuple[str, list[str]]] = {}
    """By node the plugin that rejected it first, and its reasons."""
    scores: list[NodeScore] = []
    weights: dict[str, int] = {}
    """Weights that policies state for the pod, by plugin, where they are not the profile's."""
    best: list[str] = []
    """The nodes with the highest total, one of which is chosen at random."""
    nominated_node: str = ""
    victims: list[str] = []
    alternatives: list[Alternative] = []
    placements: list[PlacementStep] = []
    """The domains in which the pod's group was tried as a whole; none for other pods."""
    placement: str = ""
    """The chosen one of these domains."""
    unmatched: list[str] = []
    """Policies that do not apply to the pod, since a matchCondition is false."""
    failed_scores: dict[str, str] = {}
    """By policy the number of nodes that score 0 because its score fails there, and why."""
    unanswered: dict[str, str] = {}
    """By policy the URLs that its rules ask, where there is no answer here."""
    ahead: int = 0
    """Pods ahead of it in the queue."""
    queue: QueuePosition | None = None
    """Its place among the pods of its queue, where there are several queues."""
    not_victims: list[NotVictims] = []
    """Pods that policies with quotas refuse as victims, where the pod has no room."""
    quotas: list[QuotaStep] = []
    """Those that the pod counts to: one for each policy that has quotas."""
    after_queue: bool = False
    """The pods ahead were decided first."""
    node: str = ""
    """The pod's node after the queue, empty if it has none."""
    skipped_extenders: dict[str, str] = {}
    """Errors of ignorable extenders, by name: the decision was made without them."""
    claims: ClaimSteps | None = None
    """Why devices do not suffice, if they do not."""
    rated: list[RatedStep] = []
    """Scores and refusals of devices on the first of ``best``."""

    def text_lines(self) -> Iterator[str]:
        """Yield the explanation as text."""
        yield from head_lines(self)
        yield from (f"  {line}" for quota in self.quotas for line in quota_lines(quota))
        for kept in self.not_victims:
            yield f"  no victims for {kept.policy}: {some(kept.pods)}; this is false: {kept.part}"
        if self.placements:
            yield ""
            yield from _placements(self)
        if self.filters and self.nodes:
            yield ""
            yield from _filters(self)
        devices = [] if self.claims is None else list(devices_lines(self.claims))
        if devices:
            yield ""
            yield from devices
        if self.scores:
            yield ""
            yield from _scores(self.scores, self.weights)
            yield ""
            yield from what_decided(self)
        if self.rated:
            yield ""
            yield from rated_lines(self.rated, self.best[0])
        changes = change_lines(self)
        if changes:
            yield ""
            yield "What would change that:"
            yield from (f"  {line}" for line in changes)

    def document(self) -> Document:
        """Return the explanation as plain data; amounts are in the scheduler's units."""
        document: Document = msgspec.to_builtins(self)
        return document

    def annotations(self) -> dict[str, str]:
        """Return the annotations that kube-scheduler-simulator writes on a pod.

        Each value is JSON text: by node and plugin ``passed``, a reason or a score; its web
        interface shows the first three.
        """
        plugins = list(dict.fromkeys(step.plugin for step in self.filters))
        filters: dict[str, dict[str, str]] = {}
        for node, (plugin, reasons) in self.rejections.items():
            before = plugins[: plugins.index(plugin)] if plugin in plugins else []
            filters[node] = {**dict.fromkeys(before, "passed"), plugin: ", ".join(reasons)}
        for score in self.scores:
            filters[score.node] = dict.fromkeys(plugins, "passed")
        final = {
            score.node: {plugin: str(share) for plugin, share in score.plugins.items()}
            for score in self.scores
        }
        raw = {
            score.node: {plugin: str(value) for plugin, value in score.raw.items()}
            for score in self.scores
        }
        values: dict[str, Any] = {
            "filter-result": filters,
            "score-result": raw,
            "finalscore-result": final,
        }
        if self.nominated_node:
            victims = {self.nominated_node: {"DefaultPreemption": "preemption victim"}}
            values["postfilter-result"] = victims
        written = {PREFIX + key: json.dumps(value, sort_keys=True) for key, value in values.items()}
        if len(self.best) == 1:
            written[f"{PREFIX}selected-node"] = self.best[0]
        return written


PREFIX: Final = "kube-scheduler-simulator.sigs.k8s.io/"
"""Prefix of the annotations that kube-scheduler-simulator's web interface shows."""


def head_lines(explanation: Explanation) -> Iterator[str]:
    """Yield the lead, and below it what must be known of it."""
    yield from _head(explanation)
    for extender, error in explanation.skipped_extenders.items():
        yield f"  extender {extender} failed and is ignored: {error}"
    yield from _queue(explanation)
    for name in explanation.unmatched:
        yield f"  {name} does not apply to it: a matchCondition is false"
    for name, failure in explanation.failed_scores.items():
        yield f"  the score of {name} {failure}"
    for name, urls in explanation.unanswered.items():
        yield f"  {name} asks {urls}, which is not asked here: its rules count as without an answer"


def change_lines(explanation: Explanation) -> list[str]:
    """Return what would change the decision, the devices of claims first."""
    changes = (
        [] if explanation.claims is None else list(map(change_text, explanation.claims.changes))
    )
    return changes + [
        _alternative(alternative, explanation) for alternative in explanation.alternatives
    ]


def _head(explanation: Explanation) -> Iterator[str]:
    pod, nodes = explanation.pod, _nodes(explanation.nodes)
    if explanation.ignored:
        yield f"{pod} is not scheduled here"
        yield f"  {explanation.message}"
    elif explanation.gated_by:
        yield f"{pod} does not enter the queue: {explanation.gated_by} keeps it out"
        yield f"  {explanation.message}"
    elif explanation.failed:
        yield f"{pod} is not placed: the attempt fails, and is tried again after a backoff"
        yield f"  {explanation.message}"
    elif explanation.best and explanation.after_queue and not explanation.node:
        verb = "is" if explanation.nodes == 1 else "are"
        yield f"{pod} is not placed, though {explanation.feasible} of {nodes} {verb} feasible"
        yield f"  {explanation.message}"
    elif explanation.best:
        best, feasible = explanation.best, explanation.feasible
        where = explanation.node or (best[0] if len(best) == 1 else f"one of {some(best)}")
        yield f"{pod} goes to {where}: the best of {feasible} feasible, {nodes} in all"
        if explanation.placement:
            yield f"  its group goes to placement {explanation.placement}"
    elif explanation.rejected_by:
        yield f"{pod} fits nowhere: {explanation.rejected_by} rejects it, whatever the node"
        yield f"  {explanation.message}"
    elif explanation.nominated_node:
        yield f"{pod} fits nowhere yet; it preempts pods on {explanation.nominated_node}"
        yield f"  victims: {', '.join(explanation.victims)}"
        yield f"  {explanation.message}"
    elif explanation.placements:
        count = len(explanation.placements)
        tried = "not in the only placement" if count == 1 else f"in none of {count} placements"
        yield f"{pod} fits nowhere: its group fits {tried}"
        yield f"  {explanation.message}"
    elif not explanation.nodes:
        yield f"{pod} fits nowhere: there are no nodes"
        yield f"  {explanation.message}"
    elif explanation.nodes == 1:
        yield f"{pod} does not fit on the only node"
        yield f"  {explanation.message}"
    else:
        yield f"{pod} fits on none of {nodes}"
        yield f"  {explanation.message}"


def some(names: Sequence[str]) -> str:
    """Return the first of some names as a text, and how many more there are."""
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _queue(explanation: Explanation) -> Iterator[str]:
    """Yield the position of the pod in the queue."""
    queue = explanation.queue
    held = held_text(queue.name, queue.held_by) if queue is not None and queue.held_by else ""
    if held:
        if held != explanation.message:  # else the lead says so
            yield f"  {held}"
        return
    if explanation.after_queue:
        ahead = f"the {counted(explanation.ahead, 'pod')}" if explanation.ahead else "no pods"
        yield f"  decided after {ahead} ahead of it in the queue, as simulate does"
    elif explanation.ahead:
        are = "is" if explanation.ahead == 1 else "are"
        ahead = f"{counted(explanation.ahead, 'pod')} {are} ahead of it in the queue"
        yield f"  {ahead}; --after-queue decides {'it' if explanation.ahead == 1 else 'them'} first"
    if queue is not None and queue.ahead:
        behind = f"behind {counted(queue.ahead, 'pod')}"
        yield f'  it waits in the queue "{queue.name}" {behind}, the first of which is {queue.head}'
    elif queue is not None:
        yield f'  it is the first of the queue "{queue.name}"'


def quota_lines(quota: QuotaStep) -> Iterator[str]:
    """Yield the amounts of a quota, and its borrowers."""
    parts = []
    for resource, *amounts in quota_rows(quota):
        used, nominal, limit, available = amounts
        most = f", limit {limit}" if limit else ""
        room = f", {available} available" if available else ""
        parts.append(f"{resource} {used} used of {nominal}{most}{room}")
    yield f"quota {quota.name}: {'; '.join(parts) or 'it grants nothing'}"
    if quota.borrowers:
        yield f"beyond their own: {some(borrower_texts(quota))}"


def quota_rows(quota: QuotaStep) -> list[list[str]]:
    """Return a row for each resource: its name, used, nominal, limit, available ("": none)."""

    def text(name: str, amounts: Mapping[str, int]) -> str:
        return quantity_text(name, amounts[name]) if name in amounts else ""

    return [
        [
            name,
            text(name, {name: 0, **quota.used}),
            text(name, {name: 0, **quota.nominal}),
            text(name, quota.limit),
            text(name, quota.available),
        ]
        for name in sorted({*quota.nominal, *quota.limit} or quota.used)
    ]


def borrower_texts(quota: QuotaStep) -> list[str]:
    """Return the quotas that use more than their own, each with how much more."""
    return [
        f"{name} ({', '.join(f'{n} {quantity_text(n, amount)}' for n, amount in more.items())})"
        for name, more in quota.borrowers.items()
    ]


def _placements(explanation: Explanation) -> Iterator[str]:
    """Yield a row per domain in which the pod's group was tried."""
    heads, rows = placement_rows(explanation)
    yield from table([[head.upper() for head in heads[:4]] + heads[4:], *rows],
                     range(1, len(heads)), gap="  ")  # fmt: skip


def placement_rows(explanation: Explanation) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows of the domains in which the pod's group was tried."""
    plugins = sorted({plugin for step in explanation.placements for plugin in step.plugins})
    several = plugins if len(plugins) > 1 else []
    rows = [
        [
            step.name,
            str(step.nodes),
            f"{step.placed} of {step.pods}",
            str(step.score) if step.feasible else "infeasible",
            *(str(step.plugins.get(plugin, "")) for plugin in several),
        ]
        for step in explanation.placements
    ]
    return ["Placement", "Nodes", "Pods placed", "Score", *several], rows


def _filters(explanation: Explanation) -> Iterator[str]:
    """Yield the filters that remove a node, and the number of the others."""
    heads = ("FILTER", "REMOVES", "ALONE", "LEFT", "REASONS")
    rows = [
        (
            step.name,
            str(step.removed),
            str(step.alone),
            str(step.left),
            ", ".join(reason_texts(step)),
        )
        for step in removing(explanation)
    ]
    if rows:
        yield from table([heads, *rows], (1, 2, 3), gap="  ")
    others = others_text(explanation)
    if others:
        yield others


def removing(explanation: Explanation) -> list[FilterStep]:
    """Return the filters that remove a node, if only by themselves."""
    return [step for step in explanation.filters if step.alone]


def reason_texts(step: FilterStep) -> list[str]:
    """Return a filter's reasons, each with the number of its nodes."""
    return [f"{count} {reason}" for reason, count in step.reasons.items()]


def others_text(explanation: Explanation) -> str:
    """Return how many filters remove no node; empty if there are none."""
    telling = len(removing(explanation))
    silent = len(explanation.filters) - telling
    others = "filters" if silent > 1 else "filter"
    return f"{silent} {'other ' * bool(telling)}{others} would let every node pass" * bool(silent)


def _scores(scores: Sequence[NodeScore], weights: Mapping[str, int]) -> Iterator[str]:
    """Yield a column per node and a row per plugin; plugins with equal scores are one row."""
    rows = [("SCORE", *(score.node for score in scores))]
    named = {name: f"{name} (weight {weight})" for name, weight in weights.items()}
    rows += [(named.get(name, name), *map(str, part)) for name, part in score_shares(scores)]
    rows.append(("total", *(str(score.total) for score in scores)))
    yield from table(rows, range(1, len(scores) + 1), gap="  ")


ALIKE: Final = "the same for each: "
"""The beginning of the name of plugins that are taken together."""


def score_shares(scores: Sequence[NodeScore]) -> list[tuple[str, list[int]]]:
    """Return what each plugin adds to each node; plugins with equal scores are taken together."""
    plugins = list(scores[0].plugins)
    telling = [p for p in plugins if len({s.plugins[p] for s in scores}) > 1 or len(scores) == 1]
    alike = [p for p in plugins if p not in telling and scores[0].plugins[p]]
    shares = [(plugin, [score.plugins[plugin] for score in scores]) for plugin in telling]
    if alike:
        total = sum(scores[0].plugins[plugin] for plugin in alike)
        count = counted(len(alike), "plugin")
        shares.append((f"{ALIKE}{count}", [total] * len(scores)))
    return shares


def what_decided(explanation: Explanation) -> Iterator[str]:
    """Yield ties, and by which scores the best node beats the next one."""
    first = explanation.scores[0]
    if len(explanation.best) > 1:
        nodes = len(explanation.best)
        yield f"{nodes} nodes have the highest total; one of them is chosen at random"
    rest = [score for score in explanation.scores if score.node not in explanation.best]
    if not rest:
        return
    second = rest[0]
    shares = {p: first.plugins[p] - second.plugins[p] for p in first.plugins}
    decided = sorted((p for p in shares if shares[p]), key=lambda p: (-abs(shares[p]), p))
    parts = ", ".join(f"{plugin} {shares[plugin]:+d}" for plugin in decided)
    yield f"{first.node} beats {second.node} by {first.total - second.total}: {parts}"


def _alternative(alternative: Alternative, explanation: Explanation) -> str:
    if alternative.kind == "resource":
        less = quantity_text(alternative.name, int(alternative.amount))
        fits = f"it would fit on {_nodes(alternative.fits)}: {_best_nodes(alternative)}"
        return f"with {less} less {alternative.name} {fits}"
    if alternative.kind == "score":
        return f"without the score of {alternative.name}, {_best_nodes(alternative)} would win"
    if explanation.best:
        return f"without {alternative.name}, {_best_nodes(alternative)} would win"
    best = "" if alternative.fits == len(alternative.best) else "the best of them "
    fits = f"it would fit on {_nodes(alternative.fits)}: {best}{_best_nodes(alternative)}"
    return f"without {alternative.name} {fits}"


def _best_nodes(alternative: Alternative) -> str:
    more = alternative.fits - len(alternative.best) if alternative.kind == "resource" else 0
    return " or ".join(alternative.best) + (f" and {more} more" if more > 0 else "")


def _nodes(count: int) -> str:
    return counted(count, "node")
