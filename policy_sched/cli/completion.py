"""The verb ``completion``: scripts that complete commands, options and choices in a shell."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

from cyclopts import Parameter

from policy_sched.cli.output.diagnostics import OK


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(name="SHELL")],
    /,
) -> int:
    """Print the completion script of a shell.

    bash: source <(policy-sched completion bash). zsh: the same, or a file _policy-sched in a
    directory of fpath. fish: policy-sched completion fish | source.

    Parameters
    ----------
    shell
        bash, zsh or fish.
    """
    from policy_sched.cli.main import app  # noqa: PLC0415  main finds this verb by its name

    script = app.generate_completion(prog_name="policy-sched", shell=shell)
    sys.stdout.write(script.rstrip("\n") + "\n")
    return OK
