"""The verb ``replay``: recorded traffic, decided again."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from policy_sched.cli.input.parallel_map import parallel_map
from policy_sched.cli.options.policies import PolicyFlags
from policy_sched.cli.output import diagnostics
from policy_sched.cli.output.progress import progress
from policy_sched.cli.output.report import require_report, write_page, write_report
from policy_sched.errors import PolicyError, PolicySchedError
from policy_sched.model import nanoseconds_of
from policy_sched.profiles.check import check_rollout, is_rollout
from policy_sched.profiles.load import load_file
from policy_sched.profiles.models import moment_of
from policy_sched.profiles.reload import PolicyFiles
from policy_sched.recording import Recording
from policy_sched.replay import (
    Contender,
    PolicySet,
    agreement,
    agreement_page,
    compare_replays,
    compiled,
    compiled_recorded,
    in_force_at,
    logged_decisions,
    replay_page,
    replay_rollout,
    traffic_notes,
    with_decisions,
)
from policy_sched.report import Report
from policy_sched.rollout import Plan, plan_of
from policy_sched.simulate import origin, policy_facts, time_text, traffic_of
from policy_sched.web import Fact

Output = Literal["text", "json", "yaml"]


def replay(  # noqa: PLR0913  # the options of the verb
    directory: Annotated[str, Parameter(name="DIR")],
    /,
    *,
    policy: PolicyFlags | None = None,
    from_: Annotated[str | None, Parameter(name="--from")] = None,
    to: str | None = None,
    decision_log: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    seed: int = 0,
    seeds: Annotated[int, Parameter(validator=Number(gte=1, lte=1000))] = 1,
    workers: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    rollout: str | None = None,
    report: str | None = None,
    output: Annotated[Output, Parameter(name=["--output", "-o"])] = "text",
    fail_on: Literal["disagreement", "regression"] | None = None,
) -> int:
    """Decide recorded traffic again, in virtual time.

    Pods arrive, are changed and are deleted when they were, and so are nodes and everything else; a
    pod of a Job runs as long as it did. Where only ties differ, the recorded node is taken.

    Without --policies and --config the recorded decisions are held against the policies that were
    in force, or those of another scheduler against the default profile: how many agree, and why
    each other one does not. With them the traffic is decided twice, by what was in force (OLD) and
    by the given policies (NEW): waiting times, utilisation, evictions, pods that found no node, the
    measures that policies state, and the pods that go elsewhere.

    Parameters
    ----------
    directory
        A recording, as policy-sched record and run --record write it.
    from_
        Where the replay begins: RFC 3339, or from the beginning of the recording: "+10m".
    to
        Where it ends, as --from; at the end of the recording unless given.
    decision_log
        A decision log (policy-sched run --decision-log) of the same time: where the recording was
        made from outside, it has what our scheduler decided, and when.
    seed
        Decides between nodes with equal scores where none of them was recorded; the first one with
        --seeds.
    seeds
        Number of seeds with which both sets decide; more than one gives means, intervals for the
        differences, and what is noise.
    workers
        Processes for --seeds, one for each core unless given; the output is the same.
    rollout
        A file with a Rollout: the given policies are rolled out beside those that were in force, as
        by run --rollout; what would have aborted it, and when.
    report
        Write the result as one HTML file, too (needs jinja2, the extra console).
    output
        text; json and yaml: the same bytes for the same input.
    fail_on
        Exit with 1 if a decision does not agree; or, with policies, if a pod finds no node that
        finds one with those that were in force; or, with --rollout, if it is aborted.
    """
    require_report(report)
    flags = policy or PolicyFlags()
    given = flags != PolicyFlags()
    _check_together(given, seeds, fail_on, rollout, report)
    plan = None if rollout is None else _plan(rollout)
    files = flags.files()
    new = compiled(files) if given else None
    recording = Recording.open(directory, files.input_kinds())
    span = _span(recording, from_, to)
    sets, notes = compiled_recorded(recording.policies)
    default = compiled(PolicyFiles())
    diagnostics.require_files(decision_log)
    if decision_log and not sets:
        sets = {"default": default}  # as far as the log says that it decided
    logged = logged_decisions(decision_log, sets)
    facts = [Fact("Recording", directory)]
    if new is None:
        held = agreement(recording, sets, default, span, notes, logged)
        if report is not None:
            plans = {digest[:12]: policies.plans for digest, policies in sets.items()}
            made = origin(facts, plans or {"default": default.plans})
            write_page(report, agreement_page(held), made)
        return _written(held, output, failed=fail_on is not None and held.differ > 0)
    traffic = traffic_of(with_decisions(recording.events(*span), logged), *span)
    old = _in_force(recording, sets, default, span)
    if plan is not None:
        told = (*notes, *recording.notes, *traffic_notes(traffic))
        rolled = replay_rollout(traffic, old.plans, new.compilation, plan, seed=seed, notes=told)
        return _written(rolled, output, failed=fail_on is not None and rolled.aborted)
    shown = partial(progress, "deciding with each seed")
    compared = compare_replays(
        traffic,
        old,
        Contender(new.plans, new.measures),
        seeds=range(seed, seed + seeds),
        each=partial(parallel_map, enough=1, workers=workers, shown=shown),
        notes=(*notes, *recording.notes),
    )
    if report is not None:
        facts += policy_facts(files)
        made = origin(facts, {"OLD": old.plans, "NEW": new.plans})
        write_page(report, replay_page(compared), made)
    lost = compared.runs[0].counts["unschedulable"] > 0
    return _written(compared, output, failed=fail_on is not None and lost)


def _written(result: Report, output: Output, *, failed: bool) -> int:
    """Write a result; return the exit code."""
    write_report(result, output)
    return diagnostics.FAILED if failed else diagnostics.OK


def _check_together(
    given: bool, seeds: int, fail_on: str | None, rollout: str | None, report: str | None
) -> None:
    """Raise PolicySchedError for options that do not go together; ``given``: there are policies."""
    if not given and (seeds > 1 or fail_on == "regression"):
        option = "--seeds" if seeds > 1 else "--fail-on regression"
        raise PolicySchedError(f"{option} goes with --policies or --config")
    if rollout is not None and (not given or seeds > 1 or report is not None):
        why = "it does not go with --seeds and --report" if given else "name what is rolled out"
        raise PolicySchedError(f"--rollout goes with --policies or --config; {why}")
    if given and fail_on == "disagreement":
        raise PolicySchedError("--fail-on disagreement does not go with --policies and --config")


def _plan(path: str) -> Plan:
    """Return the plan of the one Rollout of a file. Raises PolicyError with every problem of it."""
    diagnostics.require_files([path])
    file = load_file(Path(path), named=True)
    rollouts = [each.marked for each in file.documents if is_rollout(each.marked)]
    checked, problems = check_rollout(rollouts[0]) if len(rollouts) == 1 else (None, [])
    problems = sorted({*file.all_problems, *problems})
    if problems:
        raise PolicyError(problems)
    if checked is None:
        raise PolicySchedError(f"--rollout {path}: has {len(rollouts)} Rollouts instead of one")
    return plan_of(checked)


def _in_force(
    recording: Recording, sets: dict[str, PolicySet], default: PolicySet, span: tuple[int, int]
) -> Contender:
    """Return what decided at the time, and how it changed."""
    first = in_force_at(recording, span[0])
    if first not in sets:
        return Contender(default.plans, default.measures)
    measures = {name: rule for each in sets.values() for name, rule in each.measures.items()}
    return Contender(
        sets[first].plans, measures, {digest: each.compilation for digest, each in sets.items()}
    )


def _span(recording: Recording, start: str | None, end: str | None) -> tuple[int, int]:
    """Return from when until before when is replayed. Raises PolicySchedError."""
    began, ended = recording.began, recording.ended + 1
    since = began if start is None else _moment("--from", start, began)
    until = ended if end is None else _moment("--to", end, began)
    if not began <= since < ended:
        raise PolicySchedError(f"--from {start}: the recording {_extent(recording)}")
    if until <= since:
        raise PolicySchedError(f"--to {end}: it is not after the beginning")
    if until > ended:
        print(f"warning: --to {end}: the recording {_extent(recording)}", file=sys.stderr)
    return since, min(until, ended)


def _moment(option: str, text: str, began: int) -> int:
    try:
        if text.startswith("+"):
            return began + nanoseconds_of(text[1:])
        return moment_of(text)
    except ValueError as error:
        hint = "write 2026-01-01T10:00:00Z, or +10m for ten minutes after the beginning"
        raise PolicySchedError(f"{option} {text}: {error}; {hint}") from None


def _extent(recording: Recording) -> str:
    return f"goes from {time_text(recording.began)} to {time_text(recording.ended)}"
