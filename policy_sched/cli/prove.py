"""The verb ``prove``: what holds of policies for every pod and every node."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from cyclopts.types import PositiveFloat, PositiveInt
from cyclopts.validators import Number

from policy_sched.cli.input.parallel_map import cores
from policy_sched.cli.input.values import policy_paths
from policy_sched.cli.output import diagnostics, junit_tap_sarif
from policy_sched.cli.output.progress import progress
from policy_sched.cli.output.report import write_report
from policy_sched.errors import PolicySchedError
from policy_sched.source import write_file

if TYPE_CHECKING:
    from policy_sched.prove import Verdict

Output = Literal["text", "json", "junit", "sarif", "github", "gitlab", "markdown"]


def prove(  # noqa: PLR0913  # one parameter for each option
    policies: Annotated[
        tuple[str, ...], Parameter(name="POLICY", negative="", show_default=False)
    ] = (),
    /,
    *,
    diff: Annotated[tuple[str, str] | None, Parameter(show_default=False)] = None,
    write: Annotated[str, Parameter(show_default=False)] = "",
    bound: Annotated[int, Parameter(validator=Number(gte=1, lte=8))] = 3,
    timeout: PositiveFloat = 10.0,
    jobs: Annotated[PositiveInt | None, Parameter(name=["--jobs", "-j"])] = None,
    assumptions: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    output: Annotated[Output, Parameter(name=["--output", "-o"])] = "text",
) -> int:
    """Say what holds of policies for every pod and every node, or show one for which it does not.

    Asks of each policy whether a rule can fail, whether each filter rule rejects a node that those
    before it let pass, whether some node passes, whether matchConditions hold for some pod, whether
    the score stays within 0..100 and is not the same everywhere, whether preEnqueue holds back some
    pod, and whether some pod may evict another; and of each two policies whether some node passes
    both. Each answer is proven, refuted, or unknown with the reason. What
    the solver finds is first run through the scheduler. Needs z3-solver (the extra prove).

    Parameters
    ----------
    policies
        Policy files, PolicyProof files, directories of them, or names of shipped policies. In a
        directory claims are in the files named claims.yaml.
    diff
        Two policy sets, as OLD NEW: say that policies of one name decide the same of every pod and
        node (queue, filters, reasons, scores, evictions), or show where they differ.
    write
        Write the pods and nodes that refute claims to this file, as tests that
        policy-sched test runs.
    bound
        How many elements lists of nodes and pods have at most: taints, tolerations, pods.
    timeout
        Seconds that the solver may take for each claim, in steps of a common machine.
    jobs
        Claims that are decided at a time where there are many; one for each core unless given.
    assumptions
        Print what is assumed of every pod and node, and what may be anything, and nothing else.
    output
        text; json; junit; sarif, github, gitlab: what is refuted or unknown, at its line;
        markdown: for a comment on a pull request.
    """
    package = _package()
    if assumptions:
        free = (("may be anything", reason) for reason in package.WITHOUT_TERM.values())
        stated = [*package.ASSUMPTIONS.items(), *free]
        diagnostics.write_lines(f"{name}: {text}" for name, text in stated)
        return diagnostics.OK
    if bool(policies) == (diff is not None):
        raise PolicySchedError("name policies, or two sets with --diff OLD NEW")
    paths = policy_paths(policies if diff is None else diff[:1])
    new = () if diff is None else policy_paths(diff[1:])
    parts = package.parts_of(paths, new, bound, timeout)
    with progress("proving") as advance:
        verdicts = package.prove(parts, jobs or cores(), advance)
    if write:
        _write_tests(package, write, verdicts)
    report = package.ProofReport(verdicts)
    problems = report.diagnostics()
    match output:
        case "sarif":
            sys.stdout.write(junit_tap_sarif.as_sarif(problems))
        case "gitlab":
            sys.stdout.write(junit_tap_sarif.as_gitlab(problems))
        case "github":
            diagnostics.write_diagnostics(problems, sys.stdout, "github")
        case _:
            write_report(report, output)
    wrong = [verdict for verdict in verdicts if verdict.internal]
    for verdict in wrong:
        text = f"policy-sched: internal error: {verdict.claim}: {verdict.reason}; please report it"
        print(text, file=sys.stderr)
    return diagnostics.UNUSABLE if wrong else diagnostics.exit_code(problems)


def _package() -> ModuleType:
    """Return the package that proves. Raises PolicySchedError without the extra."""
    try:
        return import_module("policy_sched.prove")
    except ModuleNotFoundError as error:
        if error.name != "z3":
            raise
        message = "prove needs z3-solver: pip install 'z3-solver>=4.13' (the extra prove)"
        raise PolicySchedError(message) from None


def _write_tests(package: ModuleType, path: str, verdicts: Sequence[Verdict]) -> None:
    """Write the tests that refute claims; their policies are named from the file's folder."""
    folder = Path(path).absolute().parent
    texts = []
    for verdict in verdicts:
        if verdict.answer == "refuted" and verdict.test is not None:
            files = [
                os.path.relpath(Path(file).absolute(), folder) for file in verdict.test["policies"]
            ]
            texts.append(
                package.text_of({**verdict.test, "name": verdict.claim, "policies": files})
            )
    write_file(path, "---\n".join(texts).encode(), parents=True)
