"""The parser: from text to a syntax tree, or to all problems of the text.

Theory of operation. Lark parses by grammar.lark; meanwhile ast_builder.py builds nodes and notes
well-formed text that rules do not allow (an int too large, CEL's uint). For a text that does not
parse, syntax_hints.py finds the message. The parser is built once, when first needed, and parses
one text at a time.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import resources
from threading import Lock
from typing import Final

from lark import Lark
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from policy_sched.language.diagnostics import MAX_DEPTH, MAX_NODES, MAX_SOURCE_BYTES, Problem
from policy_sched.language.syntax.ast import Node, walk
from policy_sched.language.syntax.ast_builder import TreeBuilder
from policy_sched.language.syntax.syntax_hints import explain, safe_navigation

#: Texts whose trees are kept: those of a few hundred policies.
KEPT: Final = 4096


def parse(text: str) -> tuple[Node | None, list[Problem]]:
    """Return the syntax tree of an expression and its problems; the tree is None if it has any.

    Texts that were parsed before, in any policy, are looked up.
    """
    return _checked_size(text, cel=False)


def parse_cel(text: str) -> tuple[Node | None, list[Problem]]:
    """Return the same of CEL's text, which also has unsigned ints, bytes and null."""
    return _checked_size(text, cel=True)


def _checked_size(text: str, *, cel: bool) -> tuple[Node | None, list[Problem]]:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        at = error.start
        return None, [
            Problem(at, at + 1, "PS001", "a surrogate without its pair is not a character")
        ]
    if size > MAX_SOURCE_BYTES:
        message = f"the expression has {size} bytes; the limit is {MAX_SOURCE_BYTES}"
        return None, [Problem(0, 1, "PS501", message, "split it with `variables` or `functions`")]
    node, problems = _parsed(text, cel=cel)
    return node, list(problems)


@functools.lru_cache(maxsize=KEPT)
def _parsed(text: str, *, cel: bool) -> tuple[Node | None, list[Problem]]:
    try:
        node, problems = _parser().parse(text, cel=cel)
    except UnexpectedInput as error:
        return None, _syntax_problems(text, error)
    if any(p.code == "PS014" for p in problems):
        found = safe_navigation(text)
        taken = {p.end for p in found}
        problems = [p for p in problems if not (p.code == "PS014" and p.start + 1 in taken)] + found
    problems += _size_problems(node, cel=cel)
    return (None if problems else node), sorted(problems)


@dataclass(slots=True)
class _Parser:
    """Lark, and what it builds; several threads may ask."""

    builder: TreeBuilder
    lark: Lark
    lock: Lock = field(default_factory=Lock)

    def parse(self, text: str, *, cel: bool) -> tuple[Node, list[Problem]]:
        """Return the tree, and what is wrong with it; raises Lark's UnexpectedInput.

        ``cel``: as CEL, else as a rule.
        """
        with self.lock:
            self.builder.cel = cel
            try:
                node = self.lark.parse(text)
            finally:
                problems = self.builder.finish()
        assert isinstance(node, Node)
        return node, problems


@functools.cache
def _parser() -> _Parser:
    """Return the parser of grammar.lark; building it takes about 50 ms."""
    grammar = resources.files(__package__).joinpath("grammar.lark").read_text(encoding="utf-8")
    builder = TreeBuilder()
    lark = Lark(
        grammar, parser="lalr", lexer="contextual", transformer=builder, keep_all_tokens=True
    )
    return _Parser(builder, lark)


def lark_parser() -> Lark:
    """Return the parser as Lark built it, made only once."""
    return _parser().lark


def _syntax_problems(text: str, error: UnexpectedInput) -> list[Problem]:
    at = len(text)
    if isinstance(error, UnexpectedCharacters) or (
        isinstance(error, UnexpectedToken) and error.token.type != "$END"
    ):
        at = error.pos_in_stream or 0
    state = error.interactive_parser
    expected = frozenset() if state is None else state.accepts()  # type: ignore[no-untyped-call]  # lark leaves it bare
    return explain(text, at, expected)


def _size_problems(root: Node, *, cel: bool) -> list[Problem]:
    count, deepest, at = 0, 0, root.span
    for node, depth in walk(root):
        count += 1
        if depth > deepest:
            deepest, at = depth, node.span
    if deepest > MAX_DEPTH:
        message = f"the expression is nested {deepest} deep; the limit is {MAX_DEPTH}"
        return [Problem(at.start, at.end, "PS501", message, "split it with `variables`")]
    if count > MAX_NODES and not cel:  # the length bounds those of CEL
        message = f"the expression has {count} parts; the limit is {MAX_NODES}"
        return [Problem(0, 1, "PS501", message, "split it with `variables`")]
    return []


def comments(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each ``//`` comment of a rule, strings left alone."""
    quote, i = "", 0
    while i < len(text):
        if quote:
            if text[i] == "\\":
                i += 1
            elif text.startswith(quote, i):
                i += len(quote) - 1
                quote = ""
        elif text[i] in "\"'":
            quote = text[i] * 3 if text.startswith(text[i] * 3, i) else text[i]
            i += len(quote) - 1
        elif text.startswith("//", i):
            end = text.find("\n", i)
            end = len(text) if end < 0 else end
            yield i, end
            i = end
        i += 1
