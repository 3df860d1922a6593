"""Promises of the checker: types, names, order of definitions, all mistakes at once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from policy_sched.language.check.policy import check_expression, check_policy
from policy_sched.language.diagnostics import PolicySource, Rule, Text
from policy_sched.language.syntax import ast
from policy_sched.language.values import types
from tests.language.rule_files import RULES, documents, policy

_LINE = re.compile(
    r"^(?P<text>.*?)\s*###\s*(?:->\s*(?P<type>.+)|(?P<code>PS\d+)\s+\"(?P<words>.*)\")$"
)

TOKENS = (
    *("node", "pod", ".", "labels", "free", "[", "]", "(", ")", '"cpu"', "1", "+", "==", "&&"),
    *("?", ":", "exists", "x", ",", "in", "has", "map", "!", "-", "size", "{", "}", "optional"),
)


def _cases() -> list[tuple[str, str, str, str]]:
    found = []
    for path in sorted(RULES.glob("*.rules")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line and not line.startswith("//"):
                match = _LINE.match(line)
                assert match, f"{path.name}: {line}"
                found.append(tuple(match[k] or "" for k in ("text", "type", "code", "words")))
    return found  # type: ignore[return-value]  # four texts each


def good(text: str, **params: object) -> ast.Core:
    """Return the typed tree of an expression that must be right."""
    tree, diagnostics = check_expression(text, params=params)
    assert tree is not None, diagnostics
    return tree


def codes(text: str, section: str = "any") -> list[str]:
    """Return the codes that an expression gets."""
    return [d.code for d in check_expression(text, section)[1]]


@pytest.mark.parametrize(("text", "kind", "code", "words"), _cases())
def test_expressions_of_the_rule_files(text: str, kind: str, code: str, words: str) -> None:
    """An expression has the type, or the one problem, that stands beside it."""
    tree, diagnostics = check_expression(text)
    if kind:
        assert [d.render() for d in diagnostics] == []
        assert tree is not None
        assert str(tree.type) == kind
    else:
        assert [d.code for d in diagnostics] == [code], diagnostics
        assert re.search(re.escape(words), diagnostics[0].message), diagnostics[0].message


@pytest.mark.parametrize("spec", documents("specification.yaml"), ids=lambda spec: spec["name"])
def test_the_policies_of_the_specification_are_right(spec: dict[str, Any]) -> None:
    """Each of the specification's policies passes without a diagnostic."""
    checked, diagnostics = check_policy(policy(spec))
    assert [d.render() for d in diagnostics] == []
    assert checked is not None
    assert [name for name, _ in checked.variables] == [v["name"] for v in spec.get("variables", ())]
    assert set(checked.functions) == {f["name"] for f in spec.get("functions", ())}


class TestTypedTree:
    """The typed tree that the compiler receives."""

    def test_operators_and_methods_are_settled(self) -> None:
        """Every call names its overload."""
        tree = good("node.podCount + 1 > 2")
        assert isinstance(tree, ast.Call)
        assert tree.overload == "gt_int_int"
        assert isinstance(tree.args[0], ast.Call)
        assert tree.args[0].overload == "add_int_int"

    def test_a_key_is_an_index(self) -> None:
        """A map's field is an index by a constant text."""
        assert good("node.labels.zone") == good('node.labels["zone"]')
        tree = good("node.labels.?zone")
        assert isinstance(tree, ast.Index)
        assert tree.optional

    def test_a_literal_takes_the_dimension_that_it_meets(self) -> None:
        """A quantity literal compared with cpu is an amount of cpu."""
        tree = good('node.free["cpu"] > (node.ready ? quantity("1") : quantity("2"))')
        assert isinstance(tree, ast.Call)
        assert isinstance(tree.args[1], ast.Cond)
        assert tree.args[1].then.type == types.quantity_of("cpu")
        assert good('quantity("1")').type == types.quantity_of("free")

    @pytest.mark.parametrize(
        ("name", "dimension"),
        [("cpu", "cpu"), ("memory", "bytes"), ("hugepages-2Mi", "bytes"), ("x.io/gpu", "count")],
    )
    def test_a_resource_has_its_dimension(self, name: str, dimension: str) -> None:
        """The name of a resource tells what its amounts count."""
        kind = good(f'node.free["{name}"]').type
        assert isinstance(kind, types.QuantityType)
        assert kind.dimension == dimension

    def test_macro_variables_are_unique(self) -> None:
        """Two macros over one name have two variables, and the inner one is meant inside."""
        tree = good("[1].all(x, [2].all(x, x == 2) && x == 1)")
        assert isinstance(tree, ast.Macro)
        inner = next(a for a in getattr(tree.test, "args", ()) if isinstance(a, ast.Macro))
        assert tree.names != inner.names
        assert isinstance(inner.test, ast.Call)
        assert isinstance(inner.test.args[0], ast.Var)
        assert inner.test.args[0].name == inner.names[0]

    def test_bind_is_a_let(self) -> None:
        """`cel.bind` stays a binding, so that its value is computed once."""
        tree = good("cel.bind(x, node.podCount, x + x)")
        assert isinstance(tree, ast.Let)

    def test_sum_with_a_body_is_the_sum_of_a_map(self) -> None:
        """`e.sum(x, t)` means `e.map(x, t).sum()`."""
        tree = good("node.pods.sum(p, p.priority)")
        assert isinstance(tree, ast.Call)
        assert tree.overload == "sum_list"
        assert isinstance(tree.args[0], ast.Macro)

    def test_spans_count_in_the_text(self) -> None:
        """A tree knows the characters that it was written with."""
        text = "  node.podCount   > 1 "
        tree = good(text)
        assert text[tree.span.start : tree.span.end] == "node.podCount   > 1"


