"""The verb ``test``: runs scenario files and prints what differs from what they expect."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import re2
from cyclopts import Parameter
from cyclopts.validators import Number

from policy_sched.cli.input.values import MaxCostLimit
from policy_sched.cli.output import diagnostics
from policy_sched.cli.output.progress import progress
from policy_sched.cli.output.report import require_report, write_page, write_report
from policy_sched.errors import Diagnostic, PolicySchedError, bounded
from policy_sched.language.check import check_policy
from policy_sched.language.diagnostics import MAX_ANNOTATED_COST
from policy_sched.policytest import (
    FileResults,
    LocationCoverage,
    RuleCoverage,
    ScenarioReport,
    ScenarioRun,
    coverage_lines,
    percent,
    run_files,
    scenarios_page,
    update_file,
)
from policy_sched.profiles.build import CompiledPlan
from policy_sched.profiles.load import fingerprint, load_policies, policy_source
from policy_sched.profiles.models import MISSING_KEY
from policy_sched.simulate import DIGITS, origin
from policy_sched.source import is_stray_link
from policy_sched.web import Column, Section, Table, Text, Value

Output = Literal["text", "json", "junit", "tap"]


def run_scenarios(  # noqa: PLR0913  # one parameter for each option
    files: Annotated[tuple[str, ...], Parameter(name="FILE", negative="")],
    /,
    *,
    run: Annotated[str, Parameter(show_default=False)] = "",
    coverage: Annotated[bool, Parameter(negative="")] = False,
    threshold: Annotated[float | None, Parameter(validator=Number(gte=0, lte=100))] = None,
    update: Annotated[bool, Parameter(negative="")] = False,
    exact: Annotated[bool, Parameter(negative="")] = False,
    enforce_audits: Annotated[bool, Parameter(negative="")] = False,
    root: Annotated[str, Parameter(show_default=False)] = "",
    max_cost_limit: MaxCostLimit = MAX_ANNOTATED_COST,
    report: str | None = None,
    output: Annotated[Output, Parameter(name=["--output", "-o"])] = "text",
) -> int:
    """Run tests of policies and print every difference from what they expect, field by field.

    Parameters
    ----------
    files
        Scenario files (.jsonl, .json, .yaml, each with or without .gz); a directory stands for
        the scenario files in it named tests.yaml or *.jsonl (or these with .gz).
    run
        Compare only steps of scenarios and of pods in whose name this RE2 pattern is found.
    coverage
        Print the rules of the tested policies that no test saw both true and false, and the scores
        and keys that no test saw with two values. A policy is tested by the files that name it and
        by those in its folder; policies below a given directory count even without a test.
    threshold
        Exit with 1 if less than so many percent of the rules are covered; implies --coverage.
    update
        Replace expectations of YAML files that differ by the actual result; comments stay.
    exact
        Compare recorded lives of a scheduler in everything: every attempt with its scores and its
        message, and the queue afterwards. Otherwise only what became of pods is compared: where
        they are bound, which are evicted and nominated, and which devices claims have.
    enforce_audits
        Let policies with enforcement Audit decide. Otherwise they decide nothing, as in run.
    root
        A directory below which tests may name policies and configurations, beside the repository
        of the test file (or else the working directory, or the file's own).
    max_cost_limit
        The most nanoseconds for each node that the annotation policysched.dev/cost-limit of a
        policy may let its rules cost; a policy that asks for more is refused.
    report
        Write the results as one HTML file, too: what differs, and with --coverage the policies with
        what tests have seen of each rule (needs jinja2, the extra console).
    output
        text: differences, then "N of M steps as expected"; json; junit; tap: version 14.
    """
    diagnostics.require_files(files)
    require_report(report)
    covering = RuleCoverage() if coverage or threshold is not None else None
    if root and not Path(root).is_dir():
        raise PolicySchedError(f"--root {root}: there is no such directory")
    folders = [root] if root else [file for file in files if Path(file).is_dir()]
    tested: dict[str, dict[str, None]] = {}

    def saw(plans: Sequence[CompiledPlan]) -> None:
        for plan in plans:
            for name in plan.own:
                tested.setdefault(name, {})[plan.hashes[name].whole] = None

    wanted = ScenarioRun(
        covering,
        roots=tuple(folders),
        max_cost_limit=max_cost_limit,
        saw=saw,
        exact=exact,
        enforce_audits=enforce_audits,
    )
    wanted = replace(wanted, wanted=_wanted(run)) if run else wanted
    paths = _scenario_files(files)
    if update:
        _update(paths, wanted)
    with progress("testing"):
        results_of_files = run_files(paths, wanted)
    results_of_files.problems += (
        _without_tests(path) for path in files if not _scenario_files((path,))
    )
    if run and not results_of_files.results and not results_of_files.problems:
        raise PolicySchedError(f"no scenario and no pod is called like {run}")
    if covering is not None:
        _expect_all(covering, files)
    locations = None if covering is None else covering.report()
    if report is not None:
        results = ScenarioReport(results_of_files.results, locations)
        page = scenarios_page(results, bounded(results_of_files.problems))
        write_page(report, page, _origin(paths, tested))
    _write(results_of_files, output, locations)
    if threshold is not None and locations is not None and percent(locations) < threshold:
        print(f"rule coverage {percent(locations):.1f} % is below {threshold:g} %", file=sys.stderr)
        return diagnostics.FAILED
    fine = not results_of_files.problems and all(result.ok for result in results_of_files.results)
    return diagnostics.OK if fine else diagnostics.FAILED


def _origin(paths: Sequence[str], tested: Mapping[str, Iterable[str]]) -> Section:
    """Return what the report was made from: the files, and the policies with their hashes."""
    policies = [(name, digest) for name in sorted(tested) for digest in tested[name]]
    tables = [
        Table(caption, [Column(head), Column("SHA-256")], _rows(hashes))
        for caption, head, hashes in (
            ("Files of tests", "File", list(fingerprint(paths).items())),
            ("Policies beside kube-scheduler's, by their content", "Policy", policies),
        )
        if hashes
    ]
    return origin((), {}, *tables)


def _rows(hashes: Sequence[tuple[str, str]]) -> list[list[Value]]:
    return [[name, Text(digest[:DIGITS], code=True)] for name, digest in hashes]


def _expect_all(covering: RuleCoverage, paths: tuple[str, ...]) -> None:
    """Have the policies of directories counted even if nothing tests them."""
    folders = [path for path in paths if Path(path).is_dir()]
    for policy in load_policies(folders)[0]:
        source = policy_source(policy) if policy.sound else None
        if source is not None and check_policy(source)[0] is not None:
            covering.expect(source)


def _wanted(text: str) -> Callable[[str, str], bool]:
    """Return whether a step is compared, by the names of its scenario and of its pod."""
    options = re2.Options()
    options.log_errors = False
    try:
        pattern = re2.compile(text, options)
    except re2.error:
        raise PolicySchedError(f"--run: {text} is no RE2 pattern") from None

    def wanted(scenario: str, pod: str) -> bool:
        return pattern.search(scenario) is not None or pattern.search(pod) is not None

    return wanted


def _update(paths: list[str], wanted: ScenarioRun) -> None:
    for path in paths:
        if update_file(path, replace(wanted, coverage=None)):
            print(f"{path}: updated", file=sys.stderr)


def _write(results: FileResults, output: Output, locations: list[LocationCoverage] | None) -> None:
    """Write the results; the machine formats have standard output for themselves."""
    diagnostics.write_diagnostics(results.problems, sys.stderr)
    report = ScenarioReport(results.results, locations)
    if output == "text":
        if results.results or not results.problems:
            write_report(report, output)
        elif locations is not None:
            diagnostics.write_lines(coverage_lines(locations))
        return
    write_report(report, output)
    if output != "json" and locations is not None:
        diagnostics.write_lines(coverage_lines(locations), sys.stderr)
    print(report.last_line(), file=sys.stderr)


def _scenario_files(paths: tuple[str, ...]) -> list[str]:
    """Return the files; in directories only those that look like scenarios."""
    files: list[str] = []
    for path in paths:
        folder = Path(path)
        if not folder.is_dir():
            files.append(path)
            continue
        scenarios = [
            file
            for file in folder.rglob("*")
            if _is_scenario(file.name) and file.is_file() and not is_stray_link(file, folder)
        ]
        files.extend(str(file) for file in sorted(scenarios))
    return files


def _without_tests(folder: str) -> Diagnostic:
    """Return that a directory holds no tests: a mistyped path would look like success."""
    message = "there are no tests in this directory"
    hint = "tests are files named tests.yaml, and *.jsonl, each with or without .gz"
    return Diagnostic(folder, 1, 1, MISSING_KEY, message, hint)


def _is_scenario(name: str) -> bool:
    plain = name.removesuffix(".gz")
    return plain == "tests.yaml" or plain.endswith(".jsonl")
