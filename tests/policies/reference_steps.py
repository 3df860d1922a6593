"""Whole decisions of the reference: filter, score and choose for one pod, as a conformance step."""

from __future__ import annotations

from dataclasses import dataclass, field

from .reference import (
    FILTERS,
    SCORES,
    UNRESOLVABLE,
    normalize,
    pod_affinity,
    required_names,
    scheduling_gates,
)
from .reference_objects import ClusterState, Json


def _status(plugin: str, code: str, reasons: list[str]) -> Json:
    return {"code": code, "plugin": plugin, "reasons": reasons}


@dataclass
class Profile:
    """Which plugins run at which point, their weights and their arguments."""

    filters: list[str] = field(default_factory=lambda: list(FILTERS))
    weights: dict[str, int] = field(
        default_factory=lambda: {
            "TaintToleration": 3,
            "NodeAffinity": 2,
            "NodeResourcesFit": 1,
            "NodeResourcesBalancedAllocation": 1,
            "ImageLocality": 1,
        }
    )
    args: dict[str, Json] = field(default_factory=dict)


def profile_of(config: Json | None) -> Profile:
    """Return the plugins of the first profile, as far as they are among the ten."""
    profile = Profile()
    if not config:
        return profile
    given = config["profiles"][0]
    profile.args = {entry["name"]: entry["args"] for entry in given.get("pluginConfig") or []}
    plugins = given.get("plugins") or {}
    for point in ("multiPoint", "filter", "score"):
        sets = plugins.get(point) or {}
        for name in [entry["name"] for entry in sets.get("disabled") or []]:
            if point != "score":
                profile.filters = [f for f in profile.filters if name not in {f, "*"}]
            if point != "filter":
                profile.weights = {n: w for n, w in profile.weights.items() if name not in {n, "*"}}
        for entry in sets.get("enabled") or []:
            if point != "filter" and entry["name"] in SCORES:
                profile.weights[entry["name"]] = entry.get("weight") or 1
            if point != "score" and entry["name"] in FILTERS:
                # Named again in multiPoint, a default plugin keeps its place in the order.
                profile.filters += [entry["name"]] if entry["name"] not in profile.filters else []
    return profile


def decide(profile: Profile, cluster: ClusterState, pod: Json) -> Json:
    """Return one step in the shape of the conformance data, without the pod's name."""
    gated = scheduling_gates(pod)
    if gated:
        code, reasons = gated
        return {"preEnqueue": {"code": code, "plugin": "SchedulingGates", "reasons": reasons}}
    rejected: Json = {}
    names = required_names(pod_affinity(pod)) if "NodeAffinity" in profile.filters else None
    if names is not None and not names:
        status = {"code": UNRESOLVABLE, "plugin": "NodeAffinity"}
        return {"preFilter": status | {"reasons": ["pod affinity terms conflict"]}, "feasible": []}
    for name, node in cluster.nodes.items():
        if names is not None and name not in names:
            reason = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
            rejected[name] = {"code": UNRESOLVABLE, "reasons": [reason]}
            continue
        for plugin in profile.filters:
            rejection = FILTERS[plugin](profile.args.get(plugin, {}), pod, node)
            if rejection:
                rejected[name] = _status(plugin, *rejection)
                break
    feasible = sorted(cluster.nodes.keys() - rejected.keys())
    step: Json = {"rejected": rejected, "feasible": feasible}
    if feasible:
        step |= score(profile, cluster, pod, feasible)
    return step


def score(profile: Profile, cluster: ClusterState, pod: Json, feasible: list[str]) -> Json:
    """Return the scores of every plugin for the feasible nodes, and the best nodes."""
    scores: dict[str, Json] = {name: {"total": 0, "plugins": {}} for name in feasible}
    for plugin, weight in profile.weights.items():
        function, kind = SCORES[plugin]
        args = profile.args.get(plugin, {})
        raw = {name: function(args, pod, cluster.nodes[name], cluster) for name in feasible}
        known = {name: value for name, value in raw.items() if value is not None}
        for name, value in (normalize(kind, known) if known else {}).items():
            scores[name]["plugins"][plugin] = value * weight
            scores[name]["total"] += value * weight
    top = max(entry["total"] for entry in scores.values())
    best = [name for name in feasible if scores[name]["total"] == top]
    return {"scores": scores, "best": best, "chosen": best[0]}