class TestParams:
    """Parameters are typed from their values."""

    def test_an_empty_list_fits_everywhere(self) -> None:
        """A list without elements is a list of anything, and so are its elements."""
        tree = good("params.none.filter(r, node.free[r.name] > quantity(r.least))", none=[])
        assert isinstance(tree.type, types.ListType)
        assert tree.type.element == types.UNKNOWN
        good('"a" in params.none && pod.requests.fitsIn(node.free, params.none)', none=[])

    def test_an_affinity_of_any_shape_reaches_its_builtin(self) -> None:
        """What only a builtin reads may have terms of different shapes, or be absent."""
        shapes: list[object] = [
            {},
            None,
            {"a": [{"b": 1}, {"c": "x"}]},
            {"required": {"nodeSelectorTerms": [{"matchFields": []}]}},
        ]
        for shape in shapes:
            good("node.matchesAffinity(params.added)", added=shape)
        tree, diagnostics = check_expression("node.matchesAffinity(pod.labels[?'a'])")
        assert tree is None
        assert diagnostics[0].code == "PS201"

    def test_raw_values_are_not_read_otherwise(self) -> None:
        """A parameter of mixed shapes has no fields and no elements."""
        tree, diagnostics = check_expression("params.x.a == 1", params={"x": [1, "a"]})
        assert tree is None
        assert [d.code for d in diagnostics] == ["PS103"]


class TestMistakes:
    """Each problem is reported once, completely."""

    def test_one_mistake_is_one_diagnostic(self) -> None:
        """What follows from a mistake is not reported."""
        assert codes("node.fre['cpu'] > quantity('1') && size(node.fre) > 1") == ["PS102"] * 2
        assert codes("nod.a.b.c.exists(x, x.y > 1) ? [1, x] : 'a'") == ["PS101", "PS101"]

    def test_all_mistakes_of_a_policy_come_at_once(self) -> None:
        """Every section is checked, whatever is wrong in another."""
        spec = {
            "functions": [{"name": "f", "params": {"a": "strin"}, "expression": "a + 1"}],
            "variables": [{"name": "v", "expression": "nod"}, {"name": "w", "expression": "1 +"}],
            "matchConditions": ["pod.x", "variables.v && variables.w && f(1)"],
            "filter": [{"expression": "1", "reasons": "2", "resolvable": "3"}],
            "score": {"expression": "node.nam", "normalize": {"expression": "score.x"}},
        }
        checked, diagnostics = check_policy(policy(spec))
        assert checked is None
        assert sorted(d.code for d in diagnostics) == [
            *("PS001", "PS101", "PS101", "PS102", "PS102", "PS103", "PS301", "PS301", "PS301"),
        ]

    def test_at_most_a_hundred_are_kept(self) -> None:
        """A file full of mistakes gives a hundred diagnostics."""
        text = Text("[" + ", ".join(f"a{i}" for i in range(300)) + "].size() > 0")
        source = PolicySource("test", filter=(Rule(text),))
        assert len(check_policy(source)[1]) == 100

    @pytest.mark.parametrize(
        ("text", "hint"),
        [
            ("limit > 1", "write `params.limit`"),
            ("tier == 1", "write `variables.tier`"),
            ("variables.limit > 1", "write `params.limit`"),
            ("half + 1 > 2", "`half` is a function: call it"),
            ("clamp", "`clamp` is a function: call it"),
            (
                "labels.size() > 1",
                "write one of `namespaceObject.labels`, `node.labels`, `pod.labels`",
            ),
            ("namespaceObject.labels.contains('a')", "string.contains(string) -> bool"),
            ("pod.tolerates", "`tolerates` is a method: write `.tolerates(...)`"),
            ("tier.half()", "write `variables.tier`"),
            ("node.name.half()", "write `half(x)`"),
            ("half('a') > 1", ""),
            ("half() > 1", "half(int)"),
            ("variables.tir > 1", ""),
        ],
    )
    def test_hints_say_what_to_write(self, text: str, hint: str) -> None:
        """For a name that is defined elsewhere the hint shows what to write."""
        spec = {
            "params": {"limit": 1},
            "functions": [{"name": "half", "params": {"n": "int"}, "expression": "n / 2"}],
            "variables": [{"name": "tier", "expression": "1"}],
            "filter": [{"expression": text}],
        }
        _, (problem,) = check_policy(policy(spec))
        assert problem.hint == hint

    def test_places_come_from_the_file(self) -> None:
        """A text maps its characters to places in the file."""
        text = Text(
            "pod.x", "a.yaml", lambda at: (7, at + 11, "  - expression: pod.x"), "filter[0]"
        )
        _, (problem,) = check_policy(PolicySource("p", filter=(Rule(text),)))
        assert (problem.file, problem.line, problem.column, problem.width) == ("a.yaml", 7, 15, 1)
        assert "filter[0]" in problem.context

    @given(st.lists(st.sampled_from(TOKENS), max_size=14))
    def test_token_soup_never_breaks_the_checker(self, tokens: list[str]) -> None:
        """Any text gives a tree, or diagnostics that lie inside it."""
        text = "".join(tokens)
        tree, diagnostics = check_expression(text)
        assert (tree is None) == any(d.severity == "error" for d in diagnostics)
        for found in diagnostics:
            assert found.code.startswith("PS")
            assert 1 <= found.column <= len(text) + 1

    @pytest.mark.parametrize(
        "text",
        [
            "!" * 90 + "true",
            "abs(" * 95 + "1" + ")" * 95,
            "true ? 1 : " * 95 + "1",
            "1" + "+1" * 98,
        ],
    )
    def test_deep_expressions_within_the_limit_are_checked(self, text: str) -> None:
        """The deepest expression that the parser lets pass does not exhaust the checker."""
        good(text)


