"""The verb ``bench``: measures decisions per second on a generated cluster."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from typing import Annotated, Final, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from policy_sched.bench import api as api_benchmark
from policy_sched.bench import check as check_benchmark
from policy_sched.bench import event_loop_latency as turns_benchmark
from policy_sched.bench import in_process as benchmark
from policy_sched.bench import preemption as dry_run_benchmark
from policy_sched.bench import reload as reload_benchmark
from policy_sched.bench import rule_cost as rule_cost_benchmark
from policy_sched.bench import snapshot as snapshot_benchmark
from policy_sched.bench.workloads import DRY_RUN, WORKLOADS, workload_from_test
from policy_sched.cli.input.policies import policy_paths
from policy_sched.cli.output.diagnostics import OK, require_files
from policy_sched.cli.output.progress import progress
from policy_sched.errors import PolicySchedError

Name = Literal[
    "SchedulingBasic",
    "SchedulingNodeAffinity",
    "NodeAffinity",
    "MixedSchedulingBasePod",
    "MixedBase",
    "SchedulingDistinct",
    "SchedulingDaemonset",
    "TopologySpreading",
    "PreferredTopologySpreading",
    "DefaultTopologySpreading",
    "SchedulingPodAffinity",
    "SchedulingPodAntiAffinity",
    "SchedulingPreferredPodAffinity",
    "SchedulingPreferredPodAntiAffinity",
    "PreemptionBasic",
    "PreemptionAsync",
    "Unschedulable",
    "UnschedulableDistinct",
    "PreemptionDryRun",
    "Reload",
    "Check",
    "RuleCost",
    "Snapshot",
    "API",
    "Turns",
]
Told = tuple[benchmark.Document, Iterator[str]]
"""What was measured: as plain data, and in lines for people."""
Count = Annotated[int | None, Parameter(validator=Number(gte=1))]


def bench(  # noqa: PLR0913  # the options of the verb
    name: Annotated[Name, Parameter(name="NAME")],
    /,
    *,
    nodes: Count = None,
    pods: Count = None,
    policies: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    like: str | None = None,
    existing: Annotated[int | None, Parameter(validator=Number(gte=0))] = None,
    tls: Annotated[bool, Parameter(negative="")] = False,
    output: Annotated[Literal["text", "json"], Parameter(name=["--output", "-o"])] = "text",
) -> int:
    """Run one of kube-scheduler's benchmark workloads in process: first cold, then warm.

    Parameters
    ----------
    name
        A workload of scheduler_perf; NodeAffinity and MixedBase are short for
        SchedulingNodeAffinity and MixedSchedulingBasePod. SchedulingDistinct is SchedulingBasic
        with pods of which no two are alike. PreemptionDryRun measures the search for pods to
        evict, in milliseconds. Reload runs SchedulingDistinct while policies change and break, a
        reload for every 20 pods: with 500 pods coming each second, and with all there at once.
        Check measures `policy-sched check` on 200 policies, from the start of its process.
        RuleCost holds what rules are estimated to cost against the time that they take.
        Snapshot reads nodes and pods from files, as JSON, as YAML, and as YAML with aliases.
        API creates nodes and pods through an API server, which is one process, and has
        `policy-sched run --kubeconfig`, another one, bind them; the second time while all is read
        again and the policies change. Turns lets things happen to such a cluster that concern
        10,000 waiting pods at once, and tells how long turns of the scheduler's event loop take.
    nodes
        Number of nodes; scheduler_perf's own number unless given.
    pods
        Number of measured pods, or of policies for Check; the workload's own unless given.
    policies
        Policies that take part beside the default profile, as in simulate.
    like
        A file of scenarios: nodes get labels, annotations and devices of the nodes of its first
        scenario in turn, pods those of its first pending pod, so that a policy has work to do.
    existing
        Pods that are bound before API or Turns measures anything: 30,000 unless given.
    tls
        Whether the API server of API speaks TLS.
    output
        text, or json: the numbers at its top are those of the warm phase.
    """
    policies = policy_paths(policies)
    _check_read(name, nodes, policies or None, like, existing, tls or None)
    with progress(f"measuring {name}"):
        if name in WORKLOADS:
            found, lines = _workload(name, nodes, pods, policies, like)
        elif name == api_benchmark.NAME:
            found, lines = _api(nodes, pods, existing, tls=tls)
        elif name == turns_benchmark.NAME:
            found, lines = _turns(nodes, pods, existing)
        else:
            found, lines = _other(name, nodes, pods, policies)
    if output == "json":
        print(json.dumps(found, indent=2))
    else:
        sys.stdout.writelines(f"{line}\n" for line in lines)
    return OK


_READ: Final = {
    DRY_RUN.name: ("--nodes", "--policies"),
    reload_benchmark.NAME: ("--nodes",),
    check_benchmark.NAME: (),
    rule_cost_benchmark.NAME: ("--nodes",),
    snapshot_benchmark.NAME: ("--nodes",),
    api_benchmark.NAME: ("--nodes", "--existing", "--tls"),
    turns_benchmark.NAME: ("--nodes", "--existing"),
}
"""Options that count for what is no workload of scheduler_perf."""
_OF_WORKLOADS: Final = ("--nodes", "--policies", "--like")


def _check_read(name: str, *given: object) -> None:
    """Raise PolicySchedError for options that would change nothing; None was not given."""
    options = ("--nodes", "--policies", "--like", "--existing", "--tls")
    named = [one for one, value in zip(options, given, strict=True) if value is not None]
    unread = [option for option in named if option not in _READ.get(name, _OF_WORKLOADS)]
    if unread:
        raise PolicySchedError(f"bench {name} has no use for {', '.join(unread)}")


def _workload(
    name: str, nodes: int | None, pods: int | None, policies: tuple[str, ...], like: str | None
) -> Told:
    require_files([like] if like else [])
    workload = workload_from_test(WORKLOADS[name], like) if like else WORKLOADS[name]
    result = benchmark.run_benchmark(
        workload, nodes or workload.nodes, pods or workload.pods, policies
    )
    return benchmark.document(result), benchmark.text_lines(result)


def _api(nodes: int | None, pods: int | None, existing: int | None, *, tls: bool) -> Told:
    here = api_benchmark.EXISTING if existing is None else existing
    load = nodes or api_benchmark.NODES, pods or api_benchmark.PODS, here
    result = asyncio.run(api_benchmark.run_api(*load, tls=tls))
    return api_benchmark.document(result), api_benchmark.text_lines(result)


def _turns(nodes: int | None, pods: int | None, existing: int | None) -> Told:
    here = turns_benchmark.EXISTING if existing is None else existing
    load = nodes or turns_benchmark.NODES, pods or turns_benchmark.PODS, here
    result = asyncio.run(turns_benchmark.run_turns(*load))
    return turns_benchmark.document(result), turns_benchmark.text_lines(result)


def _other(name: str, nodes: int | None, pods: int | None, policies: tuple[str, ...]) -> Told:
    """Run what is no workload of scheduler_perf."""
    if name == DRY_RUN.name:
        size = nodes or DRY_RUN.nodes, pods or DRY_RUN.pods
        dry_runs = dry_run_benchmark.run_dry_runs(*size, policies)
        return dry_run_benchmark.document(dry_runs), dry_run_benchmark.text_lines(dry_runs)
    if name == reload_benchmark.NAME:
        reloads = reload_benchmark.run_reloads(
            nodes or reload_benchmark.NODES, pods or reload_benchmark.PODS
        )
        return reload_benchmark.document(reloads), reload_benchmark.text_lines(reloads)
    if name == check_benchmark.NAME:
        checks = check_benchmark.run_checks(pods or check_benchmark.POLICIES)
        return check_benchmark.document(checks), check_benchmark.text_lines(checks)
    if name == snapshot_benchmark.NAME:
        size = nodes or snapshot_benchmark.NODES, pods or snapshot_benchmark.PODS
        readings = snapshot_benchmark.run_snapshot(*size)
        return snapshot_benchmark.document(readings), snapshot_benchmark.text_lines(readings)
    number = nodes or rule_cost_benchmark.NODES
    costs = rule_cost_benchmark.run_rule_costs(number)
    return (
        rule_cost_benchmark.document(costs, number),
        rule_cost_benchmark.text_lines(costs, number),
    )
