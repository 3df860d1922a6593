"""Replays a recorded case of the plugin, point by point, against a cluster in memory."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from policy_sched import framework
from policy_sched.client import MemoryClient, ObjectRequest, ObjectResponse
from policy_sched.cluster import ApiObjects, Cache
from policy_sched.errors import ClusterError
from policy_sched.model import KINDS, ApiObject, Node, Pod, PodInfo, ResourceClaim, nanoseconds_of
from policy_sched.plugins.dynamicresources import DynamicResources
from policy_sched.profiles.models import moment_of
from policy_sched.queue import Nominator

from .cases import Case

Plain = dict[str, Any]
SECOND = 10**9
TIMESTAMP = "allocationTimestamp"
ZERO_TIME = "0001-01-01T00:00:00Z"


def without_nulls(value: Any) -> Any:
    """Return plain data without nulls, which are absent; a time that is null is Go's zero time."""
    if isinstance(value, dict):
        times = {k: ZERO_TIME for k, v in value.items() if v is None and k == TIMESTAMP}
        return times | {k: without_nulls(v) for k, v in value.items() if v is not None}
    return [without_nulls(v) for v in value] if isinstance(value, list) else value


def decoded(value: Plain) -> ApiObject:
    """Return an object of plain data."""
    found: ApiObject = msgspec.convert(
        without_nulls(value), KINDS[value["apiVersion"], value["kind"]]
    )
    return found


class Api(MemoryClient):
    """An API server in memory; it can refuse patches of pods."""

    def __init__(self, objects: ApiObjects, *, fail_patch: bool) -> None:
        super().__init__(objects=objects)
        self.fail_patch = fail_patch

    def send(self, request: ObjectRequest, done: ObjectResponse | None = None) -> None:
        """Answer at once."""
        if self.fail_patch and request.kind is Pod and done is not None:
            done(None, ClusterError("patch error"))
            return
        super().send(request, done)


