"""Quantity literals whose suffix does not suit the resource that they meet (PS406)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from policy_sched.language.check import Checked
from policy_sched.language.diagnostics import Problem
from policy_sched.language.lint.visitor import Finding, walk
from policy_sched.language.syntax import Call, Const
from policy_sched.language.values import QuantityType

SUFFIX: Final = "PS406"
_BINARY: Final = re.compile(r"[KMGTPE]i$")


def suffixes(checked: Checked) -> Iterator[Finding]:
    """Yield cpu with a suffix of bytes, and bytes with a suffix of cpu."""
    for part in walk(checked.core):
        match part:
            case Call(
                overload="quantity_string",
                args=(Const(value=str() as text, span=span),),
                type=QuantityType(dimension=dimension),
            ):
                message = _unsuited(text, dimension)
                if message:
                    problem = Problem(span.start, span.end, SUFFIX, message, _way_out(text))
                    yield Finding(problem, checked.text)


def _unsuited(text: str, dimension: str) -> str:
    if dimension == "cpu" and _BINARY.search(text):
        return f"{text} is an amount of bytes, and it meets cpu"
    if dimension == "bytes" and text.endswith("m"):
        return f"{text} is {text[:-1]} thousandths of a byte, and it meets an amount of bytes"
    return ""


def _way_out(text: str) -> str:
    if text.endswith("m"):
        return f'write "{text[:-1]}M" or "{text[:-1]}Mi" for megabytes or mebibytes'
    return f'cpu is counted in cores: "{text.rstrip("KMGTPEi")}", or in thousandths: "500m"'
