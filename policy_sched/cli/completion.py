"""The verbs ``lsp`` and ``completion``: what editors and shells ask about what is typed."""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from typing import Annotated, Final, Literal

from cyclopts import Parameter

from policy_sched.cli.output.diagnostics import FAILED, OK
from policy_sched.errors import PolicySchedError


def serve() -> int:
    """Run the language server over standard input and output until the editor ends it.

    Exits with 0 after a shutdown request, with 1 if the editor ends it without one, as the
    protocol asks for. Needs the packages of policy-sched[lsp].
    """
    try:
        server = import_module("policy_sched.lsp.server").make_server()
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise PolicySchedError("lsp needs pygls: pip install 'pygls>=2.0'") from None
    # The server closes its streams at the end; sys.stdout stays open.
    with os.fdopen(os.dup(0), "rb") as stdin, os.fdopen(os.dup(1), "wb") as stdout:
        server.serve(stdin, stdout, lambda text: print(f"policy-sched: {text}", file=sys.stderr))
    return FAILED if server.left_early else OK


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
