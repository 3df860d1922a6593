"""Finds the rules of a policy document: their texts as written, and comments that hide a rest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from yaml.nodes import ScalarNode

from policy_sched.language.syntax import comments
from policy_sched.profiles.models import DURATION_PATTERN, Path, Problem
from policy_sched.source import Marked

HIDING_COMMENT: Final = "PS407"
_RULE_KEYS: Final = frozenset(
    {
        "expression",
        "messageExpression",
        "reasons",
        "nodeNames",
        "eligible",
        "victim",
        "reserve",
        "preBind",
        "bind",
        "postBind",
        "allow",
        "timeout",
        "hint",
        "every",
    }
)
_DURATION_KEYS: Final = frozenset({"timeout", "every"})


def bare_duration(text: str) -> str:
    """Return the duration that a text such as ``90s`` is instead of a rule; "" if it is a rule."""
    bare = text.strip()
    return bare if re.fullmatch(DURATION_PATTERN, bare) else ""


def with_rule_texts(value: Any, marked: Marked, rules: list[Path], path: Path = ()) -> Any:
    """Return ``value`` with rules that YAML took for numbers or booleans as they are written.

    The paths of all rules are added to ``rules``. Parameters are data, and stay.
    """
    if isinstance(value, dict):
        return {
            key: item if key == "params" else _entry(key, item, marked, rules, (*path, key))
            for key, item in value.items()
        }
    if isinstance(value, list):
        key = "expression" if path[-1:] == ("matchConditions",) else ""
        return [_entry(key, item, marked, rules, (*path, i)) for i, item in enumerate(value)]
    return value


def _entry(key: str, item: Any, marked: Marked, rules: list[Path], path: Path) -> Any:
    """Return the text of a rule; anything else as it is, looked through."""
    rule = key in _RULE_KEYS or (key == "resolvable" and not isinstance(item, bool))
    if key in _DURATION_KEYS and isinstance(item, str) and bare_duration(item):
        return item
    if not rule or isinstance(item, dict | list):
        return with_rule_texts(item, marked, rules, path)
    rules.append(path)
    node = marked.node(path)
    return node.value if isinstance(node, ScalarNode) and not isinstance(item, str) else item


def hiding_comments(marked: Marked, rules: Iterable[Path]) -> Iterator[Problem]:
    """Yield rules in which a ``//`` comment swallows lines that YAML folds onto its own."""
    for path in rules:
        node = marked.node(path)
        if not isinstance(node, ScalarNode) or node.style == "|" or "//" not in node.value:
            continue
        text, place = node.value, marked.scalar_map(path)
        for start, end in comments(text):
            last = start + len(text[start:end].rstrip())
            first_line, _ = marked.file.position(place(start))
            last_line, _ = marked.file.position(place(max(start, last - 1)))
            if first_line != last_line:
                message = "this // comment hides the lines below it: YAML folds them onto its line"
                hint = "write the rule below a |- instead"
                yield Problem(path, HIDING_COMMENT, message, hint)
                break
