"""The verb ``lsp``: the language server, over standard input and output."""

from __future__ import annotations

import os
import sys
from importlib import import_module

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
