"""Position of the cursor in a policy file: at a key, or in the text of a rule.

Theory of operation. During editing, the file is seldom valid YAML. So the position follows from the
indentation of the lines above: keys in columns further left lead to it. The policy around the
cursor is read without the line that breaks the YAML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from policy_sched.errors import PolicyError
from policy_sched.language.check import CheckedPolicy, check_beside
from policy_sched.language.diagnostics import PolicySource, Text
from policy_sched.language.stdlib import DEFINITION, Section, policy_environment
from policy_sched.language.values import types
from policy_sched.profiles.check import is_proof, policies_of, source_of_claims
from policy_sched.profiles.load import LoadedDocument, load, policy_source
from policy_sched.source import Marked, SourceFile

_EMPTY: Final = PolicySource("")
_CHAIN: Final = r"[A-Za-z_]\w*(?:\.\??\w+|\[[^\[\]]*\]|\([^()]*\))*"
_LOOP: Final = re.compile(
    rf"({_CHAIN})\.(?:all|exists|exists_one|existsOne|map|filter|sum|optMap|optFlatMap)"
    r"\(\s*(\w+)\s*,"
)
_MEMBER: Final = re.compile(rf"({_CHAIN})\.\??(\w*)$")
_WORD: Final = re.compile(r"(?<![\w.])(\w*)$")


def source_at(path: str, text: str, line: int) -> PolicySource:
    """Return the policy that contains a line (from 0); an empty one if it cannot be read.

    A line that breaks the YAML is left out.
    """
    for document, _ in _documents_at(path, text, line):
        if is_proof(document.marked):
            return source_of_claims(policies_of(document.marked))
        if document.policy is None:
            continue
        try:
            return policy_source(document.policy)
        except PolicyError:
            return _EMPTY
    return _EMPTY


def policies_at(path: str, text: str, line: int) -> list[CheckedPolicy]:
    """Return the policies that the claims of a document are about, as far as they can be read."""
    documents = (document.marked for document, _ in _documents_at(path, text, line))
    return next((policies_of(marked) for marked in documents if is_proof(marked)), [])


def _documents_at(path: str, text: str, line: int) -> Iterator[tuple[LoadedDocument, bool]]:
    """Yield the document that contains a line, then the document without that line.

    Each comes with whether it is valid YAML; the first is left out if it is not.
    """
    lines = text.split("\n")
    without = "\n".join([*lines[:line], "", *lines[line + 1 :]])
    for attempt in (text, without):
        file = load(SourceFile(path, attempt))
        if file.problems and attempt is text:
            continue
        before = [document for document in file.documents if _first_line(document.marked) <= line]
        if before:
            yield before[-1], not file.problems


def _first_line(marked: Marked) -> int:
    return marked.file.position(marked.span(())[0])[0] - 1


def member_before(before: str) -> tuple[str, str] | None:
    """Return the expression before the last dot of a rule's text, and the start of the member."""
    match = _MEMBER.search(before)
    return None if match is None else (match[1], match[2])


def word_before(before: str) -> str:
    """Return the name, or its beginning, at the end of a rule's text."""
    match = _WORD.search(before)
    return "" if match is None else match[1]


def type_of(expression: str, before: str, source: PolicySource) -> types.Type | None:
    """Return the type of an expression at the end of ``before``; None if it has none.

    A variable of an enclosing loop has the type of an element.
    """
    for name, operand in reversed(loops(before)):
        expression = re.sub(rf"(?<![\w.\"']){name}(?!\w)", f"({operand})[0]", expression)
    for text in (expression, expression.replace("[0]", ".value()"), f"({expression})"):
        checked, _ = check_beside(Text(text), "any", source)
        if checked is not None:
            return checked.match_conditions[0].core.type
    return None


def locals_in(before: str) -> list[str]:
    """Return the variables of the loops that are open at the end of a rule's text."""
    return [name for name, _ in loops(before)]


def loops(before: str) -> list[tuple[str, str]]:
    """Return variable and operand of the loops that are open at the end of a text."""
    pairs = []
    for match in _LOOP.finditer(before):
        inner = before[match.start(2) :]
        if inner.count("(") >= inner.count(")"):
            pairs.append((match[2], match[1]))
    return pairs


