"""Words and numbers of reports: names with units, verdicts, numbers as people read them."""

from __future__ import annotations

from policy_sched.experiments.statistics import Paired, Significance
from policy_sched.model import counted
from policy_sched.profiles.models import Measure


def named(measure: Measure) -> str:
    """Return a measure's name with its unit."""
    unit = measure.unit or ("%" if measure.allocation or measure.percent_of else "")
    unit = unit or ("s" if measure.time else "")
    return f"{measure.name} ({unit})" if unit else measure.name


def number_text(value: float) -> str:
    """Return a number with at most six digits, and no exponent where it has no more before."""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.2f}" if abs(value) >= 1000 else f"{value:.5g}"


def verdict_text(found: Paired, measure: Measure, pairs: int) -> str:
    """Return what a comparison says, in words."""
    match found.verdict:
        case Significance.EQUAL:
            return "equal in every pair"
        case Significance.NOISE:
            return "noise: other seeds may change the sign"
        case Significance.TOO_FEW:
            return f"too few seeds to tell: {counted(pairs, 'pair')}"
        case Significance.DIFFERENT:
            if measure.better is None:
                return "different"
            higher = found.difference.mean > 0
            return "better" if higher == (measure.better == "Higher") else "worse"


def signed(value: float) -> str:
    """Return a difference with its sign."""
    return f"{value:+.4g}" if value else "0"
