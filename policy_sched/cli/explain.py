"""The verb ``explain``: why a pod goes where it goes, or nowhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.types import PositiveInt

from policy_sched.cli.cluster_files import read_cluster
from policy_sched.cli.render import OK, require_files, write_diagnostics
from policy_sched.errors import PolicySchedError
from policy_sched.model.pod import Pod
from policy_sched.model.pod_info import PodInfo
from policy_sched.scheduler.explaining import explain as explained
from policy_sched.scheduler.wiring import assemble, read
from policy_sched.simulate.cluster_load import load_cluster
from policy_sched.simulate.explanation_report import as_annotations, as_json, text_lines


def explain(
    pod: Annotated[str, Parameter(name="POD")],
    /,
    *,
    cluster: Annotated[tuple[str, ...], Parameter(negative="")],
    config: str | None = None,
    policies: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    top: PositiveInt = 5,
    output: Annotated[
        Literal["text", "json", "annotations"], Parameter(name=["--output", "-o"])
    ] = "text",
) -> int:
    """Explain why a pod goes where it goes on a cluster, or nowhere, and what would change that.

    Tells how many nodes each filter removes, what each score plugin adds to the best nodes, what
    made the difference, and without which rule or score the pod would go elsewhere. A pod that
    runs already is explained as if it had still to be scheduled.

    Parameters
    ----------
    pod
        The pod, as NAMESPACE/NAME, or NAME in the namespace default.
    cluster
        Manifests of the cluster, and of the pod: files, directories, or - for standard input.
    config
        A KubeSchedulerConfiguration; without it the default profile decides.
    policies
        Policy files, or directories of them. Without --config each is enabled with weight 1.
    top
        Number of nodes whose scores are shown; annotations have those of all.
    output
        text, json, or annotations: those that kube-scheduler-simulator's web interface reads.
    """
    require_files([*cluster, *([config] if config else []), *policies])
    objects, problems = read_cluster(cluster)
    plans, warnings = read(config, policies)
    write_diagnostics([*problems, *warnings], sys.stderr)
    scheduler = assemble(plans, objects=objects)
    pods = [one for one in objects if isinstance(one, Pod)]
    wanted = _find(pod, pods)
    rest = [one for one in objects if one is not wanted]
    pending = {id(one) for one in load_cluster(scheduler.cache, rest)}
    info = _pending(wanted)
    for one in pods:
        if one is wanted or id(one) in pending:
            scheduler.handle.groups.seen(info if one is wanted else PodInfo.of(one))
    every = scheduler.cache.nodes.n
    found = explained(scheduler, info, top=every if output == "annotations" else top)
    if output == "text":
        sys.stdout.writelines(f"{line}\n" for line in text_lines(found))
    else:
        sys.stdout.write(as_json(found) if output == "json" else as_annotations(found))
    return OK


def _find(name: str, pods: Sequence[Pod]) -> Pod:
    """Return the pod that is meant; raise PolicySchedError if there is none."""
    key = name if "/" in name else f"default/{name}"
    keys = {f"{one.metadata.namespace or 'default'}/{one.metadata.name}": one for one in pods}
    if key in keys:
        return keys[key]
    elsewhere = [k for k in keys if k.partition("/")[2] == name.rpartition("/")[2]]
    hint = f"; did you mean {elsewhere[0]}?" if elsewhere else ""
    raise PolicySchedError(f'there is no pod "{key}"{hint}')


def _pending(pod: Pod) -> PodInfo:
    """Return the pod as it was before it had a node."""
    info = PodInfo.of(pod)
    info.node_name = ""
    return info