_ITEM: Final = re.compile(r"\s*(?:- +)*")
_ENTRY: Final = re.compile(r"([$\w]+):(?: +(.*)|)$")
_LISTS: Final = (("matchConditions",), ("assume",), ("disjoint",))
"""Keys of lists whose entries are rules."""
_OF_CLAIMS: Final = frozenset({"always", "never", "if", "then", "in", "disjoint"})
_BLOCK: Final = re.compile(r"[|>][-+0-9]*\s*(?:#.*)?$")


@dataclass(frozen=True, slots=True)
class CursorPosition:
    """The keys that lead to the cursor, and the text before it.

    ``path`` has no list positions. ``before`` is the text of the value up to the cursor; None if
    the cursor is in a key, whose beginning is ``word``.
    """

    path: tuple[str, ...]
    before: str | None
    word: str = ""

    @property
    def section(self) -> Section | None:
        """The section of a policy whose rule contains the cursor; None elsewhere.

        A rule of a PolicyProof reads what one of the section filter does.
        """
        if self.before is None:
            return None
        return policy_environment().section("filter") if self.claims else section_of(self.path)

    @property
    def claims(self) -> bool:
        """Whether the cursor is in a rule of a PolicyProof."""
        in_claim = self.path[:1] == ("claims",) and self.path[-1] in _OF_CLAIMS
        return in_claim or self.path == ("assume",)


@dataclass(frozen=True, slots=True)
class _Line:
    """A line's column of content, its key ("" if it has none) and its value."""

    column: int
    key: str
    value: str


def cursor_at(text: str, line: int, character: int) -> CursorPosition:
    """Return the position of a cursor; line and character count from 0, in characters."""
    lines = text.split("\n")[: line + 1]
    head = lines[-1][:character] if lines else ""
    above = [_read(above_line) for above_line in _last_document(lines[:-1])]
    current = _read(head)
    block = _enclosing_block(above, len(head) - len(head.lstrip()))
    if block is not None:
        start = len(above) - block
        before = "\n".join([*lines[-start:-1], head])
        return CursorPosition(
            (*_keys(above[:block], above[block].column), above[block].key), before
        )
    column = min(current.column, len(head))
    path = _keys(above, column)
    if current.key:
        return _in_value((*path, current.key), current.value)
    content = head[column:]
    if content.startswith("{"):
        return _in_value(path, content)
    if re.fullmatch(r"[$\w]*", content):
        return CursorPosition(path, content if path[-1:] in _LISTS else None, content)
    return CursorPosition(path, content)


def section_of(path: tuple[str, ...]) -> Section | None:
    """Return the section whose rules are below these keys, None if there are none."""
    names = tuple(name for name in path if name != "spec")
    names = names[:-1] if names[-1:] == ("expression",) else names
    if not names:
        return None
    if names[0] in ("variables", "functions"):
        return policy_environment().section(DEFINITION) if path[-1] == "expression" else None
    if path[-1] in ("message", "onError", "order", "params", "name"):
        return None
    if names[0] == "measures" and path[-1] not in ("expression", "nodes", "percentOf"):
        return None
    sections = policy_environment().sections
    section = sections.get(".".join(names))
    return section if section is not None else sections.get(names[0]) if len(names) > 1 else None


def _last_document(lines: list[str]) -> list[str]:
    """Return the lines of the last document; those of earlier ones are emptied."""
    starts = [i for i, line in enumerate(lines) if line.startswith("---")]
    first = starts[-1] + 1 if starts else 0
    return [""] * first + lines[first:]


def _read(line: str) -> _Line:
    match = _ITEM.match(line)
    column = match.end() if match else 0
    content = line[column:]
    if content.startswith("#"):
        return _Line(1 << 30, "", "")
    entry = _ENTRY.match(content)
    if entry is None:
        return _Line(column if content else 1 << 30, "", content)
    return _Line(column, entry[1], entry[2] or "")


def _enclosing_block(above: list[_Line], indent: int) -> int | None:
    """Return the number of the line that opens the block text around the cursor."""
    column = indent
    for i in range(len(above) - 1, -1, -1):
        line = above[i]
        if line.column >= column and not (line.key and line.column < indent):
            continue
        if line.key and _BLOCK.match(line.value):
            return i if line.column < indent else None
        column = min(column, line.column)
        if line.key:
            return None
    return None