class TestDefinitions:
    """Functions and variables."""

    def test_definitions_may_stand_in_any_mixture(self) -> None:
        """A function may read variables, and a variable may call functions, if no circle forms."""
        spec = {
            "functions": [
                {"name": "half", "params": {"n": "int"}, "expression": "n / variables.two"},
                {"name": "quarter", "params": {"n": "int"}, "expression": "half(half(n))"},
            ],
            "variables": [
                {"name": "two", "expression": "2"},
                {"name": "one", "expression": "quarter(4)"},
            ],
        }
        checked, diagnostics = check_policy(policy(spec))
        assert diagnostics == []
        assert checked is not None

    def test_a_circle_through_a_function_is_found(self) -> None:
        """A variable that a function needs to give its value cannot call that function."""
        spec = {
            "functions": [{"name": "f", "expression": "variables.v + 1"}],
            "variables": [{"name": "v", "expression": "f()"}],
        }
        assert {d.code for d in check_policy(policy(spec))[1]} == {"PS110"}

    @pytest.mark.parametrize(
        ("declared", "given", "code"),
        [
            ("list(Pod)", "node.pods", ""),
            ("list(Pod)", "node.taints", "PS203"),
            ("list(double)", "[1.0]", ""),
            ("list(double)", "[1]", "PS203"),
            ("list(double)", "[]", ""),
            ("quantity", 'node.free["cpu"]', ""),
            ("quantity", "1", "PS203"),
            ("map(string, int)", '{"a": 1}', ""),
            ("optional(string)", "node.labels[?'a']", ""),
            ("Taint", "taint('a', 'b', 'NoExecute')", ""),
            ("{name: string, weight: int}", "params.r", ""),
        ],
    )
    def test_arguments_suit_their_parameters(self, declared: str, given: str, code: str) -> None:
        """A function takes what its parameters' types say."""
        spec = {
            "params": {"r": {"name": "cpu", "weight": 1}},
            "functions": [{"name": "f", "params": {"a": declared}, "expression": "true"}],
            "filter": [{"expression": f"f({given})"}],
        }
        assert [d.code for d in check_policy(policy(spec))[1]] == ([code] if code else [])

    @pytest.mark.parametrize(
        ("spec", "code"),
        [
            ({"functions": [{"name": "min", "expression": "1"}]}, "PS111"),
            ({"functions": [{"name": "for", "expression": "1"}]}, "PS005"),
            ({"functions": [{"name": "f-g", "expression": "1"}]}, "PS005"),
            (
                {"functions": [{"name": "f", "params": {"a": "list(x)"}, "expression": "1"}]},
                "PS101",
            ),
            ({"functions": [{"name": "f", "params": {"in": "int"}, "expression": "1"}]}, "PS005"),
            ({"functions": [{"name": "f", "params": {"pod": "Pod"}, "expression": "1"}]}, "PS109"),
            (
                {
                    "functions": [
                        {"name": "f", "expression": "g()"},
                        {"name": "g", "expression": "1"},
                    ]
                },
                "PS110",
            ),
            ({"variables": [{"name": "v", "expression": "variables.v"}]}, "PS110"),
            ({"variables": [{"name": f"v{i}", "expression": "1"} for i in range(65)]}, "PS501"),
            ({"filter": [{"expression": "true"}] * 65}, "PS501"),
            ({"matchConditions": ["pod.name != ''"] * 65}, "PS501"),
            ({"queueSort": [{"expression": "pod.priority"}] * 65}, "PS501"),
            ({"filter": [{"expression": " || ".join(["[true].all(x, x)"] * 33)}]}, "PS502"),
            ({"filter": [{"expression": f"[{'1, ' * 1025}].size() > 0"}]}, "PS502"),
        ],
    )
    def test_what_a_definition_may_not_be(self, spec: dict[str, Any], code: str) -> None:
        """Names, parameters, order and number of definitions are checked."""
        assert [d.code for d in check_policy(policy(spec))[1]] == [code]

    def test_functions_count_where_they_are_called(self) -> None:
        """Calls that double in size with each function are refused before they are inlined."""
        functions = [{"name": "f0", "params": {"n": "int"}, "expression": "n + n"}]
        functions += [
            {"name": f"f{i}", "params": {"n": "int"}, "expression": f"f{i - 1}(n) + f{i - 1}(n)"}
            for i in range(1, 20)
        ]
        found = check_policy(policy({"functions": functions}))[1]
        assert [d.code for d in found] == ["PS501"]


