"""Tests of the table of operations."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

import policy_sched.language
from policy_sched.language.codegen.emitter import FACTORY_ARGUMENTS
from policy_sched.language.codegen.module import DEFINED
from policy_sched.language.ir import ops

LANGUAGE = Path(policy_sched.language.__file__).parent
#: What the arguments of generated functions, and their constants, are called.
GIVEN = {
    *FACTORY_ARGUMENTS,
    "pod",
    "ctx",
    "row",
    "rows",
    "d0",
    "victims",
    "nodes",
    "violations",
    "a0",
    "a1",
    "a2",
    "a3",
}


def filled(text: str) -> str:
    """Return a text with names in place of its placeholders."""
    text = text.replace("ctx.{s}", "ctx.x").replace("pod.{s}", "pod.x").replace(".{s}", ".x")
    text = text.replace("{s}", "1").replace("{d}", "d0").replace("{*}", "a0, a1")
    return re.sub(r"\{(\d)\}", r"a\1", text)


@pytest.mark.parametrize("kind", ops.KINDS.values(), ids=repr)
@pytest.mark.parametrize("form", ["scalar", "vector"])
def test_every_text_is_an_expression_over_defined_names(kind: ops.OpKind, form: str) -> None:
    """A text parses, and each name in it is a constant, an argument or a runtime function."""
    text = getattr(kind, form)
    if text:
        names = compile(filled(text), "<text>", "eval").co_names
        attributes = set(re.findall(r"\.(\w+)", filled(text)))
        assert set(names) - attributes <= GIVEN | DEFINED.keys() | {
            "float",
            "int",
            "abs",
            "min",
            "max",
        }


def test_a_row_is_a_constant_with_its_name() -> None:
    """A kind pickles as the constant of the table, so that a copy is the same kind."""
    for name, kind in ops.KINDS.items():
        assert getattr(ops, name.upper()) is kind
        assert pickle.loads(pickle.dumps(kind)) is kind


def test_no_other_module_spells_the_name_of_a_kind() -> None:
    """Outside of the table an operation is a constant of it, never a text."""
    written = re.compile(r"(?:\.kind (?:[=!]=|not in|in) [({]*|\bop\(\s*)\"(\w+)\"")
    found = [
        (path.name, name)
        for folder in ("ir", "lower", "codegen", "lint", ".")
        for path in sorted((LANGUAGE / folder).glob("*.py"))
        for name in written.findall(path.read_text(encoding="utf-8"))
        if name in ops.KINDS
    ]
    assert found == []


def test_every_row_is_used() -> None:
    """No row of the table is left that nothing creates."""
    texts = [
        path.read_text(encoding="utf-8")
        for folder in ("ir", "lower", "codegen")
        for path in (LANGUAGE / folder).glob("*.py")
        if path.name != "ops.py"
    ]
    named = {name for text in texts for name in re.findall(r"\bops\.([A-Z_]+)\b", text)}
    assert {name.upper() for name in ops.KINDS} <= named
