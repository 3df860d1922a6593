"""The verb ``bench``: measures decisions per second on a generated cluster."""

from __future__ import annotations

import asyncio
from functools import partial
from types import ModuleType
from typing import Annotated, Final, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from policy_sched.bench import (
    api,
    check,
    event_loop_latency,
    hostile,
    in_process,
    inputs,
    ledger,
    preemption,
    recording,
    reload,
    replay,
    rule_cost,
    size,
    snapshot,
)
from policy_sched.bench.workloads import DRY_RUN, WORKLOADS, workload_from_test
from policy_sched.cli.input.values import policy_paths
from policy_sched.cli.output.diagnostics import OK, require_files
from policy_sched.cli.output.progress import progress
from policy_sched.cli.output.report import write_report
from policy_sched.errors import PolicySchedError
from policy_sched.report import Report

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
    "SchedulingWithResourceClaimTemplate",
    "SchedulingWithMatchAttribute",
    "ConsumableCapacity",
    "Partitionable",
    "CapacityScheduling",
    "NodeResourceTopologyMatch",
    "PreemptionDryRun",
    "Reload",
    "Check",
    "RuleCost",
    "Snapshot",
    "API",
    "Turns",
    "Hostile",
    "Size",
    "Inputs",
    "Recording",
    "Replay",
    "All",
]
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
    rate: Count = None,
    tls: Annotated[bool, Parameter(negative="")] = False,
    output: Annotated[Literal["text", "json"], Parameter(name=["--output", "-o"])] = "text",
) -> int:
    """Run one of kube-scheduler's benchmark workloads in process: first cold, then warm.

    Parameters
    ----------
    name
        A workload of scheduler_perf; NodeAffinity and MixedBase are short for
        SchedulingNodeAffinity and MixedSchedulingBasePod. SchedulingDistinct is SchedulingBasic
        with pods of which no two are alike. CapacityScheduling and NodeResourceTopologyMatch are
        SchedulingBasic with the shipped policy of that name, 1,000 quotas or 8 zones on each node;
        a line says their share of SchedulingBasic's rate. PreemptionDryRun measures the search for
        pods to evict, in milliseconds. Reload runs SchedulingDistinct while policies change and
        break, a reload for every 20 pods: with 500 pods coming each second, and with all there at
        once. Check measures `policy-sched check` on 200 policies, from the start of its process.
        RuleCost holds what rules are estimated to cost against the time that they take. Snapshot
        reads nodes and pods from files, as JSON, as YAML, and as YAML with aliases. API creates
        nodes and pods through an API server, which is one process, and has `policy-sched run
        --kubeconfig`, another one, bind them; the second time while all is read again and the
        policies change, the third time as they come at a rate. Turns makes changes to such a
        cluster that concern 10,000 waiting pods at once, and measures the turns of the scheduler's
        event loop. Hostile has 500 ordinary pods come in a second, beside the worst claims,
        selectors, rules and groups that we know, and measures what these leave: renewals of the
        lease, and bindings. Size loads 100,000 nodes and 1,000,000 pods and measures their memory.
        Inputs loads 100,000 objects that a rule reads by the name of the node, and decides pods
        while nothing changes, and while one object changes before each. Recording writes an hour of
        a cluster in virtual time, 10 pods a second, and reads it back; Replay makes the decisions
        of such an hour again, and decides it anew. All runs every workload of decisions, each in a
        process of its own, and prints a table in Markdown: beside the rates, scheduler_perf's
        threshold, what bare arrays take, and calls per pod.
    nodes
        Number of nodes; scheduler_perf's own number unless given.
    pods
        Number of measured pods, of policies for Check, and of ordinary pods beside each case of
        Hostile; the workload's own unless given.
    policies
        Policies that take part beside the default profile, as in simulate; of API, they may be
        audited ones.
    like
        A file of scenarios: nodes get labels, annotations and devices of the nodes of its first
        scenario in turn, pods those of its first pending pod, so that a policy has work to do.
    existing
        Pods that are bound before API, Turns or Size measures anything: 30,000 unless given, and
        1,000,000 for Size; objects for Inputs: 100,000.
    rate
        Pods a second in the last phase of API: 50 unless given.
    tls
        Whether the API server of API speaks TLS.
    output
        text, or json: the numbers at its top are those of the warm phase.
    """
    policies = policy_paths(policies)
    _check_read(name, nodes, policies or None, like, existing, rate, tls or None)
    require_files([like] if like else [])
    with progress(f"measuring {name}") as advance:
        if name == ledger.NAME:
            report: Report = ledger.run_all(nodes, pods)
        elif name in WORKLOADS:
            report = _workload(name, nodes, pods, policies, like)
        elif name == api.NAME:
            load = _load(api, nodes, pods, existing)
            run = partial(api.run_api, rate=rate or api.RATE, tls=tls, policies=policies)
            report = asyncio.run(run(*load))
        elif name == size.NAME:
            report = size.run_size(*_load(size, nodes, pods, existing), advance)
        elif name == inputs.NAME:
            report = inputs.run_inputs(*_load(inputs, nodes, pods, existing))
        elif name == event_loop_latency.NAME:
            load = _load(event_loop_latency, nodes, pods, existing)
            report = asyncio.run(event_loop_latency.run_turns(*load))
        elif name == hostile.NAME:
            size_of = nodes or hostile.NODES, pods or hostile.PODS
            report = asyncio.run(hostile.run_hostile(*size_of))
        else:
            report = _other(name, nodes, pods, policies)
    write_report(report, output)
    return OK


