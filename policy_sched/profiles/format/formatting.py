"""Puts policy files into their one form: rules printed anew, keys in the order of the schema.

Theory of operation. The file's text is edited in place: a rule is replaced by its one form,
and an entry that is out of order is moved with its comments. All else stays as written. In the
end both texts are read and compared, so that nothing but form can have changed.

The outermost mappings that are out of order are put right in the text, the text is read again, and
so on until none is left. An entry of a block is its lines: from the comments above its key, at the
key's column, to the last line of its value.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, Final, get_args

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from policy_sched.errors import Diagnostic
from policy_sched.language import WIDTH, flat_expression, format_expression
from policy_sched.language.syntax import parse as parse_expression
from policy_sched.profiles import load, models
from policy_sched.profiles.load import kind_of, parse
from policy_sched.profiles.models import Document
from policy_sched.source import Marked, SourceFile, content_end, content_start, diagnostic

CHANGED: Final = "PS701"
_Edit = tuple[int, int, str]
_STEP: Final = 2
MAX_RULES: Final = 100
"""Measures of an experiment, and conditions of a rollout, whose rules are printed anew."""
_WITH_RULES: Final[dict[tuple[str, str], type[models.Document]]] = {
    (models.POLICY_API_VERSION, models.POLICY_KIND): models.Policy,
    (models.POLICY_API_VERSION, models.EXPERIMENT_KIND): models.Experiment,
    (models.POLICY_API_VERSION, models.ROLLOUT_KIND): models.Rollout,
}
_LISTS: Final = {
    (models.POLICY_API_VERSION, models.EXPERIMENT_KIND): ("measures", ("nodes", "percentOf")),
    (models.POLICY_API_VERSION, models.ROLLOUT_KIND): ("abortWhen", ("expression",)),
}
"""Where documents that are no policies have rules: the list, and the keys of its entries."""


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
                position = load.DocumentPosition(path, marked)
                return text, [position.diagnostic(load.TOO_MUCH_RULE_TEXT)]
            changes, refused = _rule_edits(marked, rules)
            edits += changes
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
    """Return a document's data and the paths of its rules."""
    rules: list[models.Path] = []
    if (lists := _LISTS.get(load.kind_of(marked.value))) is not None:
        section, keys = lists
        each: Iterator[models.Path] = (
            ("spec", section, i, key) for i in range(MAX_RULES) for key in keys
        )
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
        position = marked.scalar_map(path)
        _, faults = parse_expression(node.value)
        for problem in faults:
            span = (position(problem.start), position(problem.end))
            problems.append(
                diagnostic(marked.file, span, problem.code, problem.message, hint=problem.hint)
            )
        if not faults:
            edits += _rule_edit(marked, path, node)
    return edits, problems


def _rule_edit(marked: Marked, path: models.Path, node: ScalarNode) -> list[_Edit]:
    """Return the edit that gives a rule its one form, if it does not have it."""
    text = marked.file.text
    start, end = content_start(text, node), content_end(text, node)
    column = int(node.start_mark.column) + start - int(node.start_mark.index)
    flat = flat_expression(node.value)
    note = _comment_of_block(text[start:end])
    if _in_flow(marked, path):
        new = "" if flat is None else _inline(flat, node.style, flow=True)
    elif flat is not None and column + len(inline := _inline(flat, node.style) + note) <= WIDTH:
        new = inline
    else:
        indent = _parent_column(marked, path) + _STEP
        shown = format_expression(node.value, indent, indent) or ""
        new = f"|-{note}\n{' ' * indent}{shown}"
    return [(start, end, new)] if new and new != text[start:end] else []


def _comment_of_block(text: str) -> str:
    """Return the comment behind the sign that begins a block of text, or ""."""
    match = re.match(r"[|>][-+0-9]*(?P<note>[ \t]+#[^\n]*)\n", text)
    return "" if match is None else f" {match['note'].strip()}"


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
    single = node.value[0][1] if node is not None and len(node.value) == 1 else None
    plain = isinstance(single, ScalarNode) and not single.style and single.value == text
    return text if plain else quoted


def _meaning(path: str, text: str) -> list[Any]:
    """Return the data of a file, rules in their one form."""
    documents, problems = load.parse(SourceFile(path, text))
    if problems:
        return [problems]
    values = []
    for marked in documents:
        value, rules = _rules_of(marked)
        values.append(_with_one_form(value, set(rules), ()))
    return values


def _with_one_form(value: Any, rules: set[models.Path], path: models.Path) -> Any:
    if path in rules and isinstance(value, str):
        return format_expression(value)
    if isinstance(value, dict):
        return {key: _with_one_form(item, rules, (*path, key)) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_one_form(item, rules, (*path, i)) for i, item in enumerate(value)]
    return value


_Entry = tuple[ScalarNode, Node]
_OTHER_BREAKS: Final = re.compile("[\r\x85\u2028\u2029]")
_MOST_READINGS: Final = 1_000


