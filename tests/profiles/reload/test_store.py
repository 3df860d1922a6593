"""The set in force: all or nothing, and a status with which and since when."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_sched.errors import PluginError, PolicyError
from policy_sched.profiles.build.plan_diff import PlanDiff
from policy_sched.profiles.models import NOT_BUILT
from policy_sched.profiles.reload.inputs import PolicyFiles
from policy_sched.profiles.reload.store import ActivePolicies, PolicyStore, ReloadResult
from tests.profiles.policy_texts import config, keeping, write

FIRST = keeping("Mine", 'node.name == "a"')


class Clock:
    """Time goes on by one with every look."""

    def __init__(self) -> None:
        self.time = 0

    def __call__(self) -> int:
        """Return the next moment."""
        self.time += 1
        return self.time


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with one policy."""
    write(tmp_path / "policy.yaml", FIRST)
    return tmp_path


@pytest.fixture
def store(folder: Path) -> PolicyStore:
    """The policy is loaded."""
    return PolicyStore(PolicyFiles(None, (str(folder),)), Clock())


def test_a_broken_set_is_never_loaded_first(tmp_path: Path) -> None:
    """There is no store without a set in force: every problem is reported instead."""
    write(tmp_path / "policy.yaml", keeping("Mine", "node.nam == pod.nme"))
    with pytest.raises(PolicyError) as caught:
        PolicyStore(PolicyFiles(None, (str(tmp_path),)), Clock())
    assert len(caught.value.diagnostics) == 2


def test_other_files_make_the_next_generation(folder: Path, store: PolicyStore) -> None:
    """Files that say something else make the next generation, and the names of what changed."""
    before = store.current
    write(folder / "policy.yaml", keeping("Mine", 'node.name == "b"'))
    reload = store.reload()
    assert reload.result is ReloadResult.LOADED
    assert store.current is reload.policies is not before
    assert store.current.generation == store.status.generation == 2
    assert store.status.content_hash == store.current.content_hash != before.content_hash
    assert reload.changes.policies == ("Mine",)
    assert store.status.healthy


def test_the_same_in_other_words(folder: Path, store: PolicyStore) -> None:
    """Comments, places and names of files decide nothing: there is no new generation."""
    before = store.current
    (folder / "policy.yaml").unlink()
    write(folder / "renamed.yaml", "# the same\n\n" + FIRST)
    reload = store.reload()
    assert reload.result is ReloadResult.UNCHANGED
    assert store.current is before
    assert store.status.succeeded_at > store.status.loaded_at


def test_a_broken_set_keeps_the_old_one(folder: Path, store: PolicyStore) -> None:
    """All problems are reported with their places, and nothing else happens."""
    before, status = store.current, store.status
    write(folder / "policy.yaml", keeping("Mine", "node.nam == pod.nme"))
    write(folder / "other.yaml", "kind: Policy\nmetadata: [")
    asked: list[ActivePolicies] = []
    reload = store.commit(store.prepare(), lambda policies, _: asked.append(policies))
    assert reload.result is ReloadResult.REFUSED
    assert not asked, "what is broken is not enacted"
    assert store.current is before
    assert {Path(problem.file).name for problem in reload.problems} == {"policy.yaml", "other.yaml"}
    assert all(problem.line and problem.column for problem in reload.problems)
    assert store.status.problems == reload.problems
    assert not store.status.healthy
    assert store.status.generation == status.generation
    assert store.status.succeeded_at == status.succeeded_at
    assert store.status.refused_at > status.loaded_at


def test_a_good_set_after_a_broken_one(folder: Path, store: PolicyStore) -> None:
    """The status is healthy again, even where the files have their first content."""
    write(folder / "policy.yaml", "{")
    assert store.reload().result is ReloadResult.REFUSED
    write(folder / "policy.yaml", FIRST)
    assert store.reload().result is ReloadResult.UNCHANGED
    assert store.status.healthy
    assert not store.status.problems
    assert store.status.counts == {
        ReloadResult.LOADED: 0,
        ReloadResult.UNCHANGED: 1,
        ReloadResult.STAGED: 0,
        ReloadResult.REFUSED: 1,
    }


@pytest.mark.parametrize("error", [PluginError("no"), PolicyError([])])
def test_a_set_that_cannot_be_built(folder: Path, store: PolicyStore, error: Exception) -> None:
    """A set that its runner refuses is as good as broken."""
    before = store.current

    def refuse(_policies: ActivePolicies, _changes: PlanDiff) -> None:
        raise error

    write(folder / "policy.yaml", keeping("Mine", 'node.name == "b"'))
    reload = store.reload(refuse)
    assert reload.result is ReloadResult.REFUSED
    assert store.current is before
    assert [problem.code for problem in reload.problems] == [NOT_BUILT] * isinstance(
        error, PluginError
    )


def test_settings_that_wait_for_a_restart(tmp_path: Path) -> None:
    """They are named as long as they differ from those of the start, and do not take effect."""
    file = tmp_path / "config.yaml"
    text = config({"default-scheduler": []})
    write(file, text)
    store = PolicyStore(PolicyFiles(str(file)), Clock())
    write(file, text + "podMaxBackoffSeconds: 20\n")
    for _ in range(2):
        assert store.reload().restart == ("podMaxBackoffSeconds",)
        assert store.current.settings.pod_max_backoff_seconds == 10
    write(file, text)
    assert store.reload().restart == ()


def test_files_that_vanish(folder: Path, store: PolicyStore) -> None:
    """A directory that is gone is a problem, not a set without policies."""
    (folder / "policy.yaml").unlink()
    folder.rmdir()
    assert store.reload().result is ReloadResult.REFUSED
    assert store.current.generation == 1
