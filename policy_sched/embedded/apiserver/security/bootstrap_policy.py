"""The roles and bindings that a cluster with RBAC begins with, read from bootstrap_policy.yaml.

An object that is there and says ``rbac.authorization.kubernetes.io/autoupdate: "false"`` stays as
it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

from policy_sched.embedded.apiserver.security.role_objects import GROUP
from policy_sched.embedded.store import ObjectStore
from policy_sched.manifests import Plain

_UPDATED: Final = "rbac.authorization.kubernetes.io/autoupdate"
_LABEL: Final = {"kubernetes.io/bootstrapping": "rbac-defaults"}


def bootstrap_objects() -> Iterator[Plain]:
    """Yield the roles, then the bindings."""
    text = Path(__file__).with_name("bootstrap_policy.yaml").read_text(encoding="utf-8")
    for data in yaml.safe_load_all(text):
        meta = data["metadata"]
        labels = {**_LABEL, **meta.get("labels", {})}
        meta = {**meta, "annotations": {_UPDATED: "true"}, "labels": labels}
        yield {"apiVersion": f"{GROUP}/v1", **data, "metadata": meta}


def install(store: ObjectStore) -> None:
    """Create these objects in a store, or give them these rules and subjects."""
    for data in bootstrap_objects():
        meta = data["metadata"]
        key = (data["apiVersion"], data["kind"])
        found = store.find(key, meta.get("namespace", ""), meta["name"])
        if found is None:
            store.create(data)
            continue
        if found.typed.metadata.annotations.get(_UPDATED) == "false":
            continue
        wanted = {field: data[field] for field in ("rules", "subjects") if data.get(field)}
        present = found.data
        if any(present.get(field) != value for field, value in wanted.items()):
            store.revise(found, {**present, **wanted})