def in_order(path: str, text: str, model: type[Document], kind: tuple[str, str]) -> str:
    """Return a text whose documents of a kind have their keys in the order of ``model``."""
    if _OTHER_BREAKS.search(text):
        return text  # lines of YAML are not those that end in LF: nothing can be moved by lines
    for _ in range(_MOST_READINGS):
        complete = text if text.endswith("\n") else text + "\n"
        moves = _moves(path, complete, model, kind)
        if not moves:
            break
        text = complete
        for start, end, moved in reversed(moves):
            text = text[:start] + moved + text[end:]
    return text


def _moves(path: str, text: str, model: type[Document], kind: tuple[str, str]) -> list[_Edit]:
    """Return edits of parts that do not overlap, in the order of the text."""
    documents, _ = parse(SourceFile(path, text))
    moves: list[_Edit] = []
    for marked in documents:
        root = marked.node(())
        if kind_of(marked.value) != kind or root is None:
            continue
        lines = marked.file.text.splitlines(keepends=True)
        offsets = list(accumulate(map(len, lines), initial=0))
        for node, entries in _disordered(root, model):
            flow = node.flow_style
            move = _moved_flow if flow else partial(_moved_block, lines, offsets)
            edit = move(text, node, entries)
            if edit is None or (moves and edit[0] < moves[-1][1]):
                continue  # inside the last one, or next to it: another reading finds it
            if text[edit[0] : edit[1]] != edit[2]:
                moves.append(edit)
    return moves


def _disordered(node: Node, model: type[Document]) -> Iterator[tuple[MappingNode, list[_Entry]]]:
    """Yield mappings that are out of order, outermost first, with their entries in order."""
    if isinstance(node, SequenceNode):
        for item in node.value:
            yield from _disordered(item, model)
    if not isinstance(node, MappingNode):
        return
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    ranks = {name: rank for rank, name in enumerate(fields)}
    ordered = sorted(node.value, key=lambda entry: ranks.get(entry[0].value, len(ranks)))
    if ordered != node.value:
        yield node, ordered
    for key, value in node.value:
        field = fields.get(key.value)
        inner = _model_of(field.annotation) if field is not None else None
        if inner is not None:
            yield from _disordered(value, inner)


def _model_of(annotation: Any) -> type[Document] | None:
    """Return the model inside a type such as ``tuple[Rule, ...] | None``."""
    if isinstance(annotation, type) and issubclass(annotation, Document):
        return annotation
    models = (_model_of(part) for part in get_args(annotation))
    return next((model for model in models if model is not None), None)


def _moved_flow(text: str, node: MappingNode, entries: Sequence[_Entry]) -> _Edit | None:
    """Return the edit of a mapping in braces; None where it has lines or comments."""
    start = int(node.value[0][0].start_mark.index)
    end = max(_last(text, value) for _, value in node.value)
    if "\n" in text[start:end]:
        return None
    shown = ", ".join(
        text[int(key.start_mark.index) : _last(text, value)] for key, value in entries
    )
    return start, end, shown


def _moved_block(
    lines: Sequence[str],
    offsets: Sequence[int],
    text: str,
    node: MappingNode,
    entries: Sequence[_Entry],
) -> _Edit:
    """Return the edit of the lines of a mapping."""
    column = int(node.value[0][0].start_mark.column)
    pieces: dict[int, list[str]] = {}
    first = begin = _first_line(lines, node, column)
    head = lines[first][:column]
    for i, (key, value) in enumerate(node.value):
        end = min(bisect_right(offsets, _last(text, value)), len(lines))
        following = int(node.value[i + 1][0].start_mark.line) if i + 1 < len(node.value) else end
        while end < min(following, len(lines)) and _indent(lines[end]) > column:
            end += 1
        pieces[id(key)] = [_cut(line, column) for line in lines[begin:end]]
        begin = end
    moved: list[str] = []
    for key, _ in entries:
        piece = pieces[id(key)]
        while not moved and not piece[0].strip():
            piece = piece[1:]
        moved += piece
    shown = [
        head + moved[0],
        *(" " * column + line if line.strip() else line for line in moved[1:]),
    ]
    return offsets[first], offsets[begin], "".join(shown)


def _first_line(lines: Sequence[str], node: MappingNode, column: int) -> int:
    """Return where a mapping begins: at its first key, or at the comments right above it.

    What stands above a document's first key, or above a dash, is about more than one entry.
    """
    first = int(node.value[0][0].start_mark.line)
    if column and not lines[first][:column].strip():
        while lines[first - 1].lstrip(" ").startswith("#") and _indent(lines[first - 1]) == column:
            first -= 1
    return first


def _cut(line: str, column: int) -> str:
    """Return a line without its first ``column`` characters, which are indentation."""
    return line[column:] if line.strip() else "\n"


def _indent(line: str) -> int:
    stripped = line.lstrip(" ")
    return len(line) - len(stripped) if stripped.strip() else 0


def _last(text: str, node: Node) -> int:
    """Return the offset behind the last character of a value, comments not counted."""
    if isinstance(node, ScalarNode) or getattr(node, "flow_style", False) or not node.value:
        return max(content_end(text, node), int(node.start_mark.index))
    parts = (
        [value for _, value in node.value] if isinstance(node, MappingNode) else list(node.value)
    )
    return max(_last(text, part) for part in parts)
