"""The verb ``test``: runs scenario files and prints what differs from what they expect."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from policy_sched.cli.render import FAILED, OK, require_files
from policy_sched.simulate.scenario_file import run_file
from policy_sched.simulate.scenario_report import (
    StepResult,
    as_json,
    as_junit,
    last_line,
    text_lines,
)


def run_scenarios(
    files: Annotated[tuple[str, ...], Parameter(name="FILE", negative="")],
    /,
    *,
    output: Annotated[
        Literal["text", "json", "junit"], Parameter(name=["--output", "-o"])
    ] = "text",
) -> int:
    """Run scenario files and print what differs from what they expect, field by field.

    Parameters
    ----------
    files
        Scenario files (.jsonl, .json, .yaml, each with or without .gz); a directory stands for
        the scenario files in it named tests.yaml or *.jsonl.gz.
    output
        text: differences, then "N of M steps as expected"; json; junit.
    """
    require_files(files)
    results: list[StepResult] = []
    for file in _scenario_files(files):
        results.extend(run_file(file))
    if output == "text":
        sys.stdout.writelines(f"{line}\n" for line in text_lines(results))
    else:
        print(as_json(results) if output == "json" else as_junit(results))
        print(last_line(results), file=sys.stderr)
    return OK if all(result.ok for result in results) else FAILED


def _scenario_files(paths: tuple[str, ...]) -> list[str]:
    """Return the files; in directories only those that look like scenarios."""
    files: list[str] = []
    for path in paths:
        folder = Path(path)
        if not folder.is_dir():
            files.append(path)
            continue
        found = [one for one in folder.rglob("*") if _is_scenario(one.name)]
        files.extend(str(one) for one in sorted(found))
    return files


def _is_scenario(name: str) -> bool:
    plain = name.removesuffix(".gz")
    return plain == "tests.yaml" or plain.endswith(".jsonl")
