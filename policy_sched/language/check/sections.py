"""What a section's value must be: the type that it declares, and nothing empty of type."""

from __future__ import annotations

from policy_sched.language.check.operators import is_empty_literal
from policy_sched.language.check.scope import Scope
from policy_sched.language.stdlib import ANY, DEFINITION, Section
from policy_sched.language.syntax import Core
from policy_sched.language.values import (
    DOUBLE,
    DURATION,
    ERROR,
    INT,
    RAW,
    RESOURCES,
    SELECTOR,
    STRING,
    UNKNOWN,
    ListType,
    MapType,
    OptionalType,
    QuantityType,
    RecordType,
    Type,
    join,
)


def check_result(tree: Core, section: Section, scope: Scope) -> Core:
    """Check the type of a section's value; return the tree, or a silent one after a problem."""
    kind = tree.type
    if kind in (ERROR, UNKNOWN) or section.name == ANY:
        return tree
    if section.name == DEFINITION:
        return _check_definition(tree, scope)
    if any(join(kind, allowed) is not None for allowed in section.results):
        return tree
    hint = _hint(kind, section)
    if "message" in section.name.lower():
        return scope.wrong("PS306", tree.span, f"a message must be string, found {kind}", hint)
    if section.name == "postBind":
        message = f"postBind must be string, the note of an event, found {kind}"
        return scope.wrong("PS306", tree.span, message, hint)
    if _is_compound(kind):
        message = f"{section.name} must be {section.expected}, found {kind}"
        return scope.wrong("PS305", tree.span, message, hint)
    code = "PS302" if section.results == (INT, DOUBLE) else "PS301"
    message = f"{section.name} must be {section.expected}, found {kind}"
    return scope.wrong(code, tree.span, message, hint)


def _check_definition(tree: Core, scope: Scope) -> Core:
    """A variable or function may be of any type that its text gives away."""
    if is_empty_literal(tree):
        hint = "use it where the type is known, or write an element"
        return scope.wrong("PS205", tree.span, "the type cannot be inferred", hint)
    if tree.type == RAW:
        message = "a parameter whose values have different shapes is only read by builtins"
        return scope.wrong("PS203", tree.span, message)
    return tree


def _is_compound(kind: Type) -> bool:
    compound = isinstance(kind, ListType | MapType | OptionalType | RecordType)
    return compound or kind in (RESOURCES, SELECTOR, RAW)


def _hint(kind: Type, section: Section) -> str:
    if isinstance(kind, OptionalType):
        return "give it a value with .orValue(...), or ask .hasValue()"
    if isinstance(kind, QuantityType) and section.results == (INT, DOUBLE):
        return "take a number with .units() or .value(), or use percent(part, whole)"
    if isinstance(kind, ListType) and section.expected == "bool":
        return "ask .exists(x, ...), .all(x, ...) or .size() > 0"
    if kind == INT and section.expected == "bool":
        return "compare it, such as `> 0`"
    if section.results == (DURATION,):
        return 'write it with its unit, such as 90s or duration("90s")'
    if section.results == (STRING,) and kind in (INT, DOUBLE):
        return "write string(...)"
    return ""
