"""Small clusters at random, on which the programs of two versions of a policy run.

What has no term (domains, parts of texts, the time) and what takes the solver long often differs on
one of them. The scheduler then confirms it on that cluster, as any other counterexample.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from random import Random
from typing import Any, Final

import msgspec
import z3

from policy_sched.cluster import Cache
from policy_sched.errors import PolicySchedError
from policy_sched.language import check, compile_policy
from policy_sched.language.runtime import Activation
from policy_sched.language.syntax import ast
from policy_sched.language.values import RuleError
from policy_sched.manifests import decode_object
from policy_sched.model import PodInfo
from policy_sched.plugins.rules import bind
from policy_sched.prove import counterexample
from policy_sched.prove.samples import NOW, Draws, Leaves
from policy_sched.prove.terms import Code
from policy_sched.scheduler.setup import load_cluster

#: When the pods are decided: at half past `NOW`, which is 12.
_NOW: Final = 1_767_270_600_000_000_000
#: Clusters of one policy, and pods for each.
_CLUSTERS: Final = 300
_PODS: Final = 8
_SIDES: Final = ("node", "peer", "peer2")
_KEY: Final = re.compile(r"[a-z0-9.-]+/[a-zA-Z0-9.-]+")
_OWN: Final = ("scheduling_gates", "tolerations", "node_selector", "node_name", "name")
"""What running pods do not have of pending ones."""
_SUMS: Final = ("requested", "nonZeroRequested", "podCount", "non_zero_requests")
"""What follows from the pods."""
_NUMBER, _TEXT = z3.Int("number"), z3.String("text")
"""What is drawn beside what has a term."""


def constants_of(*policies: check.CheckedPolicy) -> list[Any]:
    """Return the texts and numbers that policies and their parameters name."""
    todo: list[Any] = [*policies]
    found: dict[Any, None] = {}
    while todo:
        match todo.pop():
            case check.CheckedPolicy() as policy:
                found |= dict.fromkeys(_plain(policy.params))
                todo += [getattr(policy, name) for name in policy.__struct_fields__]
            case check.Checked() as checked:
                todo.append(checked.core)
            case ast.UserFunction() as function:
                todo.append(function.body)
            case ast.Core() as core:
                constants = (p.value for p in check.walk(core) if isinstance(p, ast.Const))
                found |= dict.fromkeys(of for constant in constants for of in _plain(constant))
            case Mapping() as inner:
                todo += inner.values()
            case tuple() | list() as parts:
                todo += parts
            case msgspec.Struct() as record:
                todo += [getattr(record, name) for name in record.__struct_fields__]
    return list(found)


def _plain(value: Any) -> Iterator[Any]:
    """Yield the texts and numbers within plain data."""
    if isinstance(value, Mapping):
        yield from _plain([*value.values()])
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _plain(part)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield value


def differing(
    name: str, sides: Sequence[Sequence[check.CheckedPolicy]], leaves: Leaves
) -> Iterator[Leaves]:
    """Yield clusters with a pod of which two versions of a policy make something else."""
    both = [[policy for policy in side if policy.name == name] for side in sides]
    policies = [policy for side in both for policy in side]
    if any(policy.inputs for policy in policies):
        return
    programs = [[compile_policy(policy)[0] for policy in side] for side in both]
    draws = _Clusters(leaves, constants_of(*policies))
    for _ in range(_CLUSTERS):
        cluster, pods = draws.cluster()
        try:
            test = counterexample.document(counterexample.Values(cluster), (), ())
        except PolicySchedError:
            continue
        cache = Cache()
        decoded = [decode_object(each, lambda *_problem: None) for each in test["objects"]]
        load_cluster(cache, [item for item in decoded if item is not None])
        cycle = Activation(now=_NOW)
        bound = [[bind(p, cache.nodes, cache.pods) for p in side if p] for side in programs]
        for pod in pods:
            values = {**cluster, **pod}
            info = counterexample.pending_pod(counterexample.Values(values))
            old, new = ([_made(one, info, cycle) for one in side] for side in bound)
            if old != new:
                yield values


def smaller(values: Leaves) -> Iterator[Leaves]:
    """Yield clusters with a node, a pod, or something else less."""
    for side in _SIDES[:0:-1]:
        if (side, "there") in values:
            yield {key: of for key, of in values.items() if key[0] != side}
    for key, of in values.items():
        if key[-1] == "length" and of:
            yield {**values, key: of - 1}
    for key, of in values.items():
        if of and key[-1] not in ("length", "there"):
            yield {other: value for other, value in values.items() if other != key}


def _made(policy: Any, pod: PodInfo, cycle: Activation) -> Any:
    """Return what a policy makes of a pod: refusals, codes and reasons by row, and raw scores."""
    try:
        held = policy.pre_enqueue(pod, cycle)
        if held or not policy.matches(pod, cycle):
            return held, None
        held = policy.before.refusal(pod, cycle, ())
        codes = None if held else policy.filters().codes(pod, cycle)
        scored = not held and policy.score is not None and policy.matches_score(pod, cycle)
        raw = policy.score.raw(pod, cycle, None, marked=True).tolist() if scored else None
    except RuleError as error:
        return str(error), None
    passed: list[Any] = [] if codes is None else codes.tolist()
    if raw is not None and passed:
        raw = [score for score, code in zip(raw, passed, strict=True) if code == 0]
    filters = policy.filters()
    reasons = [code and filters.explain_row(pod, cycle, i, code) for i, code in enumerate(passed)]
    return held, passed, raw, reasons


class _Clusters:
    """Draws clusters of up to three nodes with pods, and pending pods."""

    def __init__(self, leaves: Leaves, constants: Sequence[Any]) -> None:
        self._random = Random(5)  # noqa: S311  # examples, no secrets
        self._draws = Draws([], constants)
        self._leaves = {
            key: leaf
            for key, leaf in leaves.items()
            if key[0] in ("node", "pod", "namespace") and key[1] not in _SUMS
        }
        keys = [text for text in constants if isinstance(text, str) and _KEY.fullmatch(text)]
        named: dict[Any, Any] = {
            ("node", "allocatable", key): _NUMBER for key in ("cpu", "memory", *keys[:5])
        }
        named |= {("pod", "requests", key[2]): _NUMBER for key in named}
        for kind, part in product(("node", "pod"), ("label", "annotation")):
            plural = part if kind == "node" else f"{part}s"
            named |= {(kind, plural, key): Code(True, _TEXT) for key in keys}
        named |= {("pod", name): _TEXT for name in ("owner_uid", "owner_name", "owner_kind")}
        self._leaves = {**named, ("pod", "priority"): _NUMBER, **self._leaves}

    def cluster(self) -> tuple[Leaves, list[Leaves]]:
        """Return nodes with their pods, and pods that each may be decided with them."""
        random, values = self._random, dict[Any, Any]({NOW: 12})
        self._draws.draw_texts()
        plain = random.choice((0.1, 0.3, 0.6))
        for side in _SIDES[: random.choice((1, 1, 2, 3))]:
            values |= self._node(side, plain)
            if side != "node":
                values[side, "there"] = True
        values |= self._of("namespace", ("namespace",), plain)
        pods = [self._of("pod", ("pod",), plain) for _ in range(_PODS)]
        for pod in pods:
            length = ("pod", "scheduling_gates", "length")
            if length in pod and random.random() < 0.7:
                pod[length] = 0
        return values, list(pods)

    def _of(self, kind: str, path: tuple[Any, ...], plain: float) -> dict[Any, Any]:
        return {
            (*path, *key[1:]): self._draws.value(leaf, key, plain)
            for key, leaf in self._leaves.items()
            if key[0] == kind and key[1:2] != ("pods",)
        }

    def _node(self, side: str, plain: float) -> dict[Any, Any]:
        random = self._random
        node = self._of("node", (side,), plain)
        node.pop((side, "name"), None)
        if (side, "allocatable", "pods") in node and random.random() < 0.8:
            node[side, "allocatable", "pods"] = 110
        node[side, "pods", "length"] = count = random.choice((0, 1, 2, 3))
        for i in range(count):
            path = (side, "pods", i)
            pod = {k: v for k, v in self._of("pod", path, plain).items() if k[3] not in _OWN}
            for key, leaf in self._leaves.items():
                if key[:2] == ("node", "pods") and len(key) > 3 and key[3] not in _OWN:
                    pod[*path, *key[3:]] = self._draws.value(leaf, ("pod", *key[3:]), plain)
            node |= pod
        return node