_READ: Final = {
    DRY_RUN.name: ("--nodes", "--policies"),
    reload.NAME: ("--nodes",),
    check.NAME: (),
    rule_cost.NAME: ("--nodes",),
    snapshot.NAME: ("--nodes",),
    recording.NAME: ("--nodes",),
    replay.NAME: ("--nodes",),
    ledger.NAME: ("--nodes",),
    api.NAME: ("--nodes", "--policies", "--existing", "--rate", "--tls"),
    event_loop_latency.NAME: ("--nodes", "--existing"),
    hostile.NAME: ("--nodes",),
    size.NAME: ("--nodes", "--existing"),
    inputs.NAME: ("--nodes", "--existing"),
}
"""Options that count for what is no workload of scheduler_perf."""
_OF_WORKLOADS: Final = ("--nodes", "--policies", "--like")


def _check_read(name: str, *given: object) -> None:
    """Raise PolicySchedError for options without effect; None was not given."""
    options = ("--nodes", "--policies", "--like", "--existing", "--rate", "--tls")
    named = [flag for flag, value in zip(options, given, strict=True) if value is not None]
    unread = [option for option in named if option not in _READ.get(name, _OF_WORKLOADS)]
    if unread:
        raise PolicySchedError(f"bench {name} has no use for {', '.join(unread)}")


def _workload(
    name: str, nodes: int | None, pods: int | None, policies: tuple[str, ...], like: str | None
) -> Report:
    """Run a workload of scheduler_perf, or one like a test."""
    workload = WORKLOADS[name] if like is None else workload_from_test(WORKLOADS[name], like)
    size = nodes or workload.nodes, pods or workload.pods
    return in_process.run_benchmark(workload, *size, policies)


def _load(
    module: ModuleType, nodes: int | None, pods: int | None, existing: int | None
) -> tuple[int, int, int]:
    """Return nodes, pods and pods that are bound before, the module's own unless given."""
    bound = module.EXISTING if existing is None else existing
    return nodes or module.NODES, pods or module.PODS, bound


def _other(name: str, nodes: int | None, pods: int | None, policies: tuple[str, ...]) -> Report:
    """Run what is no workload of scheduler_perf and needs no event loop."""
    if name == DRY_RUN.name:
        size = nodes or DRY_RUN.nodes, pods or DRY_RUN.pods
        return preemption.run_dry_runs(*size, policies)
    if name == reload.NAME:
        return reload.run_reloads(nodes or reload.NODES, pods or reload.PODS)
    if name == check.NAME:
        return check.run_checks(pods or check.POLICIES)
    if name == recording.NAME:
        return recording.run_recording(nodes or recording.NODES, pods or recording.PODS)
    if name == replay.NAME:
        return replay.run_replay(nodes or replay.NODES, pods or replay.PODS)
    if name == snapshot.NAME:
        return snapshot.run_snapshot(nodes or snapshot.NODES, pods or snapshot.PODS)
    return rule_cost.run_rule_costs(nodes or rule_cost.NODES)
