"""The verb ``explain``: why a pod is placed on its node, or on none."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.types import PositiveInt

from policy_sched import simulate
from policy_sched.cli.input.cluster_files import read_files, require_cluster, source_names
from policy_sched.cli.input.paths import ClusterPaths
from policy_sched.cli.input.values import clock
from policy_sched.cli.options.policies import PolicyFlags
from policy_sched.cli.output.diagnostics import OK, write_diagnostics
from policy_sched.cli.output.progress import progress
from policy_sched.cli.output.report import require_report, write_page, write_report
from policy_sched.errors import PolicySchedError, nearest
from policy_sched.explain import Explanation, explanation_page, locate_selectors
from policy_sched.manifests import set_creation_times
from policy_sched.model import ApiObject, Pod, PodInfo
from policy_sched.report import json_text
from policy_sched.scheduler import Scheduler
from policy_sched.scheduler.setup import assemble, load_cluster, read_policies
from policy_sched.web import Fact


def explain(  # noqa: PLR0913  # the options of the verb
    pod: Annotated[str, Parameter(name="POD")],
    /,
    *,
    cluster: ClusterPaths = (),
    kubeconfig: str | None = None,
    policy: PolicyFlags | None = None,
    top: PositiveInt = 5,
    after_queue: Annotated[bool, Parameter(negative="")] = False,
    seed: int = 0,
    now: str | None = None,
    report: str | None = None,
    output: Annotated[
        Literal["text", "json", "annotations"], Parameter(name=["--output", "-o"])
    ] = "text",
) -> int:
    """Explain why a pod goes to its node, or to none, and what would change that.

    Shows how many nodes each filter removes, what each score plugin adds to the best nodes, what
    made the difference, and without which rule or score the pod would go elsewhere. Of a pod with
    claims that find no devices it shows what keeps each device from each request. A pod that runs
    already is explained as if it had no node yet.

    Parameters
    ----------
    pod
        The pod, as NAMESPACE/NAME, or NAME in the namespace default.
    cluster
        Manifests of the cluster, and of the pod: files, directories, or - for standard input.
    kubeconfig
        Instead of --cluster: the live cluster of this kubeconfig, or of the pod that the process
        runs in (in-cluster). It is listed once, as by snapshot; nothing is written.
    top
        Number of nodes whose scores are shown; annotations have those of all.
    after_queue
        Decide the pods that are ahead of it in the queue first, as simulate does; without it the
        pod is explained on the cluster as it is.
    seed
        With --after-queue: decides between nodes with equal scores.
    now
        The time that rules see, in RFC 3339: 2026-01-01T00:00:00Z unless given, or with
        --kubeconfig the clock's.
    report
        Write the explanation as one HTML file, too (needs jinja2, the extra console).
    output
        text, json, or annotations: those that kube-scheduler-simulator's web interface reads.
    """
    require_cluster("explain", cluster, kubeconfig)
    require_report(report)
    files, clocked = (policy or PolicyFlags()).files(), clock(now, kubeconfig)
    cluster_files = read_files(cluster, kubeconfig=kubeconfig, custom=files.input_kinds())
    plans, warnings = read_policies(files)
    write_diagnostics([*cluster_files.problems, *warnings], sys.stderr)
    contents = simulate.contents_of(cluster_files.objects) if report is not None else None
    scheduler = assemble(plans, seed=seed, objects=cluster_files.objects, now=clocked)
    infos, info = _waiting(scheduler, cluster_files.objects, pod)
    act = simulate.explain_after_queue if after_queue else simulate.explain_now
    with progress("deciding"):
        shown = scheduler.cache.nodes.n if output == "annotations" else top
        explanation = act(scheduler, infos, info.uid, shown)
    simulate.add_policies(
        explanation, simulate.Application(scheduler, plans).report([info]), info.scheduler_name
    )
    if explanation.claims is not None:
        locate_selectors(explanation.claims, cluster_files.positions, cluster_files.objects)
    if report is not None and contents is not None:
        seen = Fact("Time that rules see", simulate.time_text(scheduler.handle.now()))
        facts = [
            *simulate.cluster_facts(source_names(cluster, kubeconfig), contents),
            Fact("Seed", str(seed)),
            seen,
        ]
        made = simulate.origin([*facts, *simulate.policy_facts(files)], {"": plans})
        write_page(report, explanation_page(explanation), made)
    _write(explanation, output)
    return OK


def _waiting(
    scheduler: Scheduler, objects: Sequence[ApiObject], name: str
) -> tuple[list[PodInfo], PodInfo]:
    """Load the cluster; return the waiting pods, and among them the one that is explained."""
    set_creation_times(objects, scheduler.handle.now())
    pods = [candidate for candidate in objects if isinstance(candidate, Pod)]
    wanted = _find(name, pods)
    pending = load_cluster(scheduler.cache, [obj for obj in objects if obj is not wanted])
    infos = simulate.waiting_with(wanted, pods, pending)
    uid = PodInfo.of(wanted).uid
    return infos, next(pod for pod in infos if pod.uid == uid)


def _write(explanation: Explanation, output: str) -> None:
    if output == "annotations":
        sys.stdout.write(json_text(explanation.annotations()))
    else:
        write_report(explanation, output)


def _find(name: str, pods: Sequence[Pod]) -> Pod:
    """Return the pod that is meant; raise PolicySchedError if there is none."""
    key = name if "/" in name else f"default/{name}"
    keys = {f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}": pod for pod in pods}
    if key in keys:
        return keys[key]
    if not keys:
        raise PolicySchedError(f'there is no pod "{key}": the cluster has no pods')
    elsewhere = [k for k in keys if k.partition("/")[2] == name.rpartition("/")[2]]
    close = elsewhere[0] if elsewhere else nearest(key, keys)
    raise PolicySchedError(
        f'there is no pod "{key}"' + (f"; did you mean {close}?" if close else "")
    )
