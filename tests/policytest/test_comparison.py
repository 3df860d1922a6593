"""Comparing outcomes field by field."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policy_sched.policytest.comparison import Deviation, Strictness, compare
from policy_sched.policytest.expectations import (
    ExpectedEviction,
    ExpectedOutcome,
    ExpectedScore,
    GroupCondition,
    GroupOutcome,
    PluginOutcome,
)

RECORD = Strictness(complete=True)
STATED = Strictness(complete=False)

UNFIT = PluginOutcome("Unschedulable", "NodeResourcesFit", ("Insufficient cpu",))
PLACED = ExpectedOutcome(
    pod="default/a",
    rejected={"n3": UNFIT},
    feasible=("n1", "n2"),
    scores={"n1": ExpectedScore(7, {"Fit": 7}), "n2": ExpectedScore(9, {"Fit": 9, "Image": 0})},
    best=("n2",),
)
UNFIT_TEXT = "0/1 nodes are available: 1 Insufficient cpu."
CLAIMS = " no new claims to deallocate"
TAIL = " preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
REFUSED = ExpectedOutcome(
    pod="default/a",
    rejected={"n1": UNFIT},
    feasible=(),
    message=UNFIT_TEXT + TAIL,
    post_filter=PluginOutcome("Unschedulable", "DefaultPreemption", (TAIL.strip(),)),
)


def fields(
    expected: ExpectedOutcome, got: ExpectedOutcome, rules: Strictness = RECORD
) -> list[str]:
    """Return the names of the fields that differ."""
    return [difference.field for difference in compare(expected, got, rules)]


def test_a_person_need_not_state_that_nothing_was_found() -> None:
    """What DynamicResources adds to the message about a missing claim may be left out."""
    missing = '0/1 nodes are available: persistentvolumeclaim "c" not found.'
    got = ExpectedOutcome(pod="default/a", message=f"{missing} not found")
    for stated in (missing, got.message):
        expected = ExpectedOutcome(pod="default/a", message=stated)
        assert fields(expected, got, Strictness(complete=False)) == []
    assert fields(ExpectedOutcome(pod="default/a", message=missing), got) == ["message"]


class TestARecord:
    """The machine's form, in which all that happened is written down."""

    def test_an_outcome_is_as_itself(self) -> None:
        """Nothing differs between equal outcomes."""
        assert compare(PLACED, PLACED, RECORD) == ()
        assert compare(REFUSED, REFUSED, RECORD) == ()

    def test_the_chosen_node_need_only_be_among_the_best(self) -> None:
        """Ties are broken at random: any of the best nodes will do, another one will not."""
        tied = replace(PLACED, best=("n1", "n2"))
        assert fields(replace(tied, chosen="n1"), tied) == []
        assert compare(replace(PLACED, chosen="n1"), PLACED, RECORD) == (
            Deviation("chosen", "n1", ["n2"]),
        )

    def test_an_absent_plugin_scores_zero(self) -> None:
        """A plugin that skipped is absent from the scores, or 0: both are the same."""
        scores = {
            "n1": ExpectedScore(7, {"Fit": 7, "Skipped": 0}),
            "n2": ExpectedScore(9, {"Fit": 9}),
        }
        assert fields(replace(PLACED, scores=scores), PLACED) == []
        assert fields(PLACED, replace(PLACED, scores=scores)) == []

    def test_every_plugins_score_counts(self) -> None:
        """A plugin that scores where none should is named, and so is a wrong total."""
        scores = {
            "n1": ExpectedScore(8, {"Fit": 7, "Extra": 1}),
            "n2": ExpectedScore(9, {"Fit": 9}),
        }
        got = replace(PLACED, scores=scores)
        assert compare(PLACED, got, RECORD) == (
            Deviation("scores.n1.total", 7, 8),
            Deviation("scores.n1.plugins.Extra", 0, 1),
        )

    @pytest.mark.parametrize(
        ("answer", "field"),
        [
            (replace(UNFIT, code="UnschedulableAndUnresolvable"), "rejected.n3.code"),
            (replace(UNFIT, plugin="NodeName"), "rejected.n3.plugin"),
            (replace(UNFIT, reasons=("Insufficient memory",)), "rejected.n3.reasons"),
        ],
    )
    def test_code_plugin_and_reasons_of_a_status_count(
        self, answer: PluginOutcome, field: str
    ) -> None:
        """Each part of a status that differs is named by its path."""
        assert fields(PLACED, replace(PLACED, rejected={"n3": answer})) == [field]

    def test_what_the_record_leaves_out_did_not_happen(self) -> None:
        """A rejection, a gate or a message that the record does not have is a difference."""
        got = replace(PLACED, rejected={"n3": UNFIT, "n4": UNFIT}, pre_enqueue=UNFIT, message="no")
        assert fields(PLACED, got) == ["preEnqueue", "rejected.n4", "message"]

    def test_order_matters_only_among_reasons(self) -> None:
        """Nodes are sets; the reasons of a status are a list."""
        assert fields(PLACED, replace(PLACED, feasible=("n2", "n1"))) == []
        two = replace(UNFIT, reasons=("a", "b"))
        turned = replace(UNFIT, reasons=("b", "a"))
        expected = replace(PLACED, rejected={"n3": two})
        assert fields(expected, replace(PLACED, rejected={"n3": turned})) == ["rejected.n3.reasons"]


