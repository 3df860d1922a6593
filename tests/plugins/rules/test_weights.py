"""Promises of weights that differ from pod to pod."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from policy_sched.cli.main import run
from policy_sched.framework.evaluate.evaluator import Evaluator
from policy_sched.model.pod_info import PodInfo
from policy_sched.profiles.build.pipeline import CompiledPlan
from policy_sched.scheduler.setup.factory import assemble, read
from policy_sched.testing import make_node, make_pod

HEAD = "apiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {name: Weights}\nspec:\n"
WEIGHTS = """\
  matchConditions:
  - pod.labels[?"free"] != optional.of("no")
  weights:
  - {plugin: NodeResourcesFit, expression: 'pod.labels[?"tier"] == optional.of("batch") ? 0 : 7'}
  - {plugin: ImageLocality, expression: 'clamp(int(pod.labels["images"]), 0, 100)'}
  - {plugin: NodeResourcesBalancedAllocation, expression: 'clamp(namespaceObject.labels.size() + 2, 0, 9)'}
"""  # noqa: E501 - a weight on a line


@pytest.fixture(name="plans", scope="module")
def _plans(tmp_path_factory: pytest.TempPathFactory) -> tuple[CompiledPlan, ...]:
    """Return the default profile compiled with weights."""
    path = tmp_path_factory.mktemp("weights") / "policy.yaml"
    path.write_text(HEAD + WEIGHTS, encoding="utf-8")
    return read(None, [str(path)])[0]


def stated(labels: dict[str, str]) -> dict[str, int]:
    """Return the weights that the policy states, as a reader of it would."""
    if labels.get("free") == "no":
        return {}
    weights = {"NodeResourcesFit": 0 if labels.get("tier") == "batch" else 7}
    weights["NodeResourcesBalancedAllocation"] = 2
    return weights | ({"ImageLocality": int(labels["images"])} if "images" in labels else {})


@pytest.mark.parametrize("seed", range(4))
def test_pods_have_their_own_weights(plans: tuple[CompiledPlan, ...], seed: int) -> None:
    """A profile had one weight for all pods; kept scores of other weights are not used again."""
    rng = Random(seed)
    scheduler = assemble(plans)
    for number in range(12):
        images = {"x": 10**9} if number % 3 else {}
        scheduler.cache.add_node(make_node(f"n{number}", cpu=4 + number % 5, images=images))
    profile = scheduler.profiles["default-scheduler"]
    bare = Evaluator(profile.runner, scheduler.cache.nodes, cached=False)
    for number in range(60):
        labels = {
            key: rng.choice(values)
            for key, values in {
                "tier": ["batch", "web"],
                "images": ["3", "90"],
                "free": ["no", "yes"],
            }.items()
            if rng.random() < 0.5
        }
        pod = PodInfo.of(make_pod(f"p{number}", cpu="100m", images=["x"], labels=labels))
        kept, anew = (one.evaluate(pod).scoring for one in (profile.evaluator, bare))
        assert kept is not None
        assert anew is not None
        assert kept.total.tolist() == anew.total.tolist()
        weights = {view.name: view.weight for view in kept.views}
        own = {view.name: view.plugin.hook.weight for view in kept.views} | stated(labels)
        assert weights == {name: own[name] for name in weights}
        scheduler.cache.add_pod(
            PodInfo.of(make_pod(f"p{number}", cpu="100m", node_name=f"n{rng.randrange(12)}"))
        )


POD = """\
apiVersion: v1
kind: Node
metadata: {name: n}
status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}
---
apiVersion: v1
kind: Node
metadata: {name: m}
status: {allocatable: {cpu: 8, memory: 8Gi, pods: 10}}
---
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {tier: batch, images: "5"}}
spec: {containers: [{name: c, image: x, resources: {requests: {cpu: 1}}}]}
"""


def test_explain_shows_the_weight_in_force(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Scores were more than a hundred, and nothing said why."""
    (tmp_path / "policy.yaml").write_text(HEAD + WEIGHTS, encoding="utf-8")
    (tmp_path / "cluster.yaml").write_text(POD, encoding="utf-8")
    files = ["--cluster", str(tmp_path / "cluster.yaml"), "--policies", str(tmp_path)]
    assert run(["explain", "p", *files]) == 0
    assert "NodeResourcesBalancedAllocation (weight 2)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("ImageLocality", "ImageLocalty", "did you mean 'ImageLocality'?"),
        ("ImageLocality", "NodeResourcesFit", 'of which policy "Weights" states one, too'),
        ("ImageLocality", "NodeName", "which does not score in this profile"),
        (
            'clamp(int(pod.labels["images"]), 0, 100)',
            "pod.priority",
            "PS321: the weight's range is",
        ),
        ('int(pod.labels["images"])', "node.podCount", "PS104: `node` is not available"),
    ],
)
def test_mistakes_about_weights(
    before: str, after: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A plugin that does not score, a second weight, and rules about nodes are refused."""
    spec = WEIGHTS.replace(before, after, 1)
    (tmp_path / "policy.yaml").write_text(HEAD + spec, encoding="utf-8")
    (tmp_path / "cluster.yaml").write_text(POD, encoding="utf-8")
    files = ["--cluster", str(tmp_path / "cluster.yaml"), "--policies", str(tmp_path)]
    assert run(["explain", "p", *files]) == 1
    said = capsys.readouterr()
    assert problem in said.out + said.err
