"""The one form of an expression: same meaning, same comments, and stable.

Point 4 of the language's test plan: fmt is stable and keeps the meaning.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, strategies as st

from policy_sched.language import formatter
from policy_sched.language.syntax import ast
from policy_sched.language.syntax.parser import comments, parse
from tests.language.rule_files import documents
from tests.language.strategies import rules

Tokens = list[str]

WORDS = st.sampled_from(("pod", "node", "x", "some_rather_long_name_of_a_variable"))
ATOMS = st.sampled_from(
    ("1", "(-7)", "0x1F", "1.50", "2e3", "true", '"a"', "'b'", "'say \"hi\"'", r"r'\d+'")
)


def bracketed(items: list[Tokens], opening: str, closing: str) -> Tokens:
    """Put tokens between brackets, with commas."""
    inside = [token for item in items for token in (*item, ",")][:-1]
    return [opening, *inside, closing]


def grow(inner: st.SearchStrategy[Tokens]) -> st.SearchStrategy[Tokens]:
    """Return expressions over parenthesised ones: every way of putting tokens together."""
    member = inner.map(lambda t: ["(", *t, ")"] if len(t) > 1 else t)
    operators = st.sampled_from(("+", "-", "*", "/", "%", "<", "==", "in", "&&", "||"))
    return st.one_of(
        st.builds(lambda a, op, b: [*a, op, *b], member, operators, member),
        st.builds(
            lambda items, op: [t for item in items for t in (op, *item)][1:],
            st.lists(member, min_size=2, max_size=5),
            st.sampled_from(("&&", "||")),
        ),
        st.builds(lambda a, b, c: [*a, "?", *b, ":", *c], member, member, inner),
        st.builds(lambda op, a: [op, *a], st.sampled_from("!-"), member),
        st.builds(lambda a, dot, w: [*member_of(a), dot, w], inner, dots, WORDS),
        st.builds(lambda a, i: [*member_of(a), "[", *i, "]"], inner, inner),
        st.builds(
            lambda a, w, args: [*member_of(a), ".", w, *bracketed(args, "(", ")")],
            *(inner, WORDS, st.lists(inner, max_size=3)),
        ),
        st.builds(
            lambda w, args: [w, *bracketed(args, "(", ")")], WORDS, st.lists(inner, max_size=3)
        ),
        st.lists(inner, max_size=4).map(lambda items: bracketed(items, "[", "]")),
        st.lists(st.builds(lambda k, v: [*k, ":", *v], member, inner), max_size=3).map(
            lambda items: bracketed(items, "{", "}")
        ),
    )


dots = st.sampled_from((".", ".?"))


def member_of(tokens: Tokens) -> Tokens:
    """Put tokens in parentheses, so that a field of them can be read."""
    return ["(", *tokens, ")"]


expressions = st.recursive(st.one_of(WORDS, ATOMS).map(lambda word: [word]), grow, max_leaves=18)
blanks = st.sampled_from((" ", "  ", "\n", "\n\n  "))
blanks_or_comments = st.one_of(
    blanks, st.sampled_from((" // one\n", "\n// two\n  ", "\n  // three\n\n// four\n"))
)


@st.composite
def texts(draw: st.DrawFn, gaps: st.SearchStrategy[str]) -> str:
    """Return an expression with such gaps between its tokens."""
    tokens = draw(expressions)
    return "".join(token + draw(gaps) for token in tokens)


def meaning(node: ast.Node) -> object:
    """Return a tree without what has no meaning: grouping of a chain, and how a minus is held."""
    match node:
        case ast.AndExpr(args=args) | ast.OrExpr(args=args):
            flat: list[object] = []
            for arg in args:
                inner = meaning(arg)
                same = type(arg) is type(node) and isinstance(inner, list)
                flat += inner[1:] if same and isinstance(inner, list) else [inner]
            return [type(node), *flat]
        case ast.Unary(
            op=op, operand=ast.Unary(op=again, operand=ast.Unary(op=third, operand=operand))
        ) if op == again == third:
            return meaning(ast.Unary(op=op, operand=operand, span=node.span))
        case ast.Unary(op="-", operand=ast.Literal(value=value)) if not isinstance(value, str):
            return -value
        case ast.Literal(value=value):
            return value
    rest = tuple(getattr(node, name, None) for name in ("name", "op", "optional", "quoted"))
    return [type(node), rest, [meaning(child) for child in ast.children(node)]]


def notes(text: str) -> list[str]:
    """Return a text's comments, sorted."""
    return sorted(text[start:end].strip() for start, end in comments(text))


