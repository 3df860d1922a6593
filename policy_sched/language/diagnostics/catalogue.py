"""The catalogue of the rule language's problems, and the shape of one problem inside a text."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from policy_sched.errors import Severity


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """What is wrong with ``text[start:end]`` of one expression, before it has a place in a file."""

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
MAX_RULE_COST: Final = 500  # units of one rule, see cost.py; an annotation may raise it
MAX_ANNOTATED_COST: Final = 20_000  # the most that the annotation may say
MAX_PROFILE_COST: Final = 5_000  # units of all rules of a profile
MAX_ANNOTATED_PROFILE_COST: Final = 50_000  # the same with what annotations add
MAX_PROBLEMS: Final = 100  # printed of one policy
