"""Plans made of documents: steps as they are written, rules that are run."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from policy_sched.language.stdlib import policy_environment
from policy_sched.profiles.check import check_rollout
from policy_sched.profiles.load import parse
from policy_sched.profiles.models import OF_CANARIES
from policy_sched.rollout import MEASURES, Measures, Observed, Plan, Step, Verdict, plan_of
from policy_sched.source import SourceFile
from tests.rollout.plans import MINUTE

TEXT = """\
apiVersion: policysched.dev/v1alpha1
kind: Rollout
metadata: {name: careful}
spec:
  steps:
  - audit: {decisions: 500, for: 10m}
  - canary: {percent: 10, by: Namespace, for: 20m}
  - canary: {percent: 50, by: Namespace, decisions: 7}
  abortWhen:
  - {expression: "RULE", message: why, decisions: 3}
"""


def planned(rule: str = "candidate.errors > 0", uid: str = "") -> Plan:
    """Return the plan of a document with one abort rule."""
    (marked,), problems = parse(SourceFile("r.yaml", TEXT.replace("RULE", rule)))
    checked, problems = check_rollout(marked)
    assert problems == []
    assert checked is not None
    return plan_of(checked, uid)


def test_steps_are_those_of_the_document() -> None:
    """Percents, times and decisions are those that are written, and one decision if none is."""
    assert planned().steps == (
        Step(0, "Owner", 10 * MINUTE, 500),
        Step(10, "Namespace", 20 * MINUTE, 1),
        Step(50, "Namespace", 0, 7),
    )


def test_an_object_is_known_by_its_uid() -> None:
    """An object that was deleted and made anew is another rollout; a file goes by its name."""
    assert planned().identity == "careful"
    assert planned(uid="1-2-3").identity == "1-2-3"


def test_the_hash_is_that_of_what_decides() -> None:
    """Another rule is another plan; another message is not."""
    plan = planned()
    assert plan.hash == planned().hash
    assert plan.hash != planned("candidate.errors > 1").hash
    assert (
        plan.hash == replace(plan, abort_when=(replace(plan.abort_when[0], message="other"),)).hash
    )


@pytest.mark.parametrize(
    ("rule", "verdict"),
    [
        ("candidate.unschedulable > stable.unschedulable + 0.02", Verdict(holds=True)),
        ("candidate.waitingP99 > 2.0 * stable.waitingP99", Verdict(holds=False)),
        ("candidate.errors > 0 || stable.errors == 0", Verdict(holds=True)),
        ("candidate.errors / stable.errors > 0", Verdict(error="divide by zero")),
        ("[1, 2].exists(x, candidate.victims == x)", Verdict(holds=True)),
    ],
)
def test_a_rule_reads_both_sides(rule: str, verdict: Verdict) -> None:
    """A rule holds, does not, or has no value; the scheduler's own language decides."""
    (compiled,) = planned(rule).abort_when
    stable = Measures(decisions=100, unschedulable=0.01, waiting_p99=2.0)
    candidate = Measures(decisions=100, unschedulable=0.05, waiting_p99=3.0, victims=2)
    assert compiled.judge(stable, candidate) == verdict


def test_figures_are_what_the_rule_names() -> None:
    """The reason of an abort has the numbers that its rule reads, each once."""
    rule = "candidate.errors > stable.errors && candidate.errors > 2"
    (compiled,) = planned(rule).abort_when
    assert (compiled.reads, compiled.decisions) == (("candidate.errors", "stable.errors"), 3)
    figures = compiled.figures(Measures(errors=1), Measures(errors=4))
    assert figures == {"candidate.errors": 4, "stable.errors": 1}


def test_every_measure_is_one_of_the_language() -> None:
    """Rules can read each measure, and nothing that is not measured."""
    assert set(policy_environment().records["Measures"].fields) == set(MEASURES)
    for name in MEASURES:
        (rule,) = planned(f"candidate.{name} > stable.{name}").abort_when
        larger = replace(Measures(), **{field_of(name): 7})
        assert rule.judge(Measures(), larger) == Verdict(holds=True)
        sampled = name not in (*OF_CANARIES, "unschedulable")
        none, _ = Observed().read_by_rules()
        assert rule.judge(none, larger).holds == sampled


def field_of(name: str) -> str:
    """Return the attribute of a measure."""
    return dict(zip(MEASURES, Measures.__struct_fields__, strict=True))[name]
