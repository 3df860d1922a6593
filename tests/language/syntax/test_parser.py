"""Promises of the parser: what trees stand for texts, and which words for texts without one.

Comments of expressions are found, and only they.
"""

from __future__ import annotations

import importlib.util

import pytest
from lark import Lark

from policy_sched.language.diagnostics import Text
from policy_sched.language.syntax import ast
from policy_sched.language.syntax.parser import _parser, comments, parse
from tests.language.cel_spec import DIRECTORY, cases


def shown(node: ast.Node) -> str:
    """Write a tree with brackets around everything."""
    match node:
        case ast.Literal(value=value):
            return repr(value)
        case ast.Ident(name=name):
            return name
        case ast.Select(operand=operand, name=name, optional=optional):
            return f"{shown(operand)}{'.?' if optional else '.'}{name}"
        case ast.IndexExpr(operand=operand, index=index, optional=optional):
            return f"{shown(operand)}[{'?' if optional else ''}{shown(index)}]"
        case ast.CallExpr(name=name, args=args):
            return f"{name}({', '.join(map(shown, args))})"
        case ast.MethodExpr(target=target, name=name, args=args):
            return f"{shown(target)}.{name}({', '.join(map(shown, args))})"
        case ast.Unary(op=op, operand=operand):
            return f"({op}{shown(operand)})"
        case ast.Binary(op=op, left=left, right=right):
            return f"({shown(left)} {op} {shown(right)})"
    return shown_compound(node)


def shown_compound(node: ast.Node) -> str:
    """Write what has several parts."""
    match node:
        case ast.AndExpr(args=args):
            return f"({' && '.join(map(shown, args))})"
        case ast.OrExpr(args=args):
            return f"({' || '.join(map(shown, args))})"
        case ast.CondExpr(test=test, then=then, otherwise=otherwise):
            return f"({shown(test)} ? {shown(then)} : {shown(otherwise)})"
        case ast.ListExpr(elements=elements, optional=optional):
            marked = zip(elements, optional, strict=True)
            return f"[{', '.join('?' * o + shown(e) for e, o in marked)}]"
        case ast.MapExpr(keys=keys, values=values, optional=optional):
            entries = zip(keys, values, optional, strict=True)
            return f"{{{', '.join('?' * o + shown(k) + ': ' + shown(v) for k, v, o in entries)}}}"
    raise AssertionError(node)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("1 + 2 * 3 - 4", "((1 + (2 * 3)) - 4)"),
        ("a || b && c || d", "(a || (b && c) || d)"),
        ("a && b && c", "(a && b && c)"),
        ("a && (b && c)", "(a && (b && c))"),
        ("a == b == c", "((a == b) == c)"),
        ("a ? b : c ? d : e", "(a ? b : (c ? d : e))"),
        ("a in b && !c.d", "((a in b) && (!c.d))"),
        ("-5", "-5"),
        ("- 5", "-5"),
        ("--5", "(-(-5))"),
        ("-a.b", "(-a.b)"),
        ("!!a", "(!(!a))"),
        ("a.b.`c/d`[0][?x].?y", "a.b.c/d[0][?x].?y"),
        ("f(1, g()).h(2)", "f(1, g()).h(2)"),
        ("[1, ?a, ]", "[1, ?a]"),
        ('{"a": 1, ?b: c,}', "{'a': 1, ?b: c}"),
        ("[] + {}.x", "([] + {}.x)"),
        ("a // comment\n + b", "(a + b)"),
        ("a.namespace.for", "a.namespace.for"),
        ("0x1F + .5 + 1e3", "((31 + 0.5) + 1000.0)"),
        ("-9223372036854775808", "-9223372036854775808"),
        ('r"\\" + """a"b"""', "('\\\\' + 'a\"b')"),
        ("x ?.5 : 1", "(x ? 0.5 : 1)"),
    ],
)
def test_texts_have_trees(text: str, tree: str) -> None:
    """Operators bind as in CEL, and chains of one logical operator are one node."""
    node, problems = parse(text)
    assert problems == []
    assert node is not None
    assert shown(node) == tree