def promise(text: str) -> str:
    """Check what formatting promises for an expression that parses; return the result."""
    tree, problems = parse(text)
    assert tree is not None, (text, problems)
    shown = formatter.format_expression(text)
    assert shown is not None
    again, problems = parse(shown)
    assert again is not None, (shown, problems)
    assert meaning(again) == meaning(tree), shown
    assert notes(shown) == notes(text), shown
    assert formatter.format_expression(shown) == shown
    assert all(line == line.rstrip() for line in shown.split("\n"))
    return shown


@given(texts(blanks))
def test_a_formatted_expression_means_the_same_and_stays_as_it_is(text: str) -> None:
    """Whatever the blanks between tokens, and however it breaks."""
    shown = promise(text)
    flat = formatter.flat_expression(text)
    assert flat is not None
    assert "\n" not in flat
    assert (shown == flat) or len(flat) > formatter.WIDTH


@given(texts(blanks_or_comments))
def test_every_comment_survives_once(text: str) -> None:
    """Comments between any two tokens."""
    promise(text)


def written(value: object) -> Iterator[str]:
    """Yield the texts inside plain data that are expressions."""
    if isinstance(value, str) and parse(value)[0] is not None:
        yield value
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from written(item)


def test_rules_of_the_specification_keep_their_meaning() -> None:
    """All expressions of its worked examples."""
    found = list(written(documents("specification.yaml")))
    assert len(found) > 100
    for text in found:
        promise(text)


@given(rules("filter"))
def test_rules_of_the_generator_keep_their_meaning(text: str) -> None:
    """Rules as users write them."""
    promise(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a&&b||c", "a && b || c"),
        ("(a&&b)||c", "(a && b) || c"),
        ("((a)||b)&&c", "(a || b) && c"),
        ("a?b:(c?d:e)", "a ? b : c ? d : e"),
        ("(a?b:c)?d:e", "(a ? b : c) ? d : e"),
        ("! a . b [ 'x' ]", '!a.b["x"]'),
        ("-(-5)", "-(-5)"),
        ("a-(b-c)-d", "a - (b - c) - d"),
        ("[ 1,?a , 0x10 ]", "[1, ?a, 16]"),
        ("{'k' :1, ?'o':p}", '{"k": 1, ?"o": p}'),
        ("a.`b/c`.?d[ ?e ]", "a.`b/c`.?d[?e]"),
        ("'it\\'s'", '"it\'s"'),
        (r"""'say \"hi\" \\ \n'""", r"""'say "hi" \\ \n'"""),
        ("1.0e3 + 0.10", "1000.0 + 0.1"),
    ],
)
def test_expressions_have_one_space_around_operators(text: str, shown: str) -> None:
    """One space around operators, none inside brackets, no needless parentheses."""
    assert promise(text) == shown


def test_what_does_not_fit_breaks_behind_operators_and_before_branches() -> None:
    """Each step is indented by two."""
    text = (
        "variables.wants ? percent(node.requested[params.gpu] + pod.requests[params.gpu], "
        "node.allocatable[params.gpu]) : (node.allocatable[params.gpu].sign() == 0 ? 100 : 0)"
    )
    assert promise(text) == (
        "variables.wants\n"
        "  ? percent(node.requested[params.gpu] + pod.requests[params.gpu], "
        "node.allocatable[params.gpu])\n"
        "  : node.allocatable[params.gpu].sign() == 0 ? 100 : 0"
    )


def test_comments_go_with_what_they_stand_at() -> None:
    """A comment on a line of its own precedes; one behind something follows it."""
    text = "// only GPUs\na // first\n&& // both\nb\n// last\n&& c // end"
    assert promise(text) == ("// only GPUs\na &&  // first\n// both\nb &&\n// last\nc // end")


@given(texts(blanks), texts(blanks_or_comments))
def test_the_plain_form_is_the_meaning(one: str, other: str) -> None:
    """Equal for texts that mean the same, and only for them."""
    trees = [parse(text)[0] for text in (one, other)]
    assert trees[0] is not None
    assert trees[1] is not None
    shown = [formatter.plain_expression(text) for text in (one, other)]
    assert (shown[0] == shown[1]) == (meaning(trees[0]) == meaning(trees[1]))
    assert formatter.plain_expression(formatter.format_expression(other) or "") == shown[1]


def test_a_text_that_does_not_parse_is_left_alone() -> None:
    """There is nothing to print then."""
    assert formatter.format_expression("a &&") is None
    assert formatter.flat_expression("a &&") is None
    assert formatter.plain_expression("a &&") is None
    assert formatter.flat_expression("a // why") is None
