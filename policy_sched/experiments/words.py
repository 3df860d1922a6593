"""Words and numbers of reports: names with units, verdicts, numbers as people read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from policy_sched.experiments.statistics import (
    ENOUGH,
    LEVEL,
    Paired,
    Significance,
    seeds_to_tell,
)
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
            return f"too few seeds to tell: {counted(pairs, 'pair')} of {ENOUGH}"
        case Significance.DIFFERENT:
            if measure.better is None:
                return "different"
            higher = found.difference.mean > 0
            return "better" if higher == (measure.better == "Higher") else "worse"


_KINDS: Final = {
    Significance.DIFFERENT: "more than noise",
    Significance.NOISE: "noise",
    Significance.EQUAL: "0 in every pair",
}


def told(baseline: str, compared: Sequence[tuple[int, Paired]]) -> str:
    """Return how many differences are more than noise, or that there are too few seeds to tell.

    ``compared``: of each difference the number of pairs, and what they say; at least one.
    """
    total = len(compared)
    different = sum(one.verdict is Significance.DIFFERENT for _, one in compared)
    few = [pairs for pairs, one in compared if one.verdict is Significance.TOO_FEW]
    are = "is" if different == 1 else "are"
    text = f"{different} of {counted(total, 'difference')} from {baseline} {are} more than noise"
    if not few:
        varying = sum(one.difference.low < one.difference.high for _, one in compared)
        chance = round((1 - LEVEL) * varying)
        return f"{text}; chance alone makes about {chance} look so." if chance else f"{text}."
    needed = f"{ENOUGH} can tell one" if total > 1 else f"{ENOUGH} can"
    if total > 1:
        needed += f", and {seeds_to_tell(total)} all {total:,} at once"
    if max(few) == 1:
        needed += "; 2 are enough if seeds change nothing"
    are_few = f"{counted(max(few), 'seed')} {'is' if max(few) == 1 else 'are'} too few to tell"
    if len(few) < total:
        counts = Counter(one.verdict for _, one in compared)
        parts = [
            f"{counts[verdict]} {'is' if counts[verdict] == 1 else 'are'} {words}"
            for verdict, words in _KINDS.items()
            if counts[verdict]
        ]
        others = f"the other {len(few):,}" if len(few) > 1 else "the other one"
        rest = f"{are_few} {others}, whatever was measured: {needed}."
        return f"Of {total:,} differences from {baseline}, {' and '.join(parts)}. {rest}"
    which = f"any of {total:,} differences" if total > 1 else "the difference"
    return f"{are_few} {which} from {baseline}, whatever was measured: {needed}."


def signed(value: float) -> str:
    """Return a difference with its sign."""
    return f"{value:+.4g}" if value else "0"
