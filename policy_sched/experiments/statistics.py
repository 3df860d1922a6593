"""Statistics of runs: means with intervals, quartiles, paired differences, and their words.

Theory of operation. Two sides that are run with the same seed are a pair, and a comparison uses the
differences of the pairs: effects of a seed on both sides cancel out. The interval for a mean comes
from the bootstrap: samples of the same size are drawn with replacement, and the interval covers the
middle 95 % of their means. A small sample varies less than its population, so the interval is
widened by sqrt(n / (n - 1)). The draws have a fixed seed: the same values give the same interval.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import msgspec
import numpy as np

from policy_sched.model import counted
from policy_sched.profiles.models import Measure

LEVEL: Final = 0.95
"""Confidence of the intervals."""
RESAMPLES: Final = 10_000


def seeds_to_tell(comparisons: int = 1) -> int:
    """Return with how many seeds so many differences can be told from noise, all of them at once.

    With n pairs the least p-value of a sign test is 2 / 2**n, whatever the values are: five pairs
    have the same sign by chance in 6 of 100 cases. The level is divided by the comparisons
    (Bonferroni), so that chance makes one of them look different in at most 5 of 100 cases.
    """
    return 1 + math.ceil(math.log2(comparisons / (1 - LEVEL)))


ENOUGH: Final = seeds_to_tell()
"""The fewest pairs for a difference."""


class Significance(StrEnum):
    """The significance of a mean difference."""

    EQUAL = "equal"
    """No pair differs."""
    NOISE = "noise"
    """The interval contains 0: other seeds may change the sign."""
    TOO_FEW = "too few seeds"
    """There are fewer than `ENOUGH` pairs: they cannot tell, whatever the values are."""
    DIFFERENT = "different"
    """The interval does not contain 0, or the difference is the same in all pairs."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and its interval; with a single value, both ends are the mean."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Paired:
    """The means of two sides, the mean difference (new - old), and its significance."""

    old: float
    new: float
    difference: Estimate
    verdict: Significance


class Distribution(msgspec.Struct, frozen=True, rename={"count": "runs"}):
    """Mean, median, and quartiles of some values."""

    count: int
    mean: float
    median: float
    p25: float
    p75: float


def distribution(values: Sequence[float]) -> Distribution:
    """Return the distribution of at least one value."""
    p25, median, p75 = np.percentile(np.array(values, np.float64), (25, 50, 75)).tolist()
    return Distribution(len(values), math.fsum(values) / len(values), median, p25, p75)


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean of at least one value, and its bootstrap interval."""
    sample = np.array(values, np.float64)
    mean = math.fsum(values) / len(values)
    if len(values) == 1 or np.all(sample == sample[0]):
        return Estimate(mean, mean, mean)
    draws = np.random.default_rng(0).integers(0, sample.size, (RESAMPLES, sample.size))
    tails = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
    low, high = np.quantile(sample[draws].mean(axis=1), tails).tolist()
    wider = math.sqrt(sample.size / (sample.size - 1))
    return Estimate(mean, mean + (low - mean) * wider, mean + (high - mean) * wider)


def paired(old: Sequence[float], new: Sequence[float]) -> Paired:
    """Compare two sides, value by value."""
    differences = [b - a for a, b in zip(old, new, strict=True)]
    count = len(differences)
    interval = estimate(differences)
    means = math.fsum(old) / count, math.fsum(new) / count
    return Paired(*means, interval, _verdict(differences, interval))


def _verdict(differences: Sequence[float], interval: Estimate) -> Significance:
    if not any(differences):
        return Significance.EQUAL
    if interval.low == interval.high and len(differences) > 1:
        return Significance.DIFFERENT
    if len(differences) < ENOUGH:
        return Significance.TOO_FEW
    return Significance.NOISE if interval.low <= 0 <= interval.high else Significance.DIFFERENT


# Words and numbers of reports.


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


def verdict_text(comparison: Paired, measure: Measure, pairs: int) -> str:
    """Return what a comparison says, in words."""
    match comparison.verdict:
        case Significance.EQUAL:
            return "equal in every pair"
        case Significance.NOISE:
            return "noise: other seeds may change the sign"
        case Significance.TOO_FEW:
            return f"too few seeds to tell: {counted(pairs, 'pair')} of {ENOUGH}"
        case Significance.DIFFERENT:
            if measure.better is None:
                return "different"
            higher = comparison.difference.mean > 0
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
    different = sum(comparison.verdict is Significance.DIFFERENT for _, comparison in compared)
    few = [pairs for pairs, comparison in compared if comparison.verdict is Significance.TOO_FEW]
    are = "is" if different == 1 else "are"
    text = f"{different} of {counted(total, 'difference')} from {baseline} {are} more than noise"
    if not few:
        varying = sum(
            comparison.difference.low < comparison.difference.high for _, comparison in compared
        )
        chance = round((1 - LEVEL) * varying)
        return f"{text}; chance alone makes about {chance} look so." if chance else f"{text}."
    needed = f"{ENOUGH} can tell one" if total > 1 else f"{ENOUGH} can"
    if total > 1:
        needed += f", and {seeds_to_tell(total)} all {total:,} at once"
    if max(few) == 1:
        needed += "; 2 are enough if seeds change nothing"
    are_few = f"{counted(max(few), 'seed')} {'is' if max(few) == 1 else 'are'} too few to tell"
    if len(few) < total:
        counts = Counter(comparison.verdict for _, comparison in compared)
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
