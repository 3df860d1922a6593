"""The verb ``simulate``: manifests, a configuration and policies in, placements out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

from cyclopts import Parameter
from msgspec.structs import replace

from policy_sched.cli.input.cluster_files import read_files, source_names
from policy_sched.cli.input.paths import PathsOrStdin
from policy_sched.cli.input.values import clock
from policy_sched.cli.options.policies import PolicyFlags
from policy_sched.cli.output import diagnostics
from policy_sched.cli.output.progress import progress
from policy_sched.cli.output.report import require_report, write_page, write_report
from policy_sched.errors import PolicySchedError
from policy_sched.manifests import set_creation_times
from policy_sched.model import ApiObject, PodInfo, nanoseconds_of
from policy_sched.profiles.build import CompiledPlan
from policy_sched.scheduler import setup
from policy_sched.simulate import (
    Application,
    cluster_facts,
    contents_of,
    never_placed,
    node_usages,
    origin,
    play,
    policy_facts,
    run_page,
    run_queue,
    time_text,
    timeline_page,
    waits,
)
from policy_sched.web import Fact, Section

Output = Literal["table", "wide", "json", "jsonl", "yaml"]


def simulate(  # noqa: PLR0913  # the options of the verb
    paths: PathsOrStdin = (),
    /,
    *,
    kubeconfig: str | None = None,
    policy: PolicyFlags | None = None,
    seed: int = 0,
    output: Annotated[Output, Parameter(name=["--output", "-o"])] = "table",
    fail_on: Literal["unschedulable"] | None = None,
    nodes: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    timeline: Annotated[bool, Parameter(negative="")] = False,
    bucket: str | None = None,
    until: str | None = None,
    retry: Literal["backoff", "at-once"] = "backoff",
    now: str | None = None,
    report: str | None = None,
) -> int:
    """Decide every pending pod as kube-scheduler would, over all nodes, and print the placements.

    Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs and ReplicationControllers stand for
    the pods that their controllers would create; pods of theirs that are given are counted.

    Parameters
    ----------
    paths
        Manifests: files (.yaml, .json, .jsonl, or these with .gz), directories of them, or - for
        standard input. Traces: .csv or .csv.gz with the columns of OpenB's node and pod lists, or
        of the Philly jobs (submit_s,duration_s,num_gpus,vc).
    kubeconfig
        Instead of files: the live cluster of this kubeconfig, or of the pod that the process
        runs in (in-cluster). It is listed once, as by snapshot; nothing is written.
    seed
        Decides between nodes with equal scores.
    output
        table, wide (with feasible nodes, score and requests), json, yaml, or jsonl (one line per
        pending pod). The last three are the same bytes for the same input.
    fail_on
        Exit with 1 if a pod is unschedulable.
    nodes
        More nodes, as in "160*cpu=96,memory=512Gi,nvidia.com/gpu=8".
    timeline
        Simulate virtual time: pods arrive at their creationTimestamp, run for the duration that the
        annotation policysched.dev/duration names ("90s", "1h30m") or their trace, and leave; pods
        that find no node are tried again. Prints waiting times, utilisation over time and
        preemptions (table, json), or what became of each pod (jsonl).
    bucket
        Length of the intervals that --timeline summarizes, as in "1h"; about two dozen intervals
        unless given.
    until
        Duration of the simulation with --timeline, as in "36h"; until nothing happens any more
        unless given.
    retry
        When --timeline tries pods again that fitted nowhere: after a backoff, as in a cluster; or
        at once, whenever something happens, all of them in the order of the queue.
    now
        The time that rules see, in RFC 3339: 2026-01-01T00:00:00Z unless given, or with
        --kubeconfig the clock's.
    report
        Write the result as one HTML file, too: what has no node and why, the nodes; with --timeline
        queue, utilisation and waiting times as curves (needs jinja2, the extra console).
    """
    if (kubeconfig is None) == (not paths):
        raise PolicySchedError("simulate needs either manifests or --kubeconfig")
    diagnostics.require_files(paths)
    require_report(report)
    files = (policy or PolicyFlags()).files()
    if retry != "backoff" and not timeline:
        raise PolicySchedError("--retry goes with --timeline")
    if now is not None and timeline:
        raise PolicySchedError("--now does not go with --timeline, whose time runs")
    times = _Times.of(bucket, until, clock(now, kubeconfig), timeline=timeline)
    cluster = read_files(paths, nodes, kubeconfig, files.input_kinds())
    objects = cluster.objects
    if not any(map(waits, objects)):
        diagnostics.write_hints(
            ["there are no pending pods: every pod has a node already, or there is none"]
        )
    plans, warnings = setup.read_policies(files)
    diagnostics.write_diagnostics([*cluster.problems, *warnings], sys.stderr)
    told: list[Fact] = []
    if report is not None:
        sources = source_names(paths, kubeconfig, nodes)
        told = [*cluster_facts(sources, contents_of(objects)), Fact("Seed", str(seed))]
        told += times.facts() if not timeline else [Fact("Tries again", retry)]
        told += policy_facts(files)
    act = partial(_played, times, retry) if timeline else partial(_decided, times.now)
    everywhere = act(objects, plans, seed, _Form(output, report, origin(told, {"": plans})))
    return diagnostics.FAILED if fail_on and not everywhere else diagnostics.OK


@dataclass(frozen=True, slots=True)
class _Form:
    """In which form the result is printed, the file of its report, and what that is made from."""

    output: Output
    report: str | None
    origin: Section


def _decided(
    now: Callable[[], int] | None,
    objects: Sequence[ApiObject],
    plans: Sequence[CompiledPlan],
    seed: int,
    form: _Form,
) -> bool:
    """Decide all pods once, print the placements, and return whether every pod has a node."""
    scheduler = setup.assemble(plans, seed=seed, objects=objects, now=now)
    set_creation_times(objects, scheduler.handle.now())
    infos = [PodInfo.of(pod) for pod in setup.load_cluster(scheduler.cache, objects)]
    application = Application(scheduler, plans)
    with progress("deciding", len(infos)) as advance:
        run = run_queue(scheduler, infos, advance)
    run = replace(run, policies=application.report(infos))
    if form.report is not None:
        page = run_page(run, node_usages(scheduler.cache.nodes))
        write_page(form.report, page, form.origin)
    if form.output == "wide":
        diagnostics.write_lines(run.text_lines(wide=True))
    else:
        write_report(run, form.output)
    print(run.speed_line(), file=sys.stderr)
    return run.placed == len(run.placements)


def _played(
    times: _Times,
    retry: str,
    objects: Sequence[ApiObject],
    plans: Sequence[CompiledPlan],
    seed: int,
    form: _Form,
) -> bool:
    """Simulate virtual time, print the result, and return whether every pod had a node."""
    if form.output not in ("table", "json", "jsonl"):
        raise PolicySchedError(f"--timeline prints table, json or jsonl, not {form.output}")
    with progress("deciding", sum(waits(obj) for obj in objects)) as advance:
        result = play(
            objects,
            plans,
            seed=seed,
            until=times.until,
            retry="AtOnce" if retry == "at-once" else "Backoff",
            advance=advance,
        )
    result = replace(result, bucket=times.bucket)
    if form.report is not None:
        write_page(form.report, timeline_page(result), form.origin)
    write_report(result, form.output)
    print(result.speed_line(), file=sys.stderr)
    return not never_placed(result)


@dataclass(frozen=True, slots=True)
class _Times:
    """How a timeline is cut and how long it is, in nanoseconds, or what time it is without one.

    None where that is not given.
    """

    bucket: int | None
    until: int | None
    now: Callable[[], int] | None

    def facts(self) -> list[Fact]:
        """Return the time that rules see."""
        now = setup.EPOCH if self.now is None else self.now()
        return [Fact("Time that rules see", time_text(now))]

    @classmethod
    def of(
        cls,
        bucket: str | None,
        until: str | None,
        now: Callable[[], int] | None,
        *,
        timeline: bool,
    ) -> _Times:
        """Read the options; raise PolicySchedError if they make no sense."""
        return cls(
            _interval("--bucket", bucket, timeline=timeline),
            _interval("--until", until, timeline=timeline),
            now,
        )


def _interval(name: str, text: str | None, *, timeline: bool) -> int | None:
    if text is None:
        return None
    if not timeline:
        raise PolicySchedError(f"{name} goes with --timeline")
    try:
        time = nanoseconds_of(text)
    except ValueError as error:
        raise PolicySchedError(f"{name}: {error}") from None
    if time == 0:
        raise PolicySchedError(f"{name}: a stretch of time cannot be empty")
    return time
