"""From text to syntax tree, or to every problem that the text has as text.

Theory of operation. Lark parses by grammar.lark into its own tree; tree_builder.py turns that into
syntax.py's nodes and notes what is well formed but no rule (an int too large, CEL's uint). A text
that does not parse goes to slips.py, which finds words for it. The parser is built once, when
first needed.
"""

from __future__ import annotations

import functools
from importlib import resources
from typing import Final

from lark import Lark
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from policy_sched.language.codes import MAX_DEPTH, MAX_NODES, MAX_SOURCE_BYTES, Problem
from policy_sched.language.slips import explain, safe_navigation
from policy_sched.language.syntax import Node, walk
from policy_sched.language.tree_builder import build

#: Texts whose trees are kept: those of a few hundred policies.
KEPT: Final = 4096


def parse(text: str) -> tuple[Node | None, list[Problem]]:
    """Return the syntax tree of an expression and its problems; the tree is None if it has any.

    Texts that were parsed before, in any policy, are looked up.
    """
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        at = error.start
        return None, [Problem(at, at + 1, "PS001", "half of a character cannot stand alone")]
    if size > MAX_SOURCE_BYTES:
        message = f"the expression has {size} bytes; the limit is {MAX_SOURCE_BYTES}"
        return None, [Problem(0, 1, "PS501", message, "split it with `variables` or `functions`")]
    node, problems = _parsed(text)
    return node, list(problems)


@functools.lru_cache(maxsize=KEPT)
def _parsed(text: str) -> tuple[Node | None, list[Problem]]:
    try:
        tree = lark_parser().parse(text)
    except UnexpectedInput as error:
        return None, _syntax_problems(text, error)
    node, problems = build(tree)
    if any(p.code == "PS014" for p in problems):
        slips = safe_navigation(text)
        taken = {p.end for p in slips}
        problems = [p for p in problems if not (p.code == "PS014" and p.start + 1 in taken)] + slips
    problems += _size_problems(node)
    return (None if problems else node), sorted(problems)


@functools.cache
def lark_parser() -> Lark:
    """Return the parser of grammar.lark; building it takes about 60 ms."""
    grammar = resources.files(__package__).joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", lexer="contextual", propagate_positions=True)


def _syntax_problems(text: str, error: UnexpectedInput) -> list[Problem]:
    at = len(text)
    if isinstance(error, UnexpectedCharacters) or (
        isinstance(error, UnexpectedToken) and error.token.type != "$END"
    ):
        at = error.pos_in_stream or 0
    state = error.interactive_parser
    expected = frozenset() if state is None else state.accepts()  # type: ignore[no-untyped-call]  # lark leaves it bare
    return explain(text, at, expected)


def _size_problems(root: Node) -> list[Problem]:
    count, deepest, at = 0, 0, root.span
    for node, depth in walk(root):
        count += 1
        if depth > deepest:
            deepest, at = depth, node.span
    if deepest > MAX_DEPTH:
        message = f"the expression is nested {deepest} deep; the limit is {MAX_DEPTH}"
        return [Problem(at.start, at.end, "PS501", message, "split it with `variables`")]
    if count > MAX_NODES:
        message = f"the expression has {count} parts; the limit is {MAX_NODES}"
        return [Problem(0, 1, "PS501", message, "split it with `variables`")]
    return []
