"""Rewrites what the tests of a YAML file expect to what happens now, where the two differ.

Theory of operation. Only values that differ are replaced, at the place where they stand, so
comments and all else stay as written. A step that states nothing, and a scenario without
``expect``, get the placement. As later steps see what earlier ones expect, the file is run and
mended until nothing differs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

import yaml
from yaml.nodes import MappingNode

from policy_sched import source
from policy_sched.errors import Diagnostic, PolicyError, PolicySchedError
from policy_sched.model import quantity_text, units
from policy_sched.policytest.comparison import as_far_as
from policy_sched.policytest.expectations import (
    EVICTION,
    STATUSES,
    ExpectedOutcome,
    ExpectedScore,
    GroupOutcome,
    PluginOutcome,
    QuotaNumber,
)
from policy_sched.policytest.reader import FieldPath, Plain
from policy_sched.policytest.report import StepResult
from policy_sched.policytest.runner import ScenarioRun, observe_scenario
from policy_sched.policytest.scenario import MAX_YAML, decision_name, load_scenarios
from policy_sched.profiles.models import full_name

ROUNDS: Final = 20
"""Far more than a file's longest chain of steps that change each other."""

_Edit = tuple[int, int, str]


def update_file(path: str, run: ScenarioRun) -> bool:
    """Mend a file; return whether it was changed.

    Raises PolicyError with the problems of the file or of its policies, and PolicySchedError
    for a file of records: what a machine wrote is not to be mended.
    """
    if not path.endswith((".yaml", ".yml")):
        raise PolicySchedError(f"{path}: only YAML files can be updated; this one holds records")
    file = source.written_in_place(path)
    content = source.decode_text(path, source.read_bytes(path, MAX_YAML))
    if isinstance(content, Diagnostic):
        raise PolicyError([content])
    first = file.read_text(encoding="utf-8")
    for _ in range(ROUNDS):
        text = file.read_text(encoding="utf-8")
        mended = _mended(path, text, run)
        if mended == text:
            break
        source.write_file(file, mended.encode())
    return mended != first


