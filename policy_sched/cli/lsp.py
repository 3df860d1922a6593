"""The verb ``lsp``: the language server, over standard input and output."""

from __future__ import annotations

from importlib import import_module

from policy_sched.cli.render import OK
from policy_sched.errors import PolicySchedError


def serve() -> int:
    """Serve an editor over standard input and output, until it says that it is done.

    Needs the packages of policy-sched[lsp].
    """
    try:
        server = import_module("policy_sched.lsp.server").make_server()
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise PolicySchedError("lsp needs pygls: pip install 'policy-sched[lsp]'") from None
    server.start_io()
    return OK
