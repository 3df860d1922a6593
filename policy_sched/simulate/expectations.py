"""Reads one entry of ``expect``: the machine's full form, and what a person may write instead."""

from __future__ import annotations

from typing import Final

from policy_sched.simulate.outcome import Answer, Eviction, NodeScore, Outcome
from policy_sched.simulate.reader import WRONG_VALUE, Path, Plain, Reader
from policy_sched.simulate.short_forms import full_name

KEYS: Final = (
    "pod", "preEnqueue", "preFilter", "rejected", "feasible", "scores", "best", "chosen",
    "message", "postFilter", "preemption", "reserve", "permit",
)  # fmt: skip
CODES: Final = (
    "Success", "Error", "Unschedulable", "UnschedulableAndUnresolvable", "Wait", "Skip", "Pending",
)  # fmt: skip


def read_outcome(reader: Reader, value: object, path: Path) -> Outcome:
    """Return the expectation at ``path``; ``chosen: null`` says that the pod fits nowhere."""
    stated = reader.mapping(value, path, KEYS)
    pod = ""
    if reader.require(stated, "pod", path):
        pod = full_name(reader.text(stated["pod"], (*path, "pod")))

    def answer(key: str) -> Answer | None:
        return _answer(reader, stated[key], (*path, key)) if key in stated else None

    def texts(key: str) -> tuple[str, ...] | None:
        return reader.texts(stated[key], (*path, key)) if key in stated else None

    def text(key: str) -> str | None:
        return reader.text(stated[key], (*path, key)) if stated.get(key) is not None else None

    rejected = scores = None
    if "rejected" in stated:
        at = (*path, "rejected")
        nodes = reader.mapping(stated["rejected"], at)
        rejected = {node: _answer(reader, one, (*at, node)) for node, one in nodes.items()}
    if "scores" in stated:
        at = (*path, "scores")
        nodes = reader.mapping(stated["scores"], at)
        scores = {node: _score(reader, one, (*at, node)) for node, one in nodes.items()}
    return Outcome(
        pod=pod,
        pre_enqueue=answer("preEnqueue"),
        pre_filter=answer("preFilter"),
        rejected=rejected,
        feasible=texts("feasible"),
        scores=scores,
        best=texts("best"),
        chosen=text("chosen"),
        placed=False if "chosen" in stated and stated["chosen"] is None else None,
        message=text("message"),
        post_filter=answer("postFilter"),
        preemption=_evictions(reader, stated, path),
        reserve=answer("reserve"),
        permit=answer("permit"),
    )


def _answer(reader: Reader, value: object, path: Path) -> Answer:
    """A text or a list of texts stands for the reasons alone."""
    if isinstance(value, str | list):
        return Answer(reasons=reader.texts(value, path))
    stated = reader.mapping(value, path, ("code", "plugin", "reasons"))
    code = plugin = reasons = None
    if "code" in stated:
        code = reader.text(stated["code"], (*path, "code"))
        if code and code not in CODES:
            known = ", ".join(CODES)
            reader.problem(
                (*path, "code"), WRONG_VALUE, f'there is no code "{code}"', hint=f"known: {known}"
            )
    if "plugin" in stated:
        plugin = reader.text(stated["plugin"], (*path, "plugin"))
    if "reasons" in stated:
        reasons = reader.texts(stated["reasons"], (*path, "reasons"))
    return Answer(code, plugin, reasons)


def _score(reader: Reader, value: object, path: Path) -> NodeScore:
    """A number stands for the total alone."""
    if isinstance(value, int):
        return NodeScore(total=reader.whole(value, path))
    stated = reader.mapping(value, path, ("total", "plugins"))
    total = reader.whole(stated["total"], (*path, "total")) if "total" in stated else None
    if "plugins" not in stated:
        return NodeScore(total)
    at = (*path, "plugins")
    plugins = reader.mapping(stated["plugins"], at)
    return NodeScore(total, {k: reader.whole(v, (*at, k)) for k, v in plugins.items()})


def _evictions(reader: Reader, stated: Plain, path: Path) -> tuple[Eviction, ...] | None:
    if "preemption" not in stated:
        return None
    at = (*path, "preemption")
    return tuple(
        _eviction(reader, one, (*at, i))
        for i, one in enumerate(reader.items(stated["preemption"], at))
    )


def _eviction(reader: Reader, value: object, path: Path) -> Eviction:
    stated = reader.mapping(value, path, ("node", "victims"))
    node = ""
    if reader.require(stated, "node", path):
        node = reader.text(stated["node"], (*path, "node"))
    return Eviction(node, reader.texts(stated.get("victims"), (*path, "victims")))