class TestPreemption:
    """DefaultPreemption's part."""

    def test_a_person_may_leave_out_what_it_adds_to_a_message(self) -> None:
        """A message that is stated without its tail is compared without it; a record never."""
        head = ExpectedOutcome("default/a", message="0/1 nodes are available: 1 Insufficient cpu.")
        assert fields(head, REFUSED, STATED) == []
        assert fields(replace(REFUSED, message=head.message), REFUSED) == ["message"]

    @pytest.mark.parametrize(
        ("stated", "differ"),
        [
            (UNFIT_TEXT, []),
            (UNFIT_TEXT + CLAIMS, []),
            (UNFIT_TEXT + TAIL, []),
            (UNFIT_TEXT + CLAIMS + "," + TAIL, []),
            (UNFIT_TEXT + CLAIMS + ",", ["message"]),
            (UNFIT_TEXT + " something else", ["message"]),
        ],
    )
    def test_each_part_may_be_left_out(self, stated: str, differ: list[str]) -> None:
        """Messages about claims as well as messages about victims."""
        got = replace(REFUSED, message=UNFIT_TEXT + CLAIMS + "," + TAIL)
        assert fields(ExpectedOutcome(pod="default/a", message=stated), got, STATED) == differ

    def test_the_part_before_the_tail_always_counts(self) -> None:
        """A wrong count of reasons is found with or without preemption's tail."""
        head = ExpectedOutcome("default/a", message="0/1 nodes are available: 1 Too many pods.")
        assert fields(head, REFUSED, STATED) == ["message"]

    def test_a_record_without_eviction_refutes_one(self) -> None:
        """No pod is evicted where the machine's record has no preemption."""
        evicting = replace(REFUSED, preemption=(ExpectedEviction("n1", ("default/x",)),))
        assert fields(REFUSED, evicting) == ["preemption"]

    def test_any_acceptable_eviction_will_do(self) -> None:
        """Of several acceptable nominations one must be made."""
        either = (
            ExpectedEviction("n1", ("default/x",)),
            ExpectedEviction("n2", ("default/y", "default/z")),
        )
        expected = replace(REFUSED, preemption=either)
        turned = ExpectedEviction("n2", ("default/z", "default/y"))
        assert fields(expected, replace(REFUSED, preemption=(turned,))) == []
        other = ExpectedEviction("n3", ())
        assert fields(expected, replace(REFUSED, preemption=(other,))) == ["preemption"]
        assert fields(expected, REFUSED) == ["preemption"]


class TestWhatIsStated:
    """A person's form, in which only what is written is compared."""

    def test_silence_is_no_expectation(self) -> None:
        """An expectation that states nothing is met by anything."""
        assert fields(ExpectedOutcome("default/a"), PLACED, STATED) == []
        assert fields(ExpectedOutcome("default/a"), REFUSED, STATED) == []

    def test_a_reason_alone_is_compared_alone(self) -> None:
        """A person need not write code and plugin."""
        expected = ExpectedOutcome(
            "default/a", rejected={"n3": PluginOutcome(reasons=("Insufficient cpu",))}
        )
        assert fields(expected, PLACED, STATED) == []
        expected = ExpectedOutcome(
            "default/a", rejected={"n3": PluginOutcome(reasons=("Too many pods",))}
        )
        assert fields(expected, PLACED, STATED) == ["rejected.n3.reasons"]

    def test_a_stated_plugin_score_is_compared_alone(self) -> None:
        """Other plugins' scores may be what they like."""
        expected = ExpectedOutcome("default/a", scores={"n2": ExpectedScore(plugins={"Fit": 9})})
        assert fields(expected, PLACED, STATED) == []

    def test_nowhere_means_no_feasible_node(self) -> None:
        """`chosen: null` is refuted by any feasible node."""
        nowhere = ExpectedOutcome("default/a", placed=False)
        assert fields(nowhere, REFUSED, STATED) == []
        assert compare(nowhere, PLACED, STATED) == (Deviation("chosen", "(none)", ["n2"]),)


class TestPlacedTogether:
    """Where a pod's group goes as a whole."""

    GOT = ExpectedOutcome(
        "default/a", placement="rack-b", placements={"rack-a": None, "rack-b": 60}
    )

    def test_the_placement_and_what_each_would_be(self) -> None:
        """Scores are compared by name; None stands for no room."""
        same = ExpectedOutcome(
            "default/a", placement="rack-b", placements={"rack-b": 60, "rack-a": None}
        )
        assert fields(same, self.GOT, STATED) == []
        assert fields(ExpectedOutcome("default/a"), self.GOT, STATED) == []
        other = ExpectedOutcome("default/a", placement="", placements={"rack-b": None, "rack-c": 1})
        assert compare(other, self.GOT, STATED) == (
            Deviation("placement", "(none)", "rack-b"),
            Deviation("placements.rack-b", "no room", 60),
            Deviation("placements.rack-c", 1, "no such placement"),
        )

    def test_a_pod_that_is_placed_alone_has_none(self) -> None:
        """What is stated of placements is not met by it."""
        stated = ExpectedOutcome("default/a", placement="rack-b")
        assert fields(stated, PLACED, STATED) == ["placement"]


def test_what_became_of_a_group_is_shown_in_words() -> None:
    """`got GroupCondition(status='True', ...)` and `('default/a',)` were Python's own words."""
    condition = GroupCondition("True", "Scheduled", "done")
    expected = ExpectedOutcome(
        "default/a", group=GroupOutcome(order=("default/a",), condition=condition)
    )
    found = list(compare(expected, ExpectedOutcome("default/a"), STATED))
    assert [(one.field, one.expected, one.got) for one in found] == [
        ("group.order", ["default/a"], "(none)"),
        ("group.condition", "True Scheduled: done", "(none)"),
    ]
