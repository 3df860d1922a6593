"""Selectors match as Kubernetes' do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from policy_sched.model import selectors
from policy_sched.model.meta import LabelSelector, NodeAffinity

LABELS = {"zone": "a", "cores": "16", "odd": "x", "empty": ""}


def affinity(
    *required: Mapping[str, Any], preferred: tuple[tuple[int, Mapping[str, Any]], ...] = ()
) -> NodeAffinity:
    """Return a node affinity of terms as manifests have them; without any, nothing is required."""
    data: dict[str, Any] = {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": weight, "preference": term} for weight, term in preferred
        ]
    }
    if required:
        data["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": required}
    return msgspec.convert(msgspec.to_builtins(data), NodeAffinity)


def labels(key: str, operator: str, *values: str) -> dict[str, Any]:
    """Return a term of one label requirement."""
    return {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}


def fields(operator: str, *values: str, key: str = "metadata.name") -> dict[str, Any]:
    """Return a term of one field requirement."""
    return {"matchFields": [{"key": key, "operator": operator, "values": values}]}


def both(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    """Return a term with the field requirements of two."""
    return {"matchFields": left["matchFields"] + right["matchFields"]}


class TestRequirement:
    """One requirement on labels."""

    @pytest.mark.parametrize(
        ("key", "operator", "values", "expected"),
        [
            ("zone", "In", ("a", "b"), True),
            ("zone", "In", ("b",), False),
            ("missing", "In", ("a",), False),
            ("empty", "In", ("",), True),
            ("zone", "NotIn", ("a", "b"), False),
            ("zone", "NotIn", ("b",), True),
            ("missing", "NotIn", ("a",), True),
            ("zone", "Exists", (), True),
            ("empty", "Exists", (), True),
            ("missing", "Exists", (), False),
            ("zone", "DoesNotExist", (), False),
            ("missing", "DoesNotExist", (), True),
            ("cores", "Gt", ("15",), True),
            ("cores", "Gt", ("16",), False),
            ("cores", "Lt", ("17",), True),
            ("cores", "Lt", ("16",), False),
            ("odd", "Gt", ("0",), False),
            ("odd", "Lt", ("99",), False),
            ("missing", "Gt", ("0",), False),
            ("missing", "Lt", ("0",), False),
        ],
    )
    def test_each_operator_has_kubernetes_result(
        self, key: str, operator: str, values: tuple[str, ...], expected: bool
    ) -> None:
        """Each operator has Kubernetes' result for present, absent and unfit labels."""
        assert selectors.requirement(key, operator, values).matches(LABELS) is expected

    @pytest.mark.parametrize(
        ("key", "operator", "values", "words"),
        [
            ("a", "in", ("x",), 'operator: Unsupported value: "in"'),
            ("a", "In", (), "values set can't be empty"),
            ("a", "NotIn", (), "values set can't be empty"),
            ("a", "Exists", ("x",), "values set must be empty"),
            ("a", "DoesNotExist", ("x",), "values set must be empty"),
            ("a", "Gt", (), "exactly one value is required"),
            ("a", "Gt", ("1", "2"), "exactly one value is required"),
            ("a", "Lt", ("x",), "the value must be an integer"),
            ("a", "Lt", ("99999999999999999999",), "the value must be an integer"),
            ("a b", "Exists", (), "name part must consist of alphanumeric characters"),
            ("", "Exists", (), "name part must be non-empty; name part must consist of"),
            ("a", "In", ("x y",), 'values[0][a]: Invalid value: "x y": a valid label must be'),
            ("a", "Gt", ("-1",), 'values[0][a]: Invalid value: "-1": a valid label must be'),
        ],
    )
    def test_selectors_that_the_api_refuses_are_refused_in_its_words(
        self, key: str, operator: str, values: tuple[str, ...], words: str
    ) -> None:
        """Selectors that the API server would reject are rejected, in its words."""
        with pytest.raises(ValueError, match=r"(operator|key|values|\]): ") as caught:
            selectors.requirement(key, operator, values)
        assert words in str(caught.value)

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("1", 1),
            ("-1", -1),
            ("+1", 1),
            ("007", 7),
            ("9223372036854775807", 2**63 - 1),
            ("9223372036854775808", None),
            *((text, None) for text in ("", " 1", "1.0", "1_0", "\u0663", "0x1")),
        ],
    )
    def test_integers_of_selectors_are_read_as_go_reads_them(
        self, text: str, expected: int | None
    ) -> None:
        """Integers are read as Go reads them."""
        assert selectors.int64(text) == expected

    @pytest.mark.parametrize(
        ("key", "expected"),
        [
            *((key, True) for key in ("a", "a.b/c_d", "x" * 63, "0")),
            *((key, False) for key in ("A/b", "a/", "/a", "a/b/c", "-a", "a-", "é", "a b")),
            ("x" * 64, False),
            ("a" * 254 + "/b", False),
        ],
    )
    def test_qualified_names(self, key: str, expected: bool) -> None:
        """Label keys are names with an optional domain."""
        assert selectors.is_qualified_name(key) is expected


