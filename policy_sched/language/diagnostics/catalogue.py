"""Problems of expressions: their codes, the limits behind some of them, and suggested names."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from policy_sched.errors import Severity


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """A problem of ``text[start:end]`` of one expression, before it has a place in a file."""

    start: int
    end: int
    code: str
    message: str
    hint: str = ""

    @property
    def severity(self) -> Severity:
        """How bad it is, by its code."""
        return codes()[self.code].severity


@dataclass(frozen=True, slots=True)
class Code:
    """What a code means, how bad it is, and an example."""

    meaning: str
    example: str
    severity: Severity = Severity.ERROR


@cache
def codes() -> dict[str, Code]:
    """Return the codes of problems, in the order of the manual."""
    rows = tomllib.loads(Path(__file__).with_name("codes.toml").read_text(encoding="utf-8"))
    return {
        code: Code(row["meaning"], row["example"], Severity(row.get("severity", "error")))
        for code, row in rows.items()
    }


#: Limits of one expression and of one policy, with their units.
MAX_SOURCE_BYTES: Final = 10_240
MAX_NODES: Final = 2_000  # of the typed tree, functions inlined
MAX_DEPTH: Final = 100  # of the syntax tree
MAX_INLINED_DEPTH: Final = 150  # of the typed tree with functions and variables written out
MAX_MACROS: Final = 32  # in one expression
MAX_MACRO_NESTING: Final = 3
MAX_LIST_ITEMS: Final = 1_024  # of one literal
MAX_ELEMENTS: Final = 2_000  # of the lists of one expression, those of its variables included
MAX_TYPE_DEPTH: Final = 32  # of the types of expressions and parameters
MAX_FIELDS: Final = 1_000  # of a policy's params, and of the records in them, all together
MAX_FUNCTION_PARAMS: Final = 64
MAX_VARIABLES: Final = 64
MAX_FUNCTIONS: Final = 32
MAX_RULES: Final = 64
MAX_PATTERN_BYTES: Final = 512
MAX_RULE_COST: Final = 500  # units of one rule, see ir/code_motion.py; an annotation may raise it
MAX_ANNOTATED_COST: Final = 20_000  # the most that the annotation may say
MAX_PROFILE_COST: Final = 5_000  # units of all rules of a profile
MAX_ANNOTATED_PROFILE_COST: Final = 50_000  # the same with what annotations add
MAX_PROBLEMS: Final = 100  # printed of one policy


_MAX_LENGTH: Final = 64


def distance(a: str, b: str) -> int:
    """Return the Damerau-Levenshtein distance: insertions, deletions, changes, swaps of two."""
    before_last: list[int] = []
    last = list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        row = [i]
        for j, right in enumerate(b, 1):
            cost = min(last[j] + 1, row[-1] + 1, last[j - 1] + (left != right))
            if i > 1 and j > 1 and left == b[j - 2] and a[i - 2] == right:
                cost = min(cost, before_last[j - 2] + 1)
            row.append(cost)
        before_last, last = last, row
    return last[-1]


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that ``name`` most likely meant, or None.

    It differs by at most max(1, len/3) typing errors; case does not count.
    """
    if len(name) > _MAX_LENGTH:
        return None
    limit = max(1, len(name) // 3)
    best: tuple[int, str] | None = None
    for candidate in sorted(set(candidates)):
        if abs(len(candidate) - len(name)) > limit:
            continue
        apart = distance(name.lower(), candidate.lower())
        if apart <= limit and apart < len(candidate) and (best is None or apart < best[0]):
            best = (apart, candidate)
    return best[1] if best else None


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` or nothing."""
    found = nearest(name, candidates)
    return f"; did you mean '{found}'?" if found else ""