def _keys(above: list[_Line], column: int) -> tuple[str, ...]:
    """Return the keys that lead to a column, the outermost first."""
    path: list[str] = []
    for line in reversed(above):
        if line.key and line.column < column:
            path.append(line.key)
            column = line.column
    return tuple(reversed(path))


def _in_value(path: tuple[str, ...], value: str) -> CursorPosition:
    """Return the position in a value on the cursor's line, which may be ``{key: value``."""
    if not value.startswith("{"):
        return CursorPosition(path, _unquoted(value))
    quote, start, key = "", 1, ""
    for i, char in enumerate(value):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == ",":
            entry = re.match(r"\s*[$\w]*(?::|$)", value[i + 1 :])
            if entry is not None:
                start, key = i + 1, ""
        elif char == ":" and not key and value[i : i + 2] in (": ", ":"):
            key, start = value[start:i].strip(" {"), i + 1
    rest = value[start:].lstrip()
    if not key:
        return CursorPosition(path, None, rest.strip("{ "))
    return CursorPosition((*path, key), _unquoted(rest))


def _unquoted(value: str) -> str:
    if value.startswith("'"):
        return value[1:].replace("''", "'")
    return value.removeprefix('"')


Lines = tuple[int, int, int, int]
"""First line and column, and those of the end, all from 0, in characters."""


def definition(path: str, text: str, line: int, character: int) -> Lines | None:
    """Return the span of the definition of the name at a cursor (from 0, in characters)."""
    lines = text.split("\n")
    shown = lines[line] if line < len(lines) else ""
    inside = re.match(r"\w*", shown[character:])
    end = character + (inside.end() if inside else 0)
    cursor = cursor_at(text, line, end)
    if cursor.before is None or cursor.section is None:
        return None
    document = next((loaded for loaded, valid in _documents_at(path, text, line) if valid), None)
    span = None if document is None else _defined(document.marked, cursor, line)
    if document is None or span is None:
        return None
    file = document.marked.file
    (first, start), (last, after) = (file.position(at) for at in span)
    return first - 1, start - 1, last - 1, after - 1


def _defined(marked: Marked, cursor: CursorPosition, line: int) -> tuple[int, int] | None:
    """Return the span of the key or name that defines the last name of the text."""
    before = cursor.before or ""
    member = member_before(before)
    if member is not None:
        base, name = member
        if base == "params":
            return _key(marked, ("spec", "params", name))
        return _named(marked, "variables", name) if base == "variables" else None
    name = word_before(before)
    parameter = _parameter(marked, name, line) if "functions" in cursor.path else None
    return parameter or _named(marked, "functions", name)


def _key(marked: Marked, path: tuple[str | int, ...]) -> tuple[int, int] | None:
    """Return the span of a key, without its line break; None if it is absent."""
    if marked.node(path) is None:
        return None
    start, _ = marked.key_span(path)
    return start, start + len(str(path[-1]))


def _items(marked: Marked, section: str) -> Sequence[Any]:
    spec = marked.value.get("spec") if isinstance(marked.value, dict) else None
    items = spec.get(section) if isinstance(spec, dict) else None
    return items if isinstance(items, list) else ()


def _named(marked: Marked, section: str, name: str) -> tuple[int, int] | None:
    """Return the span of the name of a variable or function."""
    for i, item in enumerate(_items(marked, section)):
        if isinstance(item, dict) and item.get("name") == name:
            return marked.span(("spec", section, i, "name"))
    return None


def _parameter(marked: Marked, name: str, line: int) -> tuple[int, int] | None:
    """Return the span of a parameter of the function that contains a line."""
    for i, item in enumerate(_items(marked, "functions")):
        path = ("spec", "functions", i)
        first, last = (marked.file.position(at)[0] - 1 for at in marked.span(path))
        params = item.get("params") if isinstance(item, dict) else None
        if first <= line <= last and isinstance(params, dict) and name in params:
            return _key(marked, (*path, "params", name))
    return None
