"""Problems that no file has by itself: each with its cause, a valid neighbour, and its message."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from policy_sched.embedded.cluster import EmbeddedCluster
from policy_sched.errors import Diagnostic, PluginError
from policy_sched.instance.app.manifest_sync import ManifestFiles
from policy_sched.profiles.build.plan_diff import PlanDiff
from policy_sched.profiles.reload.inputs import PolicyFiles
from policy_sched.profiles.reload.store import ActivePolicies, PolicyStore, ReloadResult
from policy_sched.profiles.reload.watch import frozen_mounts
from policy_sched.testing import FakeClock

POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Kept}
spec: {filter: [{expression: node.name != "RULE", message: out}]}
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: IMAGE}]}
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are named from where they are."""
    monkeypatch.chdir(tmp_path)


def messages(found: Sequence[Diagnostic]) -> str:
    """Return diagnostics as they are shown."""
    return "".join(f"{one.render()}\n" for one in found)


def test_ps711_plugins_that_cannot_be_made() -> None:
    """The policies compile, and a plugin rejects them: the current ones stay."""
    file = Path("policy.yaml")
    file.write_text(POLICY, encoding="utf-8")
    store = PolicyStore(PolicyFiles(None, ("policy.yaml",)), lambda: 0)

    def refuse(_policies: ActivePolicies, _changes: PlanDiff) -> None:
        raise PluginError("plugin Gpus: score: no weight was given")

    file.write_text(POLICY.replace("RULE", "other"), encoding="utf-8")
    refused = store.reload(refuse)
    assert messages(refused.problems) == (
        "policy.yaml:1:1: error PS711: plugin Gpus: score: no weight was given\n"
    )
    loaded = store.reload()
    assert (loaded.result, messages(loaded.problems)) == (ReloadResult.LOADED, "")


def test_ps712_files_that_never_change() -> None:
    """A file that is mounted by itself gives a warning, its directory does not."""
    Path("folder").mkdir()
    file = Path("folder/policy.yaml")
    file.touch()
    mounts = "36 35 98:0 /pods/x {} rw,noatime - ext4 /dev/sda1 rw\n"
    alone = frozen_mounts(["folder/policy.yaml", "folder"], mounts.format(file.absolute()))
    assert messages(alone) == (
        "folder/policy.yaml:1:1: warning PS712: the file is mounted by itself (subPath): changes "
        "of its ConfigMap do not arrive here\n"
        "   = mount the directory\n"
    )
    folder = mounts.format(file.parent.absolute())
    assert messages(frozen_mounts(["folder/policy.yaml", "folder"], folder)) == ""


def test_ps713_objects_that_the_cluster_refuses() -> None:
    """A pod's containers cannot change; its labels can."""
    file = Path("pods.yaml")
    cluster = EmbeddedCluster.open(None, FakeClock())
    files = ManifestFiles(["pods.yaml"])
    file.write_text(POD, encoding="utf-8")
    assert messages(files.apply(files.read(), cluster).problems) == ""
    file.write_text(POD.replace("IMAGE", "other"), encoding="utf-8")
    assert messages(files.apply(files.read(), cluster).problems) == REFUSED
    file.write_text(POD.replace("{name: p}", "{name: p, labels: {a: b}}"), encoding="utf-8")
    assert messages(files.apply(files.read(), cluster).problems) == ""
    cluster.close()


REFUSED = """\
pods.yaml:1:1: error PS713: Pod "p" is invalid: spec: Forbidden: pod updates may not change fields \
other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` \
(allow it to be set to 1 if it was previously negative)
"""
