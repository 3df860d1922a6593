"""Puts policy files into their one form: rules printed anew, keys in the order of the schema.

Theory of operation. The file's text is edited in place: a rule is replaced by its one form,
and an entry that is out of order is moved with its comments. All else stays as written. In the
end both texts are read and compared, so that nothing but form can have changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import yaml
from yaml.nodes import ScalarNode

from policy_sched.errors import Diagnostic
from policy_sched.language import WIDTH, flat_expression, format_expression
from policy_sched.language.syntax import parse as parse_expression
from policy_sched.profiles import load, models
from policy_sched.profiles.format.key_order import in_order
from policy_sched.source import Marked, SourceFile, content_end, content_start, diagnostic

CHANGED: Final = "PS701"
_Edit = tuple[int, int, str]
_STEP: Final = 2
MAX_MEASURES: Final = 100
"""Measures of an experiment whose rules are printed anew."""
_WITH_RULES: Final[dict[tuple[str, str], type[models.Document]]] = {
    (models.POLICY_API_VERSION, models.POLICY_KIND): models.Policy,
    (models.POLICY_API_VERSION, models.EXPERIMENT_KIND): models.Experiment,
}


def format_file(path: str, text: str) -> tuple[str, list[Diagnostic]]:
    """Return the policies of a file in their one form, and why it cannot be formatted.

    A text with diagnostics is returned as it is: a syntax error leaves nothing to print.
    """
    file = SourceFile(path, text)
    documents, problems = load.parse(file)
    if problems:
        return text, problems
    edits: list[_Edit] = []
    size = 0
    for marked in documents:
        if load.kind_of(marked.value) in _WITH_RULES:
            _, rules = _rules_of(marked)
            size += load.rule_text(marked, rules)
            if size > load.MAX_RULE_TEXT:
                place = load.DocumentPosition(path, marked)
                return text, [place.diagnostic(load.TOO_MUCH_RULE_TEXT)]
            found, refused = _rule_edits(marked, rules)
            edits += found
            problems += refused
    if problems:
        return text, sorted(problems)
    shown = _edited(file.text, edits)
    for kind, model in _WITH_RULES.items():
        shown = in_order(path, shown, model, kind)
    shown = shown if shown.endswith("\n") or not shown else shown + "\n"
    if _meaning(path, shown) != _meaning(path, file.text):
        message = "the file cannot be formatted without changing its meaning"
        return text, [diagnostic(file, 0, CHANGED, message, hint="write it without aliases")]
    return shown, []


def _rules_of(marked: Marked) -> tuple[Any, list[models.Path]]:
    """Return a document's data and the paths of its rules; an experiment's are in its measures."""
    rules: list[models.Path] = []
    if load.kind_of(marked.value) == (models.POLICY_API_VERSION, models.EXPERIMENT_KIND):
        at: models.Path = ("spec", "measures")
        each = ((*at, i, key) for i in range(MAX_MEASURES) for key in ("nodes", "percentOf"))
        return marked.value, [path for path in each if marked.node(path) is not None]
    return load.with_rule_texts(marked.value, marked, rules), rules


def _edited(text: str, edits: list[_Edit]) -> str:
    for start, end, new in sorted(set(edits), reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _rule_edits(
    marked: Marked, rules: Sequence[models.Path]
) -> tuple[list[_Edit], list[Diagnostic]]:
    """Return the edits of the rules of a document, and their problems."""
    edits: list[_Edit] = []
    problems: list[Diagnostic] = []
    for path in rules:
        node = marked.node(path)
        if not isinstance(node, ScalarNode):
            continue
        place = marked.scalar_map(path)
        _, found = parse_expression(node.value)
        for problem in found:
            span = (place(problem.start), place(problem.end))
            problems.append(
                diagnostic(marked.file, span, problem.code, problem.message, hint=problem.hint)
            )
        if not found:
            edits += _rule_edit(marked, path, node)
    return edits, problems


def _rule_edit(marked: Marked, path: models.Path, node: ScalarNode) -> list[_Edit]:
    """Return the edit that gives a rule its one form, if it does not have it."""
    text = marked.file.text
    start, end = content_start(text, node), content_end(text, node)
    column = int(node.start_mark.column) + start - int(node.start_mark.index)
    flat = flat_expression(node.value)
    if _in_flow(marked, path):
        new = "" if flat is None else _inline(flat, node.style, flow=True)
    elif flat is not None and column + len(inline := _inline(flat, node.style)) <= WIDTH:
        new = inline
    else:
        indent = _parent_column(marked, path) + _STEP
        shown = format_expression(node.value, indent, indent) or ""
        new = f"|-\n{' ' * indent}{shown}"
    return [(start, end, new)] if new and new != text[start:end] else []


def _in_flow(marked: Marked, path: models.Path) -> bool:
    """Return whether a value is inside ``{}`` or ``[]``."""
    nodes = (marked.node(path[:i]) for i in range(len(path)))
    return any(getattr(node, "flow_style", False) for node in nodes)


def _parent_column(marked: Marked, path: models.Path) -> int:
    """Return the column of the key, or of the dash, before a value."""
    text = marked.file.text
    if isinstance(path[-1], str):
        start, _ = marked.key_span(path)
    else:
        node = marked.node(path)
        assert node is not None
        start = text.rindex("-", 0, int(node.start_mark.index))
    return start - text.rfind("\n", 0, start) - 1


def _inline(text: str, style: str | None, *, flow: bool = False) -> str:
    """Return a one-line scalar: in the quotes that it had, plain if it can be, else quoted."""
    if style == '"' and not set('"\\') & set(text):
        return f'"{text}"'
    quoted = "'" + text.replace("'", "''") + "'"
    if style in ("'", '"'):
        return quoted
    frame = f"{{k: {text}}}" if flow else f"k: {text}\n"
    try:
        node = yaml.compose(frame, yaml.SafeLoader)
    except yaml.YAMLError:
        return quoted
    found = node.value[0][1] if node is not None and len(node.value) == 1 else None
    plain = isinstance(found, ScalarNode) and not found.style and found.value == text
    return text if plain else quoted


def _meaning(path: str, text: str) -> list[Any]:
    """Return the data of a file, rules in their one form."""
    documents, problems = load.parse(SourceFile(path, text))
    if problems:
        return [problems]
    found = []
    for marked in documents:
        value, rules = _rules_of(marked)
        found.append(_with_one_form(value, set(rules), ()))
    return found


def _with_one_form(value: Any, rules: set[models.Path], path: models.Path) -> Any:
    if path in rules and isinstance(value, str):
        return format_expression(value)
    if isinstance(value, dict):
        return {key: _with_one_form(item, rules, (*path, key)) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_one_form(item, rules, (*path, i)) for i, item in enumerate(value)]
    return value