def _mended(path: str, text: str, run: ScenarioRun) -> str:
    documents, _ = source.parse_documents(source.SourceFile(path, text), None)
    edits: list[_Edit] = []
    for scenario, document in zip(load_scenarios(path, run.roots), documents, strict=True):
        results, seen = observe_scenario(scenario, replace(run, checks_names=False))
        edits += _edits(document, {r.pod: r for r in results if not r.ok}, seen)
    for start, end, new in sorted(set(edits), reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _edits(
    document: source.Marked, wrong: Mapping[str, StepResult], seen: Mapping[str, ExpectedOutcome]
) -> Iterator[_Edit]:
    """Yield what is to be replaced in one document; ``seen``: what happened to wanted pods."""
    steps = document.value.get("expect") or []
    if not steps and seen:
        placed = [_placement(got.pod, got) for got in seen.values() if got.pod]
        yield _appended(document, placed)
    times: Counter[str] = Counter()
    for i, stated in enumerate(steps):
        nothing = EVICTION if "evicted" in stated else ""
        pod = full_name(stated["pod"]) if "pod" in stated else nothing
        times[pod] += 1
        name = decision_name(pod, times[pod])
        at: FieldPath = ("expect", i)
        if set(stated) == {"pod"} and name in seen:
            full = _placement(stated["pod"], seen[name])
            yield from _extended(document, at, full)
        elif name in wrong:
            fields = {difference.field for difference in wrong[name].differences}
            got = wrong[name].got
            assert got is not None, "a step that was run has an outcome"
            yield from _changes(document, at, stated, _restated(stated, got, fields))


def _placement(name: str, got: ExpectedOutcome) -> Plain:
    """Return what is worth stating of a pod of which nothing was stated."""
    short = _short(name)
    if got.pre_enqueue is not None:
        return {"pod": short, "preEnqueue": _reasons(got.pre_enqueue)}
    if got.best:
        return {"pod": short, "chosen": got.best[0]}
    message = as_far_as("", str(got.message or ""))
    return {"pod": short, "chosen": None, **({"message": message} if message else {})}


def _restated(stated: Plain, got: ExpectedOutcome, fields: set[str]) -> Plain:
    """Return an expectation in the shape of ``stated``; ``fields`` are those that differ.

    What is stated of something that did not happen is left out.
    """
    heads = {field.partition(".")[0] for field in fields}
    new: Plain = {}
    for key, value in stated.items():
        if key not in heads:
            new[key] = value
        elif key in STATUSES:
            outcome = getattr(got, _field(key))
            if outcome is not None:
                new[key] = _plugin_outcome(value, outcome, key, fields)
        elif key == "rejected":
            outcomes = {
                node: _plugin_outcome(entry, (got.rejected or {})[node], f"rejected.{node}", fields)
                for node, entry in _mapping(value).items()
                if node in (got.rejected or {})
            }
            new |= {key: outcomes} if outcomes else {}
        elif key == "group":
            new |= {} if got.group is None else {key: _group(_mapping(value), got.group, fields)}
        elif key in OF_NAMES:
            ours = getattr(got, key) or {}
            read = OF_NAMES[key]
            named = {n: read(e, ours[n]) for n, e in _mapping(value).items() if n in ours}
            new |= {key: named} if named else {}
        elif (ours := PLAIN[key](value, got)) is not None or key == "chosen":
            new[key] = ours
    return new


def _field(key: str) -> str:
    """Return the field of an outcome for a key of an expectation."""
    return re.sub("([A-Z])", r"_\1", key).lower()


def _queue(stated: object, got: ExpectedOutcome) -> object:
    pods = {full_name(name) for name in _names(stated)}
    ours = [[_short(n) for n in equal if n in pods] for equal in got.queue or ()]
    return [equal[0] if len(equal) == 1 else equal for equal in ours if equal]


def _not_on(stated: object, got: ExpectedOutcome) -> object:
    nodes = [stated] if isinstance(stated, str) else _items(stated)
    return [node for node in nodes if node not in (got.best or ())]


def _group(stated: Plain, got: GroupOutcome, fields: set[str]) -> Plain:
    ours: Plain = {
        "name": _short(got.name or ""),
        "order": _shorts(got.order),
        "code": got.code,
        "waitingOnPreemption": bool(got.waiting),
        "victims": _shorts(got.victims),
        "condition": None if got.condition is None else asdict(got.condition),
    }
    new = {key: ours[key] if f"group.{key}" in fields else value for key, value in stated.items()}
    return {key: value for key, value in new.items() if value is not None}


PLAIN: Final[Mapping[str, Callable[[object, ExpectedOutcome], object]]] = {
    "chosen": lambda _, got: got.best[0] if got.best else None,
    "notOn": _not_on,
    "feasible": lambda _, got: sorted(got.feasible or ()),
    "best": lambda _, got: sorted(got.best or ()),
    "order": lambda stated, got: _ranked(
        [name for name in _names(stated) if name in (got.scores or {})], got.scores or {}
    ),
    "queue": _queue,
    "evicted": lambda _, got: _shorts(got.evicted),
    "allowed": lambda _, got: _shorts(got.allowed),
    "rejectedWaiting": lambda _, got: _shorts(tuple(got.rejected_waiting or ())),
    "activates": lambda _, got: _shorts(got.activates),
    "victims": lambda _, got: [pod for each in got.preemption or () for pod in each.victims],
    "devices": lambda stated, got: _devices(stated, got.devices or {}),
    "deallocated": lambda _, got: list(got.deallocated or ()),
    "preemption": lambda _, got: [
        {"node": eviction.node, "victims": list(eviction.victims)}
        for eviction in got.preemption or ()
    ],
    "nominated": lambda _, got: got.nominated,
    "placement": lambda _, got: got.placement,
    "used": lambda _, got: got.used,
    "message": lambda stated, got: as_far_as(
        stated if isinstance(stated, str) else "", str(got.message or "")
    ),
}
"""How what happened is stated, by key of an expectation."""


def _quota(stated: object, got: Mapping[str, QuotaNumber]) -> Plain:
    """Return the numbers of a quota that are stated, of the resources that are."""
    return {name: _amounts(name, value, got[name]) for name, value in _mapping(stated).items()}


def _amounts(name: str, stated: object, got: QuotaNumber) -> object:
    """Return a number of a quota; amounts that hold stay as they are written."""
    if isinstance(got, int):
        return got
    written = _mapping(stated)
    resources = sorted(written or {n for n, amount in got.items() if amount})
    return {
        n: written[n]
        if n in written and units(n, written[n]) == amount
        else quantity_text(n, amount)
        for n, amount in ((n, got.get(n, 0)) for n in resources)
        if n in got or name != "limit"
    }


def _names(stated: object) -> list[str]:
    """Return the names of a list, and those of lists in it."""
    return [n for item in _items(stated) for n in ([item] if isinstance(item, str) else item)]


def _short(pod: str) -> str:
    return pod.removeprefix("default/")


def _shorts(pods: Sequence[str] | None) -> list[str]:
    return list(map(_short, pods or ()))


def _devices(stated: object, got: Mapping[str, tuple[str, ...]]) -> object:
    if isinstance(stated, dict):
        return {request: list(got.get(request, ())) for request in stated}
    return [device for devices in got.values() for device in devices]


def _ranked(names: list[str], scores: Mapping[str, ExpectedScore]) -> list[object]:
    totals: dict[str, Any] = {name: scores[name].total for name in names}
    groups = [
        [name for name in names if totals[name] == total]
        for total in sorted(set(totals.values()), reverse=True)
    ]
    return [group[0] if len(group) == 1 else group for group in groups]


def _plugin_outcome(stated: object, got: PluginOutcome, field: str, fields: set[str]) -> object:
    if not isinstance(stated, dict):
        return _reasons(got)
    words = {"code": got.code, "plugin": got.plugin, "rule": got.rule, "reasons": _reasons(got)}
    return {
        key: words[key] if f"{field}.{key}" in fields else value for key, value in stated.items()
    }


def _reasons(outcome: PluginOutcome) -> object:
    reasons = [str(reason) for reason in outcome.reasons or ()]
    return reasons[0] if len(reasons) == 1 else reasons


def _score(stated: object, got: ExpectedScore) -> object:
    if not isinstance(stated, dict):
        return got.total
    plugins = got.plugins or {}
    new: Plain = {}
    for key, value in stated.items():
        if key == "plugins":
            new[key] = {
                name: _within(share, plugins.get(name, 0))
                for name, share in _mapping(value).items()
            }
        elif key == "total":
            new[key] = _within(value, got.total)
    limits = {key: stated[key] for key in ("min", "max") if key in stated}
    if limits:
        kept = _within(limits, got.total)
        new |= limits if kept == limits else {"total": kept}
    return new


def _within(stated: object, got: object) -> object:
    """Return limits that still hold as they are, else the number."""
    if isinstance(stated, dict) and isinstance(got, int):
        least, most = stated.get("min", got), stated.get("max", got)
        return stated if least <= got <= most else got
    return got


def _mapping(value: object) -> Plain:
    return value if isinstance(value, dict) else {}


def _items(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


OF_NAMES: Final[Mapping[str, Callable[[object, Any], object]]] = {
    "scores": _score,
    "quotas": _quota,
    "raw": lambda _, score: score,
    "placements": lambda _, score: score,
    "claims": lambda stated, claim: {name: claim.get(name) for name in _mapping(stated)},
}
"""How what happened is stated of each name, by key of an expectation."""


# Editing the text.


def _changes(document: source.Marked, at: FieldPath, old: object, new: object) -> Iterator[_Edit]:
    """Yield the edits that turn the value at ``at`` into ``new``: as few as can be."""
    if old == new:
        return
    node = document.node(at)
    if not (isinstance(old, dict) and isinstance(new, dict) and isinstance(node, MappingNode)):
        yield (*document.span(at), _flow(new))
        return
    if set(new) - set(old) or (node.flow_style and set(old) - set(new)) or not new:
        yield (*document.span(at), _flow(new))
        return
    for key, value in old.items():
        if key in new:
            yield from _changes(document, (*at, key), value, new[key])
        else:
            yield _removed(document, (*at, key))


def _removed(document: source.Marked, at: FieldPath) -> _Edit:
    """Return the edit that takes an entry of a block mapping away, with its lines."""
    text = document.file.text
    start, end = document.key_span(at)[0], document.span(at)[1]
    begin = text.rfind("\n", 0, start)
    return (begin, end, "") if not text[begin + 1 : start].strip() else (start, end, "")


def _extended(document: source.Marked, at: FieldPath, full: Plain) -> Iterator[_Edit]:
    """Yield the edit that adds to a step of which nothing is stated but the pod."""
    node = document.node(at)
    if isinstance(node, MappingNode) and not node.flow_style:
        start, _ = document.key_span((*at, "pod"))
        _, end = document.span((*at, "pod"))
        indent = " " * (document.file.position(start)[1] - 1)
        more = [f"\n{indent}{key}: {_flow(v)}" for key, v in full.items() if key != "pod"]
        yield end, end, "".join(more)
    else:
        yield (*document.span(at), _flow(full))


def _appended(document: source.Marked, steps: list[Plain]) -> _Edit:
    """Return the edit that gives a document its ``expect``."""
    start, end = document.span(())
    if document.file.text[start] == "{":
        return end - 1, end - 1, f", expect: {_flow(steps)}"
    lines = [
        f"\n{'- ' if i == 0 else '  '}{key}: {_flow(value)}"
        for step in steps
        for i, (key, value) in enumerate(step.items())
    ]
    return end, end, "\nexpect:" + "".join(lines)


def _flow(value: object) -> str:
    """Return a value as YAML on one line."""
    text = yaml.safe_dump(
        value, default_flow_style=True, width=float("inf"), allow_unicode=True, sort_keys=False
    )
    return text.removesuffix("\n").removesuffix("\n...")