class Replay:
    """One case; `points` yields what happened at each point, and what should have."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.time = moment_of(case["now"])
        self.tick = 0
        cache = Cache()
        objects = [*case.get("claims", ()), *case.get("classes", ()), *case.get("objs", ())]
        api = [decoded(one) for one in objects]
        self.objects = ApiObjects(api, cache.nodes.journal)
        self.client = Api(self.objects, fail_patch=bool(case.get("failPatch")))
        self.handle = framework.Handle(
            cache, framework.WaitingPods(), Nominator(), self.client, self.now, self.objects
        )
        for node in case["nodes"]:
            one = decoded(node)
            assert isinstance(one, Node)
            cache.add_node(one)
        args = {name: nanoseconds_of(text) for name, text in case.get("args", {}).items()}
        self.plugin = DynamicResources(args, self.handle)
        pod = decoded(case["pod"])
        assert isinstance(pod, Pod)
        self.pod = PodInfo.of(pod)
        self.state = framework.CycleState()
        self.node = ""
        self.scores: dict[str, int] = {}
        other = PodInfo.of(Pod())
        for claim in case.get("inFlightClaims", ()):
            one = decoded(claim)
            assert isinstance(one, ResourceClaim)
            self.plugin._claims.reserve(one, other)

    def now(self) -> int:
        """Return the time, which advances a little each time."""
        self.time += 1000
        return self.time

    def points(self) -> Iterator[tuple[str, Any, Any]]:
        """Yield name, what happened, what was recorded."""
        for recorded in self.case["points"]:
            if "before" in recorded:
                self._set_claims(recorded["before"])
            if recorded.get("extra"):
                found = self._extra(recorded["key"], recorded["extra"])
                if found is not None:
                    yield recorded["extra"], found, recorded["value"]
                continue
            name = recorded["point"]
            yield name, _shown(self._at(name)), _expected(recorded["status"])
            if "after" in recorded:
                yield f"{name}: claims", self._claims_now(), _claims(recorded["after"])

    def _set_claims(self, claims: list[Plain] | None) -> None:
        wanted = {c["metadata"]["name"]: decoded(c) for c in claims or ()}
        for claim in self.objects.of(ResourceClaim):
            if claim.metadata.name not in wanted:
                self.objects.remove(claim)
        for one in wanted.values():
            self.objects.put(one)

    def _claims_now(self) -> list[Plain]:
        return _claims([msgspec.to_builtins(c) for c in self.objects.of(ResourceClaim)])

    def _extra(self, key: str, name: str) -> Any:
        if key == "preBindPreFlight":
            return self.plugin.pre_bind_pre_flight(self.state, self.pod).code.value
        if key == "score":
            return self._score(name.partition("/")[2])
        if key == "normalized":
            raw = np.array(list(self.scores.values()), np.int64)
            normalized = self.plugin.normalize_score(raw).tolist()
            return [
                {"Name": node, "Score": score}
                for node, score in zip(self.scores, normalized, strict=True)
            ]
        return None

    def _score(self, node: str) -> int:
        row = np.array([self.handle.nodes.row_of[node]], np.intp)
        self.scores[node] = int(self.plugin.score(self.pod, row)[0])
        self.node = max(self.scores, key=lambda one: self.scores[one])
        return self.scores[node]

    def _at(self, name: str) -> framework.Status:
        kind, _, node = name.partition("/")
        match kind:
            case "PreEnqueue":
                return self.plugin.pre_enqueue(self.pod)
            case "prefilter":
                result: framework.PreFilterResult = self.plugin.pre_filter(self.state, self.pod)
                return result.status
            case "filter":
                return self._filter(node)
            case "reserve":
                return self.plugin.reserve(self.state, self.pod, self.node)
            case "prebind":
                return self._pre_bind()
            case "postfilter":
                return self._post_filter()
            case "unreserveBeforePreBind" | "unreserverAfterBindFailure" | "unreserve":
                self.plugin.unreserve(self.state, self.pod)
        return framework.Status()

    def _filter(self, node: str) -> framework.Status:
        self.node = self.node or node
        if self.case.get("cancelFilter"):
            self.plugin._search.cancelled = lambda: "test canceling Filter"
        rows = np.array([self.handle.nodes.row_of[node]], np.intp)
        found: framework.FilterResult = self.plugin.filter(
            self.state, self.pod, rows, self.handle.nodes
        )
        assert found.codes is not None
        if not found.codes.any():
            return framework.Status()
        return found.describe(rows, found.codes)[0]

    def _post_filter(self) -> framework.Status:
        rows = self.handle.nodes.row_of
        statuses = {row: self._filter(name).by("DynamicResources") for name, row in rows.items()}
        diagnosis = framework.Diagnosis(len(rows), {r: s for r, s in statuses.items() if not s.ok})
        result: framework.PostFilterResult = self.plugin.post_filter(
            self.state, self.pod, diagnosis
        )
        if result.then is not None:
            result.then()
        return result.status

    def _pre_bind(self) -> framework.Status:
        answer = self.plugin.pre_bind(self.state, self.pod, self.node)
        while isinstance(answer, framework.PendingStatus):
            self.time += SECOND
            given = answer.status_at(self.time)
            if given is not None:
                return given
        return answer


def _shown(status: framework.Status) -> Plain:
    return {"code": status.code.value, "reasons": list(status.reasons)}


def _expected(status: Plain) -> Plain:
    return {"code": status.get("code", "Success"), "reasons": status.get("reasons") or []}


def _claims(claims: list[Plain]) -> list[Plain]:
    """Return claims without what is this run's own."""
    found = []
    for claim in sorted(copy.deepcopy(without_nulls(claims)), key=_claim_key):
        plain = msgspec.json.decode(msgspec.json.encode(msgspec.convert(claim, ResourceClaim)))
        meta = plain["metadata"]
        for name in ("uid", "resourceVersion", "creationTimestamp"):
            meta.pop(name, None)
        if meta.pop("generateName", None):
            meta["name"] = "(generated)"
        allocation = plain.get("status", {}).get("allocation", {})
        if TIMESTAMP in allocation:
            zero = allocation[TIMESTAMP] == ZERO_TIME
            allocation[TIMESTAMP] = "(zero)" if zero else "(set)"
        for result in allocation.get("devices", {}).get("results", ()):
            if "shareID" in result:
                result["shareID"] = "(random)"
        if not plain.get("status"):
            plain.pop("status", None)
        found.append(plain)
    return found


def _claim_key(claim: Plain) -> str:
    return str(claim["metadata"].get("generateName", claim["metadata"]["name"]))
