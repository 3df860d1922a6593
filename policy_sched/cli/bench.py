"""The verb ``bench``: measures decisions per second on a generated cluster."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from policy_sched.cli.render import OK
from policy_sched.simulate.benchmark import document, run_benchmark, text_lines
from policy_sched.simulate.workloads import WORKLOADS

Name = Literal[
    "SchedulingBasic",
    "SchedulingNodeAffinity",
    "NodeAffinity",
    "MixedSchedulingBasePod",
    "MixedBase",
    "SchedulingDistinct",
    "TopologySpreading",
    "PreferredTopologySpreading",
    "SchedulingPodAntiAffinity",
    "SchedulingPodAffinity",
    "SchedulingPreferredPodAffinity",
    "SchedulingPreferredPodAntiAffinity",
]
Count = Annotated[int | None, Parameter(validator=Number(gte=1))]


def bench(
    name: Annotated[Name, Parameter(name="NAME")],
    /,
    *,
    nodes: Count = None,
    pods: Count = None,
    output: Annotated[Literal["text", "json"], Parameter(name=["--output", "-o"])] = "text",
) -> int:
    """Run one of kube-scheduler's benchmark workloads in process: first cold, then warm.

    Parameters
    ----------
    name
        A workload of scheduler_perf; NodeAffinity and MixedBase are short for
        SchedulingNodeAffinity and MixedSchedulingBasePod. SchedulingDistinct is SchedulingBasic
        with pods of which no two are alike.
    nodes
        Number of nodes; scheduler_perf's own number unless given.
    pods
        Number of measured pods; scheduler_perf's own number unless given.
    output
        text, or json: the numbers at its top are those of the warm phase.
    """
    workload = WORKLOADS[name]
    result = run_benchmark(workload, nodes or workload.nodes, pods or workload.pods)
    if output == "json":
        print(json.dumps(document(result), indent=2))
    else:
        sys.stdout.writelines(f"{line}\n" for line in text_lines(result))
    return OK