class TestLabelSelector:
    """Selectors of pods and namespaces."""

    def test_no_selector_selects_nothing_and_an_empty_one_everything(self) -> None:
        """No selector selects nothing, an empty one everything."""
        assert selectors.label_selector(None) == selectors.NOTHING
        assert selectors.label_selector(LabelSelector()) == selectors.EVERYTHING
        assert selectors.EVERYTHING.matches({})
        assert not selectors.NOTHING.matches({"a": "b"})

    def test_all_must_hold(self) -> None:
        """Labels and expressions must all hold."""
        data = {
            "matchLabels": {"zone": "a"},
            "matchExpressions": [{"key": "odd", "operator": "Exists"}],
        }
        selector = selectors.label_selector(msgspec.convert(data, LabelSelector))
        assert selector.matches(LABELS)
        assert not selector.matches({"zone": "a"})
        assert not selector.matches({"zone": "b", "odd": ""})

    def test_gt_is_for_nodes(self) -> None:
        """Gt and Lt belong to node selectors only."""
        data = {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}
        with pytest.raises(ValueError, match='Unsupported value: "Gt"'):
            selectors.label_selector(msgspec.convert(data, LabelSelector))

    def test_node_selector_map(self) -> None:
        """A pod's nodeSelector needs each label with its value."""
        assert selectors.equality_selector({"zone": "a", "empty": ""}).matches(LABELS)
        assert not selectors.equality_selector({"zone": "a", "missing": ""}).matches(LABELS)
        assert selectors.equality_selector({}).matches({})


AT = "matchExpressions[0]"
BAD = "values[0]: Invalid value"
INTEGER = "for 'Gt', 'Lt' operators, the value must be an integer"
ONE = "for 'Gt', 'Lt' operators, exactly one value is required"
IN = 'supported values: "In", "NotIn"'


