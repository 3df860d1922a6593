"""The verb ``check``: every problem of policies and scheduler configurations, with its place."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from policy_sched.cli.render import Format, exit_code, require_files, write_diagnostics
from policy_sched.profiles.check import check_files


def check(
    paths: Annotated[tuple[str, ...], Parameter(name="PATH", negative="")],
    /,
    *,
    output: Annotated[Format, Parameter(name=["--output", "-o"])] = "text",
) -> int:
    """Check policies and scheduler configurations; print every problem with its place.

    Parameters
    ----------
    paths
        Policy and KubeSchedulerConfiguration files, and directories of them.
    output
        text: position, line and caret; json; github: annotations for a pull request.
    """
    require_files(paths)
    diagnostics = check_files(paths)
    write_diagnostics(diagnostics, sys.stdout, output)
    if output == "text" and not diagnostics:
        print("no problems found")
    return exit_code(diagnostics)
