"""Shows rule coverage: as text, as plain data for JSON, and as one number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from policy_sched.policytest.coverage import SpotCoverage


def percent(found: Sequence[SpotCoverage]) -> float:
    """Return how many of the rules are covered, in percent; conditions within them do not count.

    Without any rule it is 100.
    """
    rules = [one for one in found if one.spot.is_rule]
    return 100.0 * sum(one.covered for one in rules) / len(rules) if rules else 100.0


def coverage_lines(found: Sequence[SpotCoverage]) -> Iterator[str]:
    """Yield a line for each rule and condition that lacks something, below its file."""
    for file, group in groupby(found, key=lambda one: one.spot.file):
        spots = list(group)
        yield f"{file}: {_counts(spots)}"
        for one in spots:
            if not one.covered:
                spot = one.spot
                yield (
                    f"  {file}:{spot.line}:{spot.column}: {spot.policy}.{spot.path}: "
                    f"{_lack(one)}: {_shortened(spot.text)}"
                )
    yield f"rule coverage {percent(found):.1f} %: {_counts(found)}"


def _lack(one: SpotCoverage) -> str:
    return f"never {' or '.join(one.missing)}" + (", it failed" if "error" in one.seen else "")


def _counts(found: Sequence[SpotCoverage]) -> str:
    rules = [one.covered for one in found if one.spot.is_rule]
    conditions = [one.covered for one in found if not one.spot.is_rule]
    parts = f"{sum(conditions)} of {len(conditions)} conditions within rules"
    return f"{sum(rules)} of {len(rules)} rules, {parts}"


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def coverage_data(found: Sequence[SpotCoverage]) -> dict[str, Any]:
    """Return every rule and condition with its place, what was seen and what was not."""
    return {
        "percent": round(percent(found), 2),
        "rules": [_entry(one) for one in found if one.spot.is_rule],
        "conditions": [_entry(one) for one in found if not one.spot.is_rule],
    }


def _entry(one: SpotCoverage) -> dict[str, Any]:
    spot = one.spot
    return {
        "file": spot.file,
        "line": spot.line,
        "column": spot.column,
        "policy": spot.policy,
        "rule": spot.path,
        "text": spot.text,
        "covered": one.covered,
        "seen": list(one.seen),
        "missing": list(one.missing),
    }
