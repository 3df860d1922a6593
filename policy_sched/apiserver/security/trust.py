"""Whose certificates of clients count: told to the components of the cluster in a ConfigMap.

Who delegates the question of who somebody is reads it when it starts, as kube-scheduler does, and
believes the same authorities. (The cluster authentication trust controller of kube-apiserver.)
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from policy_sched.client.embedded.resources import NAMESPACE
from policy_sched.client.embedded.store import ObjectStore
from policy_sched.errors import ClusterError
from policy_sched.model.expansion import Plain

NAME: Final = "extension-apiserver-authentication"
HOME: Final = "kube-system"
AUTHORITIES: Final = "client-ca-file"
_MAP: Final = ("v1", "ConfigMap")


def publish(store: ObjectStore, authorities: str | None) -> None:
    """Let a store tell the authorities of a file (PEM); None: certificates are not looked at.

    What others have put into the ConfigMap stays. Without its namespace there is none. Raises
    ClusterError if the file cannot be read.
    """
    if store.find(NAMESPACE, "", HOME) is None:
        return
    said = {} if authorities is None else {AUTHORITIES: _read(authorities)}
    found = store.find(_MAP, HOME, NAME)
    if found is None:
        meta = {"name": NAME, "namespace": HOME}
        made: Plain = {"apiVersion": _MAP[0], "kind": _MAP[1], "metadata": meta}
        store.create({**made, "data": said} if said else made)
        return
    before = found.data.get("data") or {}
    others = {key: value for key, value in before.items() if key != AUTHORITIES}
    if before != {**others, **said}:
        store.revise(found, {**found.data, "data": {**others, **said}})


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise ClusterError(f"{path}: cannot be read: {why}") from None
