"""The verb ``simulate``: manifests, a configuration and policies in, placements out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Literal

from cyclopts import Parameter

from policy_sched.cli.render import (
    FAILED,
    OK,
    STDIN,
    exit_code,
    require_files,
    write_diagnostics,
)
from policy_sched.errors import PolicyError, PolicySchedError
from policy_sched.model.manifests import load
from policy_sched.scheduler.wiring import assemble, read
from policy_sched.simulate import report
from policy_sched.simulate.cluster_load import load_cluster
from policy_sched.simulate.cluster_run import run_cluster
from policy_sched.simulate.expansion import expand
from policy_sched.simulate.report import Run


def _no_option(_type: object, paths: Sequence[str]) -> None:
    """Let "-" through, for standard input, and no misspelt option."""
    for path in paths:
        if path.startswith("-") and path != STDIN:
            raise PolicySchedError(f'Unknown option: "{path}".')


Output = Literal["table", "wide", "json", "jsonl", "yaml"]


def simulate(
    paths: Annotated[
        tuple[str, ...],
        Parameter(name="PATH", negative="", allow_leading_hyphen=True, validator=_no_option),
    ],
    /,
    *,
    config: str | None = None,
    policies: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    seed: int = 0,
    output: Annotated[Output, Parameter(name=["--output", "-o"])] = "table",
    fail_on: Literal["unschedulable"] | None = None,
) -> int:
    """Decide every pending pod as kube-scheduler would, over all nodes, and print the placements.

    Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs and ReplicationControllers stand for
    the pods that their controllers would create; pods of theirs that are given are counted.

    Parameters
    ----------
    paths
        Manifests: files (.yaml, .json, .jsonl, or these with .gz), directories of them, or - for
        standard input.
    config
        A KubeSchedulerConfiguration; without it the default profile decides.
    policies
        Policy files, or directories of them. Without --config each is enabled with weight 1.
    seed
        Decides between nodes with equal scores.
    output
        table, wide (with feasible nodes, score and requests), json, yaml, or jsonl (one line per
        pending pod). The last three are the same bytes for the same input.
    fail_on
        Exit with 1 if a pod is unschedulable.
    """
    require_files([*paths, *([config] if config else []), *policies])
    manifests = load(paths, sys.stdin)
    if exit_code(manifests.diagnostics) != OK:
        raise PolicyError(manifests.diagnostics)
    plans, warnings = read(config, policies)
    write_diagnostics([*manifests.diagnostics, *warnings], sys.stderr)
    objects = expand(manifests.objects)
    scheduler = assemble(plans, seed=seed, objects=objects)
    pending = load_cluster(scheduler.cache, objects)
    with _progress(len(pending)) as advance:
        run = run_cluster(scheduler, pending, advance)
    _write(run, output)
    return FAILED if fail_on and run.placed < len(run.placements) else OK


def _write(run: Run, output: Output) -> None:
    if output == "jsonl":
        sys.stdout.write(report.as_jsonl(run))
    elif output == "json":
        sys.stdout.write(report.as_json(run))
    elif output == "yaml":
        sys.stdout.write(report.as_yaml(run))
    else:
        lines = [*report.table_lines(run, wide=output == "wide"), "", *report.summary_lines(run)]
        sys.stdout.writelines(f"{line}\n" for line in lines)
    print(report.speed_line(run), file=sys.stderr)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar on standard error while the block runs, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _more: None
        return
    # imported here: nothing needs it where there is no terminal
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import MofNCompleteColumn, Progress  # noqa: PLC0415

    columns = (*Progress.get_default_columns(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("deciding", total=total)
        yield lambda more: bar.advance(task, more)
