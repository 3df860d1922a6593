"""Every shipped policy compiles without a warning and is documented; policytest runs its tests.

Point 8 of the language's test plan: the policies load without a warning.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from policy_sched.manifests.load import load
from policy_sched.model import PodInfo
from policy_sched.profiles.load import load_policies
from policy_sched.report import unshown
from policy_sched.scheduler.setup.factory import build, load_cluster, read
from policy_sched.simulate.one_shot import run_queue

POLICIES = Path(__file__).parents[2] / "policies"
FOLDERS = sorted(path.parent for path in POLICIES.glob("*/policy.yaml"))
OPTIONAL = [folder for folder in FOLDERS if folder.name != "default"]
EXAMPLE = POLICIES / "example-cluster"


def name_of(path: Path) -> str:
    """Return a folder's name, for the test's id."""
    return path.name


def readme_configuration(folder: Path) -> dict[str, object]:
    """Return the KubeSchedulerConfiguration in a README."""
    block = re.search(r"```yaml\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    assert block, folder
    found = yaml.load(block[1], yaml.CSafeLoader)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("folder", FOLDERS, ids=name_of)
def test_folder_is_complete(folder: Path) -> None:
    """A policy travels with its tests, its README, and the schemas of what it reads."""
    files = {path.name for path in folder.iterdir() if path.suffix != ".json"}
    assert files - {"claims.yaml"} == {"policy.yaml", "tests.yaml", "README.md"}


@pytest.mark.parametrize("folder", FOLDERS, ids=name_of)
def test_policy_compiles_without_diagnostics(folder: Path) -> None:
    """No error, and no lint warning."""
    # In place of PrioritySort.
    sorts = folder.name in (
        "cohorts",
        "coscheduling",
        "dominant-resource-fairness",
        "proportion",
        "qossort",
        "topological-sort",
    )
    config = readme_configuration(folder) if sorts else None
    plans, warnings = read(config, [str(folder / "policy.yaml")])
    assert len(plans) == 1
    assert not warnings


@pytest.mark.parametrize("folder", OPTIONAL, ids=name_of)
def test_readme_configuration_enables_the_policy(folder: Path) -> None:
    """The configuration that the README shows loads as it is and runs the policy."""
    (policy,), _ = load_policies([str(folder / "policy.yaml")])
    (compiled,), warnings = read(readme_configuration(folder), [str(folder / "policy.yaml")])
    assert not warnings
    assert any(policy.name in dict(names) for names in compiled.plan.points.values())


@pytest.mark.parametrize("folder", OPTIONAL, ids=name_of)
def test_readme_describes_every_parameter(folder: Path) -> None:
    """No parameter is left undocumented, and none is invented."""
    (document,) = yaml.load_all((folder / "policy.yaml").read_text(), yaml.CSafeLoader)
    described = re.findall(r"^\| `(\w+)` \|", (folder / "README.md").read_text(), re.MULTILINE)
    assert described == list(document["spec"].get("params", ()))


def test_readme_lists_every_policy() -> None:
    """The folder's README has a row for each policy."""
    text = (POLICIES / "README.md").read_text()
    assert all(f"| [{folder.name}]({folder.name}) |" in text for folder in FOLDERS)


def test_example_cluster_loads() -> None:
    """The example cluster's manifests are right: six nodes, five running, eight pending pods."""
    found = load([str(EXAMPLE / "manifests")], None)
    assert not found.diagnostics
    names = [type(one).__name__ for one in found.objects]
    assert (names.count("Node"), names.count("Pod")) == (6, 13)


def placements(config: str | None, policies: list[str]) -> dict[str, str | None]:
    """Return the nodes of the example cluster's pending pods."""
    scheduler = build(config, policies)
    pending = load_cluster(scheduler.cache, load([str(EXAMPLE / "manifests")], None).objects)
    run = run_queue(scheduler, [PodInfo.of(pod) for pod in pending], unshown)
    return {placement.pod: placement.node for placement in run.placements}


def test_example_cluster_shows_what_packing_is_for() -> None:
    """Spread, the small training job takes the large one's node; packed, both run."""
    spread = placements(None, [])
    packing = str(POLICIES / "gpu-bin-packing")
    packed = placements(str(EXAMPLE / "config.yaml"), [packing])
    small, large = "research/train-small", "research/train-large"
    assert (spread[small], spread[large]) == ("gpu-2", None)
    assert (packed[small], packed[large]) == ("gpu-1", "gpu-2")
    assert packed["shop/ingress-1"] == "general-2"
    assert [pod for pod, node in packed.items() if node is None] == ["shop/report"]
