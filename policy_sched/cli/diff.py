"""The verb ``diff``: what differs between two policy sets, and what it does to placements."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from importlib import import_module
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from policy_sched.cli.input.cluster_files import read_files, require_cluster, source_names
from policy_sched.cli.input.parallel_map import parallel_map
from policy_sched.cli.input.paths import ClusterPaths
from policy_sched.cli.input.values import MaxCostLimit, clock, policy_set_path
from policy_sched.cli.output import diagnostics
from policy_sched.cli.output.progress import progress
from policy_sched.cli.output.report import require_report, write_page, write_report
from policy_sched.diff import (
    PLACED,
    PlacementDiff,
    PolicyDiff,
    Rewrite,
    SeedsDiff,
    compare_placements,
    compare_seeds,
    diff_page,
    proven_alike,
    shadow_page,
    summarize,
)
from policy_sched.errors import Diagnostic, PolicySchedError
from policy_sched.instance.shadow import Agreement
from policy_sched.language.diagnostics import MAX_ANNOTATED_COST
from policy_sched.manifests import Structs
from policy_sched.model import ApiObject
from policy_sched.profiles.build import decoded_kinds
from policy_sched.profiles.format import differences
from policy_sched.profiles.load import content_hash, fingerprint
from policy_sched.profiles.reload import CompiledFiles, read_policy_set
from policy_sched.scheduler.setup import EPOCH
from policy_sched.simulate import DIGITS, cluster_facts, contents_of, origin, time_text, waits
from policy_sched.web import Column, Fact, Table, Text, Value

Output = Literal["text", "json", "markdown"]
SKIPPED = "no decision can change, so nothing is simulated; --always-simulate does it anyway"


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class ClusterFlags:
    """The cluster on which both sets decide.

    Parameters
    ----------
    cluster
        Manifests or traces of a cluster with pending pods, which are decided with both: files,
        directories, or - for standard input.
    kubeconfig
        Instead of --cluster: the live cluster of this kubeconfig, or of the pod that the process
        runs in (in-cluster). It is listed once, as by snapshot; nothing is written.
    nodes
        More nodes, as in "160*cpu=96,memory=512Gi,nvidia.com/gpu=8".
    seed
        Decides between nodes with equal scores; the first one with --seeds.
    seeds
        Number of seeds with which both sets decide; more than one gives means, intervals for the
        differences, and what is noise.
    workers
        Processes for --seeds, one for each core unless given; the output is the same.
    now
        The time that rules see, in RFC 3339: 2026-01-01T00:00:00Z unless given, or with
        --kubeconfig the clock's.
    always_simulate
        Decide with both although it is proven that no decision can change.
    """

    cluster: ClusterPaths = ()
    kubeconfig: str | None = None
    nodes: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = ()
    seed: int = 0
    seeds: Annotated[int, Parameter(validator=Number(gte=1, lte=1000))] = 1
    workers: Annotated[int | None, Parameter(validator=Number(gte=1))] = None
    now: str | None = None
    always_simulate: Annotated[bool, Parameter(negative="")] = False

    def given(self) -> list[str]:
        """Return the options that were given, in their order."""
        return [
            f"--{field.name.replace('_', '-')}"
            for field in fields(self)
            if getattr(self, field.name) != field.default
        ]

    def objects(self, inputs: Structs) -> list[ApiObject] | None:
        """Return the objects of the cluster, None without one; ``inputs``: as policies read them.

        Raises PolicySchedError for options that need a cluster, PolicyError for bad manifests.
        """
        given = self.given()
        if not self.cluster and self.kubeconfig is None:
            if given:
                raise PolicySchedError(f"{given[0]} goes with --cluster or --kubeconfig")
            return None
        require_cluster("diff", self.cluster, self.kubeconfig)
        files = read_files(self.cluster, self.nodes, self.kubeconfig, inputs)
        diagnostics.write_diagnostics(files.problems, sys.stderr)
        if not any(map(waits, files.objects)):
            diagnostics.write_hints(
                ["the cluster has no pending pods, so no placement is compared"]
            )
        return files.objects


def diff(  # noqa: PLR0913  # the options of the verb
    old: Annotated[str | None, Parameter(name="OLD")] = None,
    new: Annotated[str | None, Parameter(name="NEW")] = None,
    /,
    *,
    shadow: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    on: ClusterFlags | None = None,
    max_cost_limit: MaxCostLimit = MAX_ANNOTATED_COST,
    report: str | None = None,
    output: Annotated[Output, Parameter(name=["--output", "-o"])] = "text",
    fail_on: Literal["regression"] | None = None,
) -> int:
    """Compare two policy sets, and show which pods would go elsewhere.

    A policy set is a file or a directory of policies, with or without the
    KubeSchedulerConfiguration that enables them, anywhere below the directory, or the name of a
    shipped policy (gang); default is the default profile. Policies that no profile enables are
    compared by their meaning.
    With --shadow, instead of both: what policy-sched run --shadow would have done differently.

    Parameters
    ----------
    old
        The policy set that is in force.
    new
        The policy set that is to replace it.
    shadow
        Files that policy-sched run --shadow-log wrote, oldest first. A log that the other scheduler
        wrote (policy-sched run --decision-log) may stand beside them: it has the decisions that the
        shadow did not see.
    max_cost_limit
        The most nanoseconds for each node that the annotation policysched.dev/cost-limit of a
        policy may let its rules cost; a policy that asks for more is refused.
    report
        Write the comparison as one HTML file, too: pods that lose, gain and change their node, ties
        apart, and the measures of both (needs jinja2, the extra console).
    output
        text; json: the same bytes for the same input; markdown: a comment on a pull request.
    fail_on
        Exit with 1 if a pod becomes unschedulable (or, with --shadow, cannot be decided); with
        --seeds, if fewer pods are placed and the interval tells that from noise.
    """
    on = on or ClusterFlags()
    require_report(report)
    if shadow:
        if old or on.given():
            given = "OLD, NEW" if old else on.given()[0]
            raise PolicySchedError(f"--shadow does not go together with {given}")
        if output == "markdown":
            raise PolicySchedError("--shadow prints text or json, not markdown")
        return _shadow(shadow, output, report, fails=fail_on is not None)
    if old is None or new is None:
        raise PolicySchedError("diff needs two policy sets, OLD and NEW, or --shadow LOG")
    clocked = clock(on.now, on.kubeconfig)
    now = EPOCH if clocked is None else clocked()
    old, new = policy_set_path(old), policy_set_path(new)
    diagnostics.require_files(on.cluster)
    before, after = (_policy_set(files, max_cost_limit) for files in (old, new))
    diagnostics.write_diagnostics(_untried(before, after), sys.stderr)
    objects = on.objects(decoded_kinds((*before.plans, *after.plans)))
    contents = contents_of(objects) if report is not None and objects is not None else None
    proven = proven_alike(before, after, _alike)
    placements = None
    if objects is not None and (proven is None or on.always_simulate):
        placements = _placements(before, after, objects, on, now)
    elif objects is not None:
        diagnostics.write_hints([SKIPPED])
    policy_diff = PolicyDiff(before, after, differences(before, after), placements, proven)
    if report is not None:
        facts = [Fact("OLD", old), Fact("NEW", new)]
        if contents is not None:
            facts += [
                *cluster_facts(source_names(on.cluster, on.kubeconfig, on.nodes), contents),
                *(_run_facts(on, now) if placements is not None else ()),
            ]
        made = origin(facts, {"OLD": before.plans, "NEW": after.plans}, *_idle(before, after))
        write_page(report, diff_page(policy_diff), made)
    write_report(policy_diff, output)
    return diagnostics.FAILED if fail_on and _is_regression(placements) else diagnostics.OK


def _untried(old: CompiledFiles, new: CompiledFiles) -> list[Diagnostic]:
    """Return what differs and is tried by no step of the Rollout among the new files."""
    if not new.rollout:
        return []
    from policy_sched.profiles.check import untried_changes  # noqa: PLC0415  for rollouts alone

    return untried_changes(old.plans, new.plans, new.rollout)


def _alike(changed: Sequence[Rewrite]) -> bool:
    """Return whether it is proven that policies decide alike."""
    with progress("proving"):
        return bool(import_module("policy_sched.prove").decide_alike(changed))


def _placements(
    old: CompiledFiles, new: CompiledFiles, objects: Sequence[ApiObject], on: ClusterFlags, now: int
) -> PlacementDiff | SeedsDiff:
    """Return what both sets do to a cluster."""
    if on.seeds == 1:
        with progress("deciding with both", 2 * sum(map(waits, objects))) as advance:
            return compare_placements(old.plans, new.plans, objects, on.seed, now, advance)
    shown = partial(progress, "deciding with each seed")
    each = partial(parallel_map, enough=1, workers=on.workers, shown=shown)
    seeds = range(on.seed, on.seed + on.seeds)
    return compare_seeds(old.plans, new.plans, objects, seeds, each, now)


def _run_facts(on: ClusterFlags, now: int) -> list[Fact]:
    """Return with which seeds and at which time both sets decided."""
    last = on.seed + on.seeds - 1
    seeds = Fact("Seed", f"{on.seed}") if on.seeds == 1 else Fact("Seeds", f"{on.seed} to {last}")
    return [seeds, Fact("Time that rules see", time_text(now))]


def _idle(old: CompiledFiles, new: CompiledFiles) -> list[Table]:
    """Return the policies that no profile enables, which were compared by their meaning."""
    rows: list[list[Value]] = [
        [side, name, Text(content_hash(source)[:DIGITS], code=True)]
        for side, of in (("OLD", old), ("NEW", new))
        for name, source in of.idle.items()
    ]
    columns = [Column(head) for head in ("Set", "Policy", "Hash")]
    return [Table("Policies that no profile enables", columns, rows)] if rows else []


def _shadow(paths: Sequence[str], output: str, report: str | None, *, fails: bool) -> int:
    diagnostics.require_files(paths)
    summary = summarize(paths)
    for record in summary.broken:
        print(f"{record}: left out, it is no whole record", file=sys.stderr)
    if report is not None:
        hashes = fingerprint(paths)
        logs: list[list[Value]] = [
            [path, Text(hashes[path][:DIGITS], code=True)] for path in hashes
        ]
        table = Table("Logs", [Column("File"), Column("SHA-256")], logs)
        write_page(report, shadow_page(summary), origin((), {}, table))
    write_report(summary, output)
    worse = _is_regression(summary.placements) or summary.results[Agreement.ERROR] > 0
    return diagnostics.FAILED if fails and worse else diagnostics.OK


def _policy_set(path: str, max_cost_limit: int) -> CompiledFiles:
    files = read_policy_set(path, max_cost_limit)
    diagnostics.write_diagnostics(files.warnings, sys.stderr)
    return files


def _is_regression(placements: PlacementDiff | SeedsDiff | None) -> bool:
    """Return whether pods become unschedulable; with several seeds, whether that is no noise."""
    if isinstance(placements, SeedsDiff):
        placed = next(measure for measure in placements.measures if measure.name == PLACED)
        return placed.values.difference.high < 0
    return placements is not None and placements.counts["unschedulable"] > 0
