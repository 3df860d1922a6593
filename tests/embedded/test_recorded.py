"""The store against what a kube-apiserver 1.36 answered to the same requests, in this order.

recorded.jsonl: requests and answers without managedFields; uids, versions and times differ.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from policy_sched.client.apimachinery import resources
from policy_sched.client.apimachinery.object import Key
from policy_sched.embedded.store.store import ObjectStore
from policy_sched.model.kinds import KINDS, SKIPPED_KINDS, Kind
from policy_sched.testing import FakeClock
from tests.embedded.world import START

RECORDED = Path(__file__).with_name("recorded.jsonl")
PLURALS = {(kind[0], resources.plural(kind[1])): kind for kind in (*KINDS, *SKIPPED_KINDS)}
BOUND = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
NODE_CREATED = "node-create"
"""Its answer has what an API server adds for kubelets: a taint until it is ready, ports, system."""


class Server:
    """Runs requests by their paths; uids of the recording stand for the store's own."""

    def __init__(self) -> None:
        self.store = ObjectStore(FakeClock(START))
        self.uids: dict[str, str] = {}
        self.versions: dict[str, str] = {}
        for name in ("default", "kube-system"):
            meta = {"name": name}
            self.store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})

    def answer(self, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return status code and body."""
        try:
            return self._run(request)
        except resources.ApiError as error:
            return error.code, error.status()

    def _run(self, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        kind, namespace, name, sub = _parts(request["path"])
        body = self._mapped(request["body"])
        key = Key(kind, namespace, name)
        match request["method"], sub:
            case "POST", "binding":
                self.store.bind(namespace, name, body)
                return 201, {
                    "kind": "Status",
                    "apiVersion": "v1",
                    "metadata": {},
                    "status": "Success",
                    "code": 201,
                }
            case "POST", "":
                return 201, self.store.create(
                    {**body, "metadata": _placed(kind, namespace, body)}
                ).data
            case "PUT", "":
                return 200, self.store.update(body).data
            case "PATCH", _:
                return 200, self.store.patch(key, body, request["type"], sub).data
            case "DELETE", "":
                return 200, self.store.delete(key).data
        return 200, self.store.get(kind, namespace, name).data

    def _mapped(self, body: Any) -> Any:
        text = json.dumps(body)
        for theirs, ours in self.uids.items():
            text = text.replace(theirs, ours)
        mapped = json.loads(text)
        if isinstance(mapped, dict) and "resourceVersion" in mapped.get("metadata", {}):
            meta = mapped["metadata"]
            meta["resourceVersion"] = self.versions.get(meta["resourceVersion"], "0")
        return mapped

    def learn(self, theirs: dict[str, Any], ours: dict[str, Any]) -> None:
        """Remember whose uid and version those of the recording are."""
        meta = theirs.get("metadata") or {}
        if "uid" in meta:
            self.uids[meta["uid"]] = ours["metadata"]["uid"]
            self.versions[meta["resourceVersion"]] = ours["metadata"]["resourceVersion"]


def _placed(kind: Kind, namespace: str, body: dict[str, Any]) -> dict[str, Any]:
    resource: resources.Resource = resources.resource(kind)
    return {**body["metadata"], **({"namespace": namespace} if resource.namespaced else {})}


def _parts(path: str) -> tuple[Kind, str, str, str]:
    parts = path.strip("/").split("/")
    version = parts[1] if parts[0] == "api" else "/".join(parts[1:3])
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    name, sub = [*rest[1:], "", ""][:2]
    return PLURALS[version, rest[0]], namespace, name, sub


def _stable(value: Any) -> Any:
    """Return an answer without what differs from run to run, and without what is empty."""
    if isinstance(value, dict):
        kept = {k: _stable(v) for k, v in value.items() if not _volatile(k)}
        return {k: v for k, v in kept.items() if v not in (None, "", {}, [])}
    return [_stable(inner) for inner in value] if isinstance(value, list) else value


def _volatile(field: str) -> bool:
    return field in ("uid", "resourceVersion") or field.endswith(("Timestamp", "TransitionTime"))


def test_requests_are_answered_as_by_an_api_server() -> None:
    """The same status codes, reasons, messages and objects, request after request."""
    server = Server()
    for line in RECORDED.read_text(encoding="utf-8").splitlines():
        request = json.loads(line)
        status, body = server.answer(request)
        wanted = request["answer"]
        if status < 300:
            server.learn(wanted, body)
        expected = server._mapped(wanted)
        assert (request["name"], status) == (request["name"], request["status"])
        if request["name"] != NODE_CREATED:
            assert _stable(body) == _stable(expected), request["name"]


@pytest.mark.parametrize("name", ["default", "kube-system"])
def test_namespaces_carry_their_name_as_a_label(name: str) -> None:
    """So that selectors can name them."""
    stored = Server().store.get(resources.NAMESPACE, "", name)
    assert stored.labels == {"kubernetes.io/metadata.name": name}
