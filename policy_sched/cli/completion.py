"""The verb ``completion``: scripts that complete commands, options and choices in a shell."""

from __future__ import annotations

import re
import sys
from typing import Annotated, Final, Literal

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
    from policy_sched.cli.app import app  # noqa: PLC0415  main finds this verb by its name

    script = app.generate_completion(prog_name="policy-sched", shell=shell)
    sys.stdout.write(_with_files(script, shell).rstrip("\n") + "\n")
    return OK


_ZSH_VALUE: Final = re.compile(
    r"^(\s+'(?:\*--?[\w-]+\[.*\]:[\w-]+|[\d*]+:(?!.*->).*))'( \\)?$", re.MULTILINE
)
"""A line of the zsh script about a value that can be anything."""


def _with_files(script: str, shell: str) -> str:
    """Return a script that completes names of files where an argument has no choices.

    fish does that by itself.
    """
    if shell == "bash":
        return script.replace("complete -F ", "complete -o default -F ")
    return _ZSH_VALUE.sub(r"\1:_files'\2", script) if shell == "zsh" else script
