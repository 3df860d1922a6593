"""Moves the entries of a document's mappings into the order of its model, comments with them.

Theory of operation. The outermost mappings that are out of order are put right in the text, the
text is read again, and so on until none is left. An entry of a block is its lines: from the
comments above its key, at the key's column, to the last line of its value.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, Final, get_args

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from policy_sched.profiles.load import kind_of, parse
from policy_sched.profiles.models import Document
from policy_sched.source import SourceFile, content_end

_Entry = tuple[ScalarNode, Node]
_OTHER_BREAKS: Final = re.compile("[\r\x85\u2028\u2029]")
_MOST_READINGS: Final = 1_000
_Edit = tuple[int, int, str]
"""Begin and end of a part of a text, and what replaces it."""


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
    found: list[_Edit] = []
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
            if edit is None or (found and edit[0] < found[-1][1]):
                continue  # inside the last one, or next to it: another reading finds it
            if text[edit[0] : edit[1]] != edit[2]:
                found.append(edit)
    return found


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
    found = (_model_of(part) for part in get_args(annotation))
    return next((one for one in found if one is not None), None)


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