@pytest.mark.parametrize(
    ("text", "code", "marked", "words"),
    [
        ("a?.b", "PS002", "?.", "`.?`"),
        ("a?.b : c", "PS002", "?.", "`.?`"),
        ("not a", "PS002", "not", "`not`"),
        ("a is b", "PS002", "is", "`is`"),
        ("a or b", "PS002", "or", "`or`"),
        ("a | b", "PS002", "|", "`|`"),
        ("a === b", "PS002", "=", "`=`"),
        ("a <> b", "PS002", "<>", "`<>`"),
        ("a > 500m", "PS002", "500m", "500m is not a number"),
        ("a > 5m30s", "PS002", "5m30s", "not a number"),
        ("a > 1.5Gi + 1", "PS002", "1.5Gi", "not a number"),
        ("if (a) b", "PS002", "if", "no `if`"),
        ("a +", "PS001", "+", "a value"),
        ("", "PS001", "", "empty"),
        ("f(a", "PS001", "a", "`,` or `)`"),
        ("[1 2]", "PS001", "2", "an operator, `,` or `]`"),
        ("{1}", "PS001", "}", "`:`"),
        ("a ? b", "PS001", "b", "`:`"),
        ("a..b", "PS001", ".", "a name"),
        ("a # b", "PS001", "#", "unexpected `#`"),
        ("“a”", "PS001", "“", "unexpected"),
        ("a\ud800", "PS001", "\ud800", "a surrogate without its pair"),
        ("'''a", "PS004", "'", "never closed"),
        ("x.true", "PS005", "true", "reserved word"),
        ("a.in()", "PS005", "in", "reserved word"),
        ("for", "PS005", "for", "reserved word"),
        ("while(1)", "PS005", "while", "reserved word"),
        ("9223372036854775808", "PS011", "9223372036854775808", "64-bit"),
        ("--9223372036854775808", "PS011", "9223372036854775808", "64-bit"),
        ("1e999", "PS011", "1e999", "double"),
        ("1u", "PS014", "1u", "unsigned"),
        ("b'a'", "PS014", "b'a'", "bytes"),
        ("null", "PS014", "null", "`null`"),
        (".a", "PS014", ".", "leading dot"),
        (".a(1)", "PS014", ".", "leading dot"),
        ("a.B{c: 1}", "PS014", "a.B{c: 1}", "message"),
        ("a" * 10_241, "PS501", "a", "10241 bytes"),
    ],
)
def test_bad_texts_have_words_and_a_place(text: str, code: str, marked: str, words: str) -> None:
    """A text without a tree has one problem, which covers what is wrong."""
    node, (problem,) = parse(text)
    assert node is None
    assert problem.code == code
    assert text[problem.start : problem.end] == marked
    assert words in problem.message + problem.hint


def test_problems_of_literals_are_reported_together() -> None:
    """A text that parses is searched to its end."""
    _, problems = parse(r'"\q" + 1u + 99999999999999999999 + null')
    assert [p.code for p in problems] == ["PS003", "PS014", "PS011", "PS014"]


def test_every_node_has_its_span() -> None:
    """A node's span covers its own text, inside its parent's."""
    text = "pod.labels[?'a'].orValue(f(1)) == [1, -2][0] && x ? {1: 2} : !(y)"
    node, _ = parse(text)
    assert node is not None
    assert (node.span.start, node.span.end) == (0, len(text))
    spans = {text[n.span.start : n.span.end] for n, _ in ast.walk(node)}
    assert {"pod.labels[?'a']", "f(1)", "[1, -2]", "-2", "{1: 2}", "!(y)", "y"} <= spans


def test_the_parser_is_built_once() -> None:
    """Building takes tens of milliseconds, so it happens once."""
    assert _parser().lark is _parser().lark


@pytest.mark.skipif(importlib.util.find_spec("interegular") is None, reason="needs interegular")
def test_the_grammar_is_strict() -> None:
    """No two terminals can match the same text, and no rule is ambiguous."""
    options = _parser().lark.options
    Lark(_parser().lark.source_grammar, parser=options.parser, lexer=options.lexer, strict=True)


@pytest.mark.skipif(not DIRECTORY.exists(), reason="cel-spec's files are not here")
def test_all_of_cel_spec_parses() -> None:
    """Every expression of cel-spec has a tree, or names the features that rules leave out."""
    found = [parse(case.text)[1] for case in cases()]
    assert {p.code for problems in found for p in problems} == {"PS014"}
    assert len(found) > 2_000


def test_a_text_counts_its_own_lines() -> None:
    """Without a file, places are lines and columns of the text."""
    assert Text("a\nbc\n").position(3) == (2, 2, "bc")
    assert Text("a\nbc").position(4) == (2, 3, "bc")
    assert Text("").position(0) == (1, 1, "")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a // b", ["// b"]),
        ("a // b\n + c // d", ["// b", "// d"]),
        ("'http://x' + \"//\"", []),
        ("'it\\'s // no' // yes", ["// yes"]),
        ("'''a'//''' // c", ["// c"]),
        ("'unclosed // x", []),
        ("r'\\' // a raw string ends there", ["// a raw string ends there"]),
    ],
)
def test_comments_of_a_rule(text: str, found: list[str]) -> None:
    """Comments run to the end of the line; strings hold none."""
    assert [text[start:end] for start, end in comments(text)] == found
