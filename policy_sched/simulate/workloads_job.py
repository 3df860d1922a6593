"""Which pods a job still wants: how many at a time, and under which indexes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, repeat
from typing import Final

from policy_sched.manifests import JOB_INDEX
from policy_sched.model import Job, Pod, job_indexes
from policy_sched.simulate.workloads_owned import active

#: Conditions of a job that makes no more pods.
OVER: Final = frozenset({"Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"})


def missing_of_job(job: Job, pods: Sequence[Pod]) -> Iterator[int | None]:
    """Yield the completion index of each pod that is to be made, None where pods have none.

    ``pods``: the job's own, of any phase.
    """
    spec, status = job.spec, job.status
    if spec.suspend or any(c.type in OVER and c.status == "True" for c in status.conditions):
        return
    running = [pod for pod in pods if active(pod)]
    done = [pod for pod in pods if pod.status.phase == "Succeeded"]
    succeeded = max(status.succeeded, len(done))
    at_a_time = 1 if spec.parallelism is None else spec.parallelism
    if spec.completions is None and spec.parallelism is not None:
        # A work queue: once one pod has succeeded the others finish, and no more are made.
        wanted = at_a_time if not succeeded else 0
    else:
        completions = 1 if spec.completions is None else spec.completions
        wanted = min(at_a_time, completions - succeeded)
    missing = max(0, wanted - len(running))
    if spec.completion_mode != "Indexed" or spec.completions is None:
        yield from repeat(None, missing)
        return
    taken = {_index(pod) for pod in (*running, *done)}
    runs = job_indexes.runs_of(status.completed_indexes, spec.completions)
    yield from islice(job_indexes.open_indexes(runs, taken, spec.completions), missing)


def _index(pod: Pod) -> int:
    text = pod.metadata.labels.get(JOB_INDEX) or pod.metadata.annotations.get(JOB_INDEX, "")
    return int(text) if text.isdecimal() else -1