class TestSections:
    """Each section sees its own names and requires its own type."""

    @pytest.mark.parametrize(
        ("section", "text", "code"),
        [
            ("matchConditions", "cluster.nodeCount > 1", ""),
            ("matchConditions", "node.ready", "PS104"),
            ("matchConditions", "domain('z').podCount > 1", "PS104"),
            ("preEnqueue", "queue.attempts < 3 && now > queue.enqueuedAt", ""),
            ("preEnqueue", "domains('z').size() > 1", "PS104"),
            ("queueSort", "queue.enqueuedAt", ""),
            ("queueSort", "podGroup.name", ""),
            ("queueSort", "podGroup", "PS305"),
            ("queueSort", "now", "PS313"),
            ("preFilter.nodeNames", "pod.requiredNodeNames()", ""),
            ("preFilter.nodeNames", '["a"]', ""),
            ("preFilter.nodeNames", '"a"', "PS301"),
            ("filter", "cycle.preempting || node.ready", ""),
            ("filter", "queue.attempts > 1", "PS104"),
            ("filter.reasons", "[]", ""),
            ("filter.reasons", "[1]", "PS305"),
            ("score", "1.5", ""),
            ("score", "score", "PS104"),
            ("score", "true", "PS302"),
            ("score.normalize", "double(score) / scores.mean", ""),
            ("score.matchConditions", "pod.hasPreferredNodeAffinity()", ""),
        ],
    )
    def test_an_expression_of_a_section_passes_or_gets_its_code(
        self, section: str, text: str, code: str
    ) -> None:
        """A section's expression passes, or gets the one code."""
        assert codes(text, section) == ([code] if code else [])

    def test_what_a_definition_reads_counts_where_it_is_used(self) -> None:
        """A variable or function is as available as what it reads."""
        spec = {
            "functions": [{"name": "f", "expression": "node.ready"}],
            "variables": [{"name": "v", "expression": "f()"}, {"name": "w", "expression": "now"}],
            "preEnqueue": [{"expression": "f()"}, {"expression": "variables.v"}],
            "queueSort": [{"expression": "variables.w"}],
        }
        assert [d.code for d in check_policy(policy(spec))[1]] == ["PS104", "PS104", "PS313"]


def test_constants_keep_their_values() -> None:
    """A literal's value and type are those that were written."""
    for text, value in (("1", 1), ("-1", -1), ("0x10", 16), ("1.5", 1.5), ('"a"', "a")):
        tree = good(text)
        assert isinstance(tree, ast.Const)
        assert (tree.value, type(tree.value)) == (value, type(value))


def test_the_rule_files_are_read() -> None:
    """The data files beside the tests hold cases."""
    assert {Path(p).name for p in RULES.glob("*.rules")} == {"macros.rules", "types.rules"}
    assert len(_cases()) > 100
