"""A kubeconfig for the server, as kubectl reads it."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Final

from policy_sched.embedded.apiserver.security.authentication import Tokens
from policy_sched.errors import ClusterError
from policy_sched.http import Access, Address, reason_of

CONTEXT: Final = "policy-sched"


def kubeconfig(address: Address, access: Access, tokens: Tokens | None) -> str:
    """Return a kubeconfig, as JSON (which is YAML too), with the first token."""
    place = address.reached.text
    cluster: dict[str, object] = {"server": f"http://{place}"}
    if access.certificate is not None:
        cluster["server"] = f"https://{place}"
        authority = Path(access.certificate).read_bytes()
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    user = {"token": tokens.first} if tokens else {}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": CONTEXT, "cluster": cluster}],
            "users": [{"name": CONTEXT, "user": user}],
            "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": CONTEXT}}],
            "current-context": CONTEXT,
        },
        indent=2,
    )


def write_kubeconfig(path: str, text: str) -> None:
    """Write a kubeconfig that only its owner can read. Raises ClusterError if it cannot be."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(handle, 0o600)
            file.write(text + "\n")
    except OSError as error:
        raise ClusterError(f"{path}: cannot be written: {reason_of(error)}") from None
