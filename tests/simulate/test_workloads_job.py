"""Which pods a job still wants."""

from __future__ import annotations

import msgspec
import pytest

from policy_sched.manifests.workload_expansion import JOB_INDEX
from policy_sched.model.pod import Pod
from policy_sched.model.workloads import Job
from policy_sched.simulate.workloads_job import missing_of_job


def job(status: dict[str, object] | None = None, **spec: object) -> Job:
    """Return a job."""
    manifest = {"metadata": {"name": "j"}, "spec": spec, "status": status or {}}
    return msgspec.convert(manifest, Job)


def pod(phase: str, index: int | None = None) -> Pod:
    """Return a pod of the job, with its completion index."""
    labels = {} if index is None else {JOB_INDEX: str(index)}
    manifest = {"metadata": {"name": "p", "labels": labels}, "status": {"phase": phase}}
    return msgspec.convert(manifest, Pod)


@pytest.mark.parametrize(
    ("spec", "phases", "wanted"),
    [
        ({}, [], 1),
        ({"parallelism": 3}, [], 3),
        ({"completions": 5}, [], 1),
        ({"completions": 5, "parallelism": 3}, [], 3),
        ({"completions": 5, "parallelism": 3}, ["Running", "Succeeded"], 2),
        ({"completions": 5, "parallelism": 3}, ["Succeeded"] * 4, 1),
        ({"completions": 2, "parallelism": 3}, ["Failed"], 2),
        ({"parallelism": 3}, ["Succeeded", "Running"], 0),
        ({"parallelism": 3, "suspend": True}, [], 0),
        ({"parallelism": 0}, [], 0),
    ],
)
def test_so_many_pods_at_a_time(spec: dict[str, object], phases: list[str], wanted: int) -> None:
    """Not more than are missing to the completions; a work queue ends with the first success."""
    assert list(missing_of_job(job(**spec), [pod(phase) for phase in phases])) == [None] * wanted


def test_indexes_that_are_taken_or_done_are_left_out() -> None:
    """The lowest free ones come first; the status may name some as done."""
    indexed = job(
        {"completedIndexes": "0-1,4", "succeeded": 3},
        completions=8,
        parallelism=3,
        completionMode="Indexed",
    )
    assert list(missing_of_job(indexed, [pod("Running", 2)])) == [3, 5]


@pytest.mark.parametrize("condition", ["Complete", "Failed"])
def test_a_job_that_is_over_wants_nothing(condition: str) -> None:
    """Its conditions say so."""
    over = job({"conditions": [{"type": condition, "status": "True"}]}, parallelism=2)
    assert list(missing_of_job(over, [])) == []