class TestNodeAffinity:
    """Required terms are alternatives, preferred ones add up."""

    @pytest.mark.parametrize(
        ("terms", "expected"),
        [
            ((labels("zone", "In", "a"),), True),
            ((labels("zone", "In", "b"), labels("odd", "Exists")), True),
            ((labels("zone", "In", "b"), labels("odd", "DoesNotExist")), False),
            (({},), False),
            (({}, labels("zone", "In", "a")), True),
            ((labels("zone", "Bad"),), False),
            ((labels("zone", "Bad"), labels("zone", "Exists")), True),
            ((fields("In", "n1"),), True),
            ((fields("In", "n2"),), False),
            ((fields("NotIn", "n2"),), True),
            ((fields("NotIn", "n1"),), False),
            ((fields("In", "n1", "n2"),), False),
            ((fields("Exists"),), False),
            ((fields("In", "x", key="metadata.uid"),), False),
            ((fields("In", "", key="metadata.uid"),), True),
            (({**labels("zone", "In", "a"), **fields("In", "n1")},), True),
            (({**labels("zone", "In", "b"), **fields("In", "n1")},), False),
        ],
    )
    def test_one_required_term_must_match_with_all_of_it(
        self, terms: tuple[dict[str, Any], ...], expected: bool
    ) -> None:
        """One term must match with all of it; empty and bad terms match no node."""
        assert selectors.required_matches(affinity(*terms), LABELS, "n1") is expected

    def test_nothing_required(self) -> None:
        """Without a required part every node matches; with one that has no terms, none does."""
        assert selectors.required_matches(None, {}, "n")
        assert selectors.required_matches(affinity(), {}, "n")
        empty = msgspec.convert(
            {"requiredDuringSchedulingIgnoredDuringExecution": {}}, NodeAffinity
        )
        assert not selectors.required_matches(empty, {}, "n")
        assert selectors.NodeMatcher(empty).has_required

    def test_weights_of_matching_terms_add_up(self) -> None:
        """The weights of matching terms add up; weight 0 and empty terms give nothing."""
        wanted = affinity(
            preferred=(
                (5, labels("zone", "In", "a")),
                (7, labels("zone", "In", "b")),
                (30, fields("In", "n1")),
                (0, labels("zone", "Bad")),
                (9, {}),
            )
        )
        assert selectors.preferred_score(wanted, LABELS, "n1") == 35
        assert selectors.preferred_score(wanted, LABELS, "n2") == 5
        assert selectors.preferred_score(None, LABELS, "n1") == 0
        assert not selectors.NodeMatcher(wanted).error

    def test_bad_preferred_terms_are_listed(self) -> None:
        """Preferred terms that are not valid are named, and the others still count."""
        wanted = affinity(preferred=((5, labels("a", "Bad")), (2, labels("zone", "Exists"))))
        matcher = selectors.NodeMatcher(wanted)
        assert matcher.preferred_score(LABELS, "n1") == 2
        assert matcher.error.startswith(
            '[0].matchExpressions[0].operator: Unsupported value: "Bad": supported'
        )

    @pytest.mark.parametrize(
        ("terms", "words"),
        [
            ([labels("cores", "Gt", "4Gi")], f'[0].{AT}.{BAD}: "4Gi": {INTEGER}'),
            (
                [labels("zone", "Exists"), labels("cores", "Lt", "1", "2")],
                f'[1].{AT}.values: Invalid value: ["1","2"]: {ONE}',
            ),
            (
                [labels("cores", "Gt", "a"), labels("cores", "Gt", "b")],
                f'[[0].{AT}.{BAD}: "a": {INTEGER}, [1].{AT}.{BAD}: "b": {INTEGER}]',
            ),
            ([fields("Exists")], f'[0].matchFields[0].operator: Unsupported value: "Exists": {IN}'),
        ],
    )  # fmt: skip
    def test_faults_of_preferred_terms_have_their_place(
        self, terms: list[dict[str, object]], words: str
    ) -> None:
        """Each fault has its path, all of them are in one text, as in kube-scheduler."""
        assert (
            selectors.NodeMatcher(affinity(preferred=tuple((1, t) for t in terms))).error == words
        )

    def test_a_negative_bound_is_no_label_value(self) -> None:
        """Gt and Lt accept only label values: -5 is an integer and rejected all the same."""
        error = selectors.NodeMatcher(affinity(preferred=((1, labels("cores", "Gt", "-5")),))).error
        assert error.startswith(
            '[0].matchExpressions[0].values[0][cores]: Invalid value: "-5": a valid label must be'
        )

    @pytest.mark.parametrize(
        ("terms", "expected"),
        [
            ((), None),
            ((fields("In", "a"),), {"a"}),
            ((fields("In", "a"), fields("In", "b")), {"a", "b"}),
            ((fields("In", "a"), labels("zone", "Exists")), None),
            ((fields("NotIn", "a"),), None),
            ((both(fields("In", "a"), fields("In", "b")),), set()),
            ((both(fields("In", "a", "b"), fields("In", "b")),), {"b"}),
            (({**fields("In", "a"), **labels("zone", "In", "x")},), {"a"}),
            ((fields("In", "a", key="metadata.uid"),), None),
        ],
    )
    def test_required_node_names(
        self, terms: tuple[dict[str, Any], ...], expected: set[str] | None
    ) -> None:
        """Names intersect in a term and unite over terms; one term without names frees all."""
        found = selectors.required_node_names(affinity(*terms))
        assert found == expected


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("(" * 30_000, "found '(', expected a key"),
        ("a in " + "(" * 30_000, "found '(', expected a value"),
        ("a in (" + "(" * 30_000, "found '(', expected a value"),
        ("a," * 30_000, "found the end, expected a key"),
    ],
    ids=["a key", "after in", "a value", "keys"],
)
def test_a_selector_of_thousands_of_signs_is_refused_at_the_first_fault(
    text: str, fault: str
) -> None:
    """A label selector of 30,000 parentheses kept a command busy."""
    with pytest.raises(ValueError, match=re.escape(fault)):
        selectors.parse_selector(text)
