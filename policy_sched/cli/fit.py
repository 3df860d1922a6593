"""The verb ``fit``: how many replicas of a pod or a gang fit on a cluster."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt, PositiveInt

from policy_sched.cli.input.cluster_files import problems_of, read_files, require_cluster
from policy_sched.cli.input.paths import ClusterPaths
from policy_sched.cli.input.values import clock
from policy_sched.cli.options.policies import PolicyFlags
from policy_sched.cli.output.diagnostics import OK, STDIN, require_files, write_diagnostics
from policy_sched.cli.output.progress import progress
from policy_sched.cli.output.report import write_report
from policy_sched.errors import PolicySchedError
from policy_sched.fit import LIMIT, PREEMPTING, FitCluster, fit as count_fit, unit_of
from policy_sched.manifests import load
from policy_sched.profiles.build import raise_errors
from policy_sched.scheduler.setup import read_policies


def fit(  # noqa: PLR0913  # the options of the verb
    pod: Annotated[str, Parameter(name="POD", allow_leading_hyphen=True)],
    /,
    *,
    cluster: ClusterPaths = (),
    kubeconfig: str | None = None,
    policy: PolicyFlags | None = None,
    per: str = "",
    limit: PositiveInt = LIMIT,
    preempting: NonNegativeInt = PREEMPTING,
    nodes: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    seed: int = 0,
    now: str | None = None,
    output: Annotated[Literal["text", "json"], Parameter(name=["--output", "-o"])] = "text",
) -> int:
    """Count the replicas of a pod or a gang that fit on a cluster now.

    Each replica is decided as the scheduler decides it, one after the other, until one fits
    nowhere. Shows on which nodes they are, what runs out first, and which pods further replicas
    would evict. Pods that wait in the cluster take no room, unless they are nominated to a node.

    Parameters
    ----------
    pod
        Manifests of one replica, or - for standard input: a pod; several pods, which count when all
        of them fit; a pod and its PodGroup, of which one replica is the whole group. Claims that
        are written beside them are made for each replica. A workload stands for one of its pods.
    cluster
        Manifests of the cluster, or a snapshot: files, directories, or - for standard input.
    kubeconfig
        Instead of --cluster: the live cluster of this kubeconfig, or of the pod that the process
        runs in (in-cluster). It is listed once, as by snapshot; nothing is written.
    per
        A label of nodes, as in topology.kubernetes.io/zone: break the result down by its values.
    limit
        Stop after so many replicas.
    preempting
        After the free room is full, count up to so many further replicas that evict other pods.
    nodes
        More nodes, as in "160*cpu=96,memory=512Gi,nvidia.com/gpu=8".
    seed
        Decides between nodes with equal scores.
    now
        The time that rules see, in RFC 3339: 2026-01-01T00:00:00Z unless given, or with
        --kubeconfig the clock's.
    output
        text, or json for autoscalers and queue managers: with every node and every evicted pod.
    """
    require_cluster("fit", cluster, kubeconfig)
    require_files((pod,))
    if pod == STDIN and STDIN in cluster:
        raise PolicySchedError("standard input is either the pod or the cluster, not both")
    files = (policy or PolicyFlags()).files()
    clocked = clock(now, kubeconfig)
    cluster_files = read_files(cluster, nodes, kubeconfig, files.input_kinds())
    manifests = load([pod], sys.stdin, cluster=cluster_files.objects)
    problems = problems_of(manifests)
    raise_errors(problems)
    unit = unit_of(manifests, cluster_files.objects, pod)
    plans, warnings = read_policies(files)
    write_diagnostics([*cluster_files.problems, *problems, *warnings], sys.stderr)
    fit_cluster = FitCluster.of(plans, cluster_files.objects, seed=seed, now=clocked)
    try:
        with progress("counting replicas") as advance:
            counted_fit = count_fit(
                fit_cluster, unit, limit=limit, preempting=preempting, label=per, advance=advance
            )
    finally:
        fit_cluster.close()
    write_report(counted_fit, output)
    return OK
