"""Reads policies and expressions from the data files beside the tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from policy_sched.language import diagnostics as problems
from policy_sched.profiles.load.policy_source import as_duration

RULES = Path(__file__).parent / "rules"


def documents(name: str) -> list[dict[str, Any]]:
    """Return the list of mappings that a YAML data file holds."""
    loaded: list[dict[str, Any]] = yaml.load(
        (RULES / name).read_text(encoding="utf-8"), yaml.CSafeLoader
    )
    return loaded


def policy(spec: Mapping[str, Any]) -> problems.PolicySource:
    """Return a policy's sections as the checker takes them; sections not built are left out."""
    score = spec.get("score")
    pre_filter = spec.get("preFilter")
    return problems.PolicySource(
        name=spec.get("name", "test"),
        params=spec.get("params", {}),
        functions=tuple(
            problems.FunctionSource(
                f["name"],
                tuple(f.get("params", {}).items()),
                _text(f["expression"], f"functions[{i}].expression"),
            )
            for i, f in enumerate(spec.get("functions", ()))
        ),
        variables=tuple(
            problems.VariableSource(v["name"], _text(v["expression"], f"variables[{i}].expression"))
            for i, v in enumerate(spec.get("variables", ()))
        ),
        match_conditions=_texts(spec.get("matchConditions", ()), "matchConditions"),
        pre_enqueue=_rules(spec.get("preEnqueue", ()), "preEnqueue"),
        queue_sort=tuple(
            problems.OrderKey(
                _text(k["expression"], f"queueSort[{i}].expression"), k.get("order", "")
            )
            for i, k in enumerate(spec.get("queueSort", ()))
        ),
        pre_filter=None
        if pre_filter is None or "nodeNames" not in pre_filter
        else problems.PreFilterRule(_text(pre_filter["nodeNames"], "preFilter.nodeNames")),
        filter=_rules(spec.get("filter", ()), "filter"),
        score=None if score is None else _score(score),
        reserve=_step(spec, "reserve"),
        permit=_step(spec, "permit"),
        pre_bind=_step(spec, "preBind"),
        bind=_step(spec, "bind"),
        post_bind=_step(spec, "postBind"),
        requeue=_requeue(spec.get("requeue", {})),
        preemption=_preemption(spec.get("preemption")),
        placement=_placement(spec.get("placement")),
    )


def _placement(section: Mapping[str, Any] | None) -> problems.PlacementRule[problems.Text] | None:
    if section is None:
        return None
    stated = section.get("domain", [])
    levels = stated if isinstance(stated, list) else [stated]
    domain = tuple([_text(level, "placement.domain") for level in levels])
    score = _text(section["score"], "placement.score") if "score" in section else None
    return problems.PlacementRule(domain, score, section.get("onError"))


def _preemption(
    section: Mapping[str, Any] | None,
) -> problems.PreemptionRules[problems.Text] | None:
    if section is None:
        return None

    def keys(name: str) -> tuple[problems.OrderKey[problems.Text], ...]:
        return tuple(
            problems.OrderKey(
                _text(k["expression"], f"preemption.{name}[{i}].expression"),
                k.get("order", "Ascending"),
            )
            for i, k in enumerate(section.get(name, ()))
        )

    return problems.PreemptionRules(
        _text(section["eligible"], "preemption.eligible"),
        _text(section["victim"], "preemption.victim"),
        keys("victimOrder"),
        keys("nodeOrder"),
        _text(section["unit"], "preemption.unit") if "unit" in section else None,
    )


def _step(spec: Mapping[str, Any], section: str) -> problems.StepRule[problems.Text] | None:
    step = spec.get(section)
    if step is None:
        return None
    if not isinstance(step, dict):
        return problems.StepRule(_text(step, section))
    texts = {
        key: _text(step[key], f"{section}.{key}")
        for key in step
        if key not in ("message", "onError")
    }
    return problems.StepRule(
        texts["allow" if "allow" in step else "expression"],
        step.get("message", ""),
        texts.get("messageExpression"),
        step.get("onError"),
        as_duration(texts["timeout"]) if "timeout" in texts else None,
    )


def _requeue(requeue: Mapping[str, Any]) -> problems.RequeueRule[problems.Text]:
    hint, every = requeue.get("hint"), requeue.get("every")
    events = None
    if "events" in requeue:
        events = tuple(
            problems.EventRule(
                one["kind"],
                tuple(one["actions"]),
                _text(one["hint"], f"requeue.events[{i}].hint") if "hint" in one else None,
            )
            for i, one in enumerate(requeue["events"])
        )
    return problems.RequeueRule(
        None if hint is None else _text(hint, "requeue.hint"),
        None if every is None else as_duration(_text(every, "requeue.every")),
        events,
    )


def _score(score: Mapping[str, Any]) -> problems.ScoreRule[problems.Text]:
    normalize = score.get("normalize")
    if isinstance(normalize, dict):
        normalize = _text(normalize["expression"], "score.normalize.expression")
    return problems.ScoreRule(
        _text(score["expression"], "score.expression"),
        normalize,
        score.get("onError"),
        _texts(score.get("matchConditions", ()), "score.matchConditions"),
    )


def _text(text: object, path: str) -> problems.Text:
    return problems.Text(str(text), "rules.yaml", None, path)


def _texts(texts: Sequence[object], path: str) -> tuple[problems.Text, ...]:
    return tuple(_text(text, f"{path}[{i}]") for i, text in enumerate(texts))


def _rules(
    rules: Sequence[Mapping[str, Any]], section: str
) -> tuple[problems.Rule[problems.Text], ...]:
    return tuple(_rule(rule, f"{section}[{i}]") for i, rule in enumerate(rules))


def _rule(rule: Mapping[str, Any], path: str) -> problems.Rule[problems.Text]:
    def optional(key: str) -> problems.Text | None:
        return _text(rule[key], f"{path}.{key}") if key in rule else None

    resolvable = rule.get("resolvable", True)
    return problems.Rule(
        _text(rule["expression"], f"{path}.expression"),
        rule.get("message", ""),
        optional("messageExpression"),
        optional("reasons"),
        resolvable if isinstance(resolvable, bool) else _text(resolvable, f"{path}.resolvable"),
        rule.get("onError"),
    )
