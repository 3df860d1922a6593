"""What an experiment may be: each limit is told at its place, before anything is made of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from policy_sched.errors import PolicySchedError
from policy_sched.experiments.reading import Loaded
from policy_sched.model import Node, Pod, PodInfo, units
from policy_sched.profiles.models import BAD_VALUE, Path
from policy_sched.simulate import known_span, require_span

MAX_TEXT: Final = 1 << 20
"""Characters of all texts of a document into which parameters were put: those of a policy file."""
MAX_VARIANTS: Final = 1_000
MAX_CHANGED: Final = 200
"""Plugins of which a variant sets params or weights."""
MAX_RUNS: Final = 100_000
MAX_PODS: Final = 500_000
"""Pods that arrive in a run, and rows of a table of them."""
MAX_KINDS: Final = 10_000
"""Kinds of rows in a computed parameter."""
MAX_POINTS: Final = 100_000
"""Points of a curve over time."""
HOUR: Final = 3600 * 1_000_000_000
"""Nanoseconds."""


def check_size(loaded: Loaded) -> None:
    """Check how many variants and runs there are; no list of them is made."""
    spec = loaded.spec
    for i, variant in enumerate((spec.base, *spec.variants)):
        at_variant: Path = ("spec", "base") if i == 0 else ("spec", "variants", i - 1)
        changed = len(variant.params) + len(variant.weights)
        if changed > MAX_CHANGED:
            message = f"params and weights of {changed:,} plugins are more than {MAX_CHANGED}"
            loaded.problem(at_variant, BAD_VALUE, message, "write a configuration", on_key=True)
    combinations = math.prod(len(axis.values) for axis in spec.matrix)
    variants = max(1, len(spec.variants)) * combinations
    seeds = spec.seeds
    runs = variants * (len(seeds) if isinstance(seeds, tuple) else seeds.count)
    if variants > MAX_VARIANTS:
        at: Path = ("spec", "matrix" if combinations > 1 else "variants")
        message = f"{variants:,} variants are more than {MAX_VARIANTS:,}"
        hint = "divide it into several experiments, or let tune search"
        loaded.problem(at, BAD_VALUE, message, hint, on_key=True)
    elif runs > MAX_RUNS:
        message = f"{runs:,} runs are more than {MAX_RUNS:,}: {variants:,} variants with each seed"
        loaded.problem(("spec", "seeds"), BAD_VALUE, message, "take fewer seeds", on_key=True)


def check_work(loaded: Loaded, nodes: Sequence[Node], pods: Sequence[Pod]) -> None:
    """Check how many pods arrive in a run, how long it lasts, and the points of its curve."""
    arrivals, at = loaded.spec.workload.arrivals, ("spec", "workload", "arrivals")
    count = len(pods)
    if count > MAX_PODS:
        message = f"{count:,} pods are more than {MAX_PODS:,}"
        loaded.problem(("spec", "workload"), BAD_VALUE, message, "take a part", on_key=True)
        return
    if arrivals is not None and arrivals.inflate is not None:
        count = _inflated(arrivals.inflate.resource, arrivals.inflate.percent, nodes, pods)
        if count > MAX_PODS:
            message = f"some {count:,} pods are drawn, more than {MAX_PODS:,}"
            hint = "a smaller percent, or pods that request more"
            loaded.problem((*at, "inflate", "percent"), BAD_VALUE, message, hint)
            return
    if arrivals is None:
        span = known_span(pods, departures=loaded.spec.workload.departures)
        _check_span(loaded, span, ("spec", "workload"))
    elif arrivals.every is not None:
        _check_span(loaded, arrivals.every * max(count - 1, 0), (*at, "every"))


def _check_span(loaded: Loaded, span: int, at: Path) -> None:
    """Check a length of virtual time; ``span``: nanoseconds that a run lasts at least."""
    spec = loaded.spec
    try:
        require_span(span, spec.stop.after)
    except PolicySchedError as error:
        hint = "stop: {after: 1000h} ends runs earlier"
        loaded.problem(at, BAD_VALUE, str(error), hint, on_key=True)
        return
    if spec.stop.after is not None:
        span = min(span, spec.stop.after)
    curve = spec.curve
    if curve is not None and curve.time and span / HOUR > curve.step * MAX_POINTS:
        message = f"{span / HOUR / curve.step:,.0f} points are more than {MAX_POINTS:,}"
        loaded.problem(("spec", "curve", "step"), BAD_VALUE, message, "a larger step")


def _inflated(resource: str, percent: float, nodes: Sequence[Node], pods: Sequence[Pod]) -> int:
    """Return about how many pods request so many percent of the nodes."""
    requests = [PodInfo.of(pod).requests.get(resource, 0) for pod in pods]
    whole = sum(units(resource, node.status.allocatable.get(resource, 0)) for node in nodes)
    total = sum(requests)
    return int(whole * percent / 100 / total * len(pods)) if total else 0
