"""The scheduler's endpoints over real sockets: pages, and their authorization."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from policy_sched.errors import ClusterError
from policy_sched.instance.http import delegated_auth
from policy_sched.instance.http.endpoints import OPEN, Endpoints, Offered
from policy_sched.instance.http.listener import Listener
from tests.instance.app.test_embedded_instance import World, pod
from tests.shown import page

Plain = dict[str, Any]


@dataclass
class Door:
    """Knows tokens and the rights of their users; ``down``: reviews fail."""

    rights: dict[str, set[str]] = field(default_factory=dict)
    down: bool = False

    async def authenticate(self, authorization: str) -> delegated_auth.Caller | None:
        """Return the user of a token: its name."""
        if not authorization:
            return delegated_auth.ANONYMOUS
        name = authorization.removeprefix("Bearer ")
        return delegated_auth.Caller(name) if name in self.rights else None

    async def authorize(
        self, caller: delegated_auth.Caller, requested: delegated_auth.RequestAttributes
    ) -> delegated_auth.Permission:
        """Return whether the caller has the right."""
        if self.down:
            raise ClusterError("subjectaccessreviews.authorization.k8s.io is forbidden")
        wanted = f"{requested.verb} {requested.resource or requested.path}"
        allowed = wanted in self.rights.get(caller.name, ())
        return delegated_auth.Permission(allowed, "" if allowed else "no role says so")


EVERYTHING = {
    f"get {path}"
    for path in (
        *(
            "/",
            "/metrics",
            "/metrics/resources",
            "/metrics/slis",
            "/configz",
            "/policies",
            "/audits",
            "/version",
            "/nothing",
        ),
        *("/-/reload", "/explain/default/p", "/explain/default/big", "/explain/default/none"),
        *("/livez/ping", "/livez/none", "nodes", "pods"),
        *("/statusz", "/flagz", "/debug/flags/v", "/rollout", "/-/rollout/promote"),
    )
} | {"post /-/reload", "post /metrics", "post /explain/default/p", "put /debug/flags/v"}
EVERYTHING |= {f"head {what.removeprefix('get ')}" for what in EVERYTHING if what[:3] == "get"}


class Served:
    """An embedded instance whose endpoints are served."""

    def __init__(self, folder: Path) -> None:
        self.world = World(folder)
        self.world.files(p=pod("p"), big=pod("big", "64"))
        self.instance = self.world.start()
        while self.instance.scheduler.queue.active():  # a step may end before all is done
            self.instance.step()
        self.open_paths = OPEN
        self.door = Door({"admin": EVERYTHING, "tenant": {"get pods"}})

    async def reload(self) -> Any:
        """Reload as `Running` does."""
        return self.instance.reload(self.instance.reloader.store.prepare(), "http")

    def offered(self, **options: Any) -> Offered:
        """Return what the endpoints show of the instance."""
        return Offered(
            self.instance,
            self.reload,
            lambda: self.instance.reloader.store.current.settings,
            **options,
        )

    @asynccontextmanager
    async def session(self, door: Any = None) -> AsyncIterator[Callable[..., Awaitable[Plain]]]:
        """Serve; yield a function that sends a request and returns status, body and headers."""
        flags = {"secure-port": "10259", "bind-address": "::"}
        offered = self.offered(open_paths=self.open_paths, flags=flags)
        endpoints = Endpoints(offered, door or self.door)
        async with (
            Listener(endpoints.handle, ("127.0.0.1", 0), None) as listener,
            aiohttp.ClientSession() as client,
        ):

            async def ask(
                path: str, token: str = "", method: str = "GET", body: str = "", **headers: str
            ) -> Plain:
                if token:
                    headers["Authorization"] = f"Bearer {token}"
                url, named = listener.url + path, {k.replace("_", "-"): headers[k] for k in headers}
                data = body.encode() or None
                async with client.request(method, url, headers=named, data=data) as answer:
                    text = await answer.text()
                    return {"status": answer.status, "text": text, "headers": answer.headers}

            yield ask


@pytest.fixture
def served(tmp_path: Path) -> Served:
    """Endpoints of an instance that has bound one pod of two."""
    return Served(tmp_path)


def run_scenario(scenario: Callable[[], Any]) -> None:
    """Run a test."""
    asyncio.run(scenario())


def test_health_is_open_and_its_details_are_not(served: Served) -> None:
    """Probes send no token; the checks by name need one."""

    async def scenario() -> None:
        async with served.session() as ask:
            found = await ask("/healthz")
            assert (found["status"], found["text"]) == (200, "ok")
            found = await ask("/readyz?verbose&exclude=ping")
            assert found["text"] == (
                "[+]ping excluded: ok\n[+]shutdown ok\n[+]storage-readiness ok\n[+]inputs ok\n"
                "[+]policies ok\nreadyz check passed\n"
            )
            assert found["headers"]["Content-Type"] == "text/plain; charset=utf-8"
            assert (await ask("/livez/ping"))["status"] == 403
            assert (await ask("/livez/ping", "admin"))["text"] == "ok"
            assert (await ask("/livez/none", "admin"))["status"] == 404
            served.instance.stop()
            found = await ask("/readyz")
            assert found["status"] == 500
            assert "[-]shutdown failed: reason withheld\n" in found["text"]
            assert (await ask("/livez"))["status"] == 200
        (record,) = served.world.messages("readyz check failed")
        assert record["failed"] == "shutdown: process is shutting down"

    run_scenario(scenario)


def test_unauthenticated_and_unauthorized_callers_get_upstreams_messages(served: Served) -> None:
    """401 for an unknown token, 403 with name, verb, path and reason."""

    async def scenario() -> None:
        async with served.session() as ask:
            found = await ask("/metrics", "nobody")
            assert found["status"] == 401
            assert json.loads(found["text"]) == {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": "Unauthorized",
                "reason": "Unauthorized",
                "code": 401,
            }
            found = await ask("/metrics")
            assert found["status"] == 403
            body = json.loads(found["text"])
            assert body["message"] == (
                'forbidden: User "system:anonymous" cannot get path "/metrics": no role says so'
            )
            assert (body["reason"], body["details"]) == ("Forbidden", {})
            served.door.down = True
            found = await ask("/metrics", "admin")
            assert found["status"] == 500
            assert found["text"].startswith('Internal Server Error: "/metrics": subjectaccess')

    run_scenario(scenario)


@pytest.mark.parametrize("path", ["/configz", "/policies", "/audits", "/version", "/"])
def test_configuration_policies_and_version_are_json(served: Served, path: str) -> None:
    """Configuration, policies, version and the index."""

    async def scenario() -> None:
        async with served.session() as ask:
            found = await ask(path, "admin")
            assert found["status"] == 200
            assert found["headers"]["Content-Type"] == "application/json"
            assert isinstance(json.loads(found["text"]), dict)

    run_scenario(scenario)


def test_the_index_names_every_page(served: Served) -> None:
    """And an unknown path is not found, in Go's words."""

    async def scenario() -> None:
        async with served.session() as ask:
            paths = json.loads((await ask("/", "admin"))["text"])["paths"]
            assert {"/metrics", "/readyz/shutdown", "/explain/NAMESPACE/POD"} <= set(paths)
            found = await ask("/nothing", "admin")
            assert found["status"] == 404
            assert json.loads(found["text"])["reason"] == "NotFound"
            found = await ask("/metrics", "admin", "POST")
            assert (found["status"], found["headers"]["Allow"]) == (405, "GET, HEAD")

    run_scenario(scenario)


def test_metrics_are_prometheus_text(served: Served) -> None:
    """With its content type, and only the head of it for HEAD."""

    async def scenario() -> None:
        async with served.session() as ask:
            found = await ask("/metrics", "admin")
            kind = "text/plain; version=0.0.4; charset=utf-8"
            assert found["headers"]["Content-Type"] == kind
            assert 'scheduler_pending_pods{queue="unschedulable"} 1.0\n' in found["text"]
            found = await ask("/metrics/resources", "admin")
            assert found["headers"]["Content-Type"] == kind
            assert (
                'kube_pod_resource_request{namespace="default",node="a",pod="p",priority="0",'
                'resource="cpu",scheduler="default-scheduler",unit="cores"} 1.0\n'
            ) in found["text"]
            assert "kube_pod_resource_limit" not in found["text"]

    run_scenario(scenario)


def test_every_metric_is_in_the_documentation(served: Served) -> None:
    """Half of the metrics of /metrics stood nowhere; docs/operating.md has each with its labels."""
    documented = set(re.findall(r"`(\w+)`", page("docs/operating.md")))

    async def scenario() -> None:
        async with served.session() as ask:
            for path in ("/metrics", "/metrics/resources", "/metrics/slis"):
                text = (await ask(path, "admin"))["text"]
                exposed = set(re.findall(r"^# HELP (\w+)", text, re.MULTILINE))
                assert exposed
                assert exposed - documented == set()

    run_scenario(scenario)


def test_results_of_health_checks_are_counted(served: Served) -> None:
    """By check, path and status, as all components of Kubernetes do."""

    async def scenario() -> None:
        async with served.session() as ask:
            await ask("/readyz")
            served.instance.stop()
            await ask("/readyz")
            text = (await ask("/metrics/slis", "admin"))["text"]
            assert 'kubernetes_healthcheck{name="shutdown",type="readyz"} 0.0\n' in text
            total = "kubernetes_healthchecks_total"
            assert f'{total}{{name="shutdown",status="success",type="readyz"}} 1.0\n' in text
            assert f'{total}{{name="shutdown",status="error",type="readyz"}} 1.0\n' in text

    run_scenario(scenario)


def test_a_reload_returns_its_result(served: Served) -> None:
    """200 and an empty body if it succeeded; the problems, with their positions, if it failed."""

    async def scenario() -> None:
        async with served.session() as ask:
            found = await ask("/-/reload", "admin", "POST")
            assert (found["status"], found["text"]) == (200, "")
            served.world.policy("node.nam")
            found = await ask("/-/reload", "admin", "POST")
            assert found["status"] == 500
            assert found["text"].startswith("failed to reload config: ")
            assert "keep.yaml:6:" in found["text"]
            found = await ask("/-/reload", "admin")
            assert (found["status"], found["headers"]["Allow"]) == (405, "POST, PUT")
            assert (await ask("/-/reload", "tenant", "POST"))["status"] == 403

    run_scenario(scenario)


def test_a_waiting_pod_is_explained_in_full_to_callers_that_may_read_nodes(served: Served) -> None:
    """As text, or as JSON; no metric counts it as scheduling."""

    async def scenario() -> None:
        async with served.session() as ask:
            before = served.instance.metrics.text()
            found = await ask("/explain/default/big", "admin")
            assert found["text"].startswith("default/big fits on none of 2 nodes\n")
            found = await ask("/explain/default/big", "admin", Accept="application/json")
            reported = json.loads(found["text"])
            assert set(reported["rejections"]) == {"a", "b"}
            points = "scheduler_framework_extension_point_duration_seconds_count"
            assert lines(before, points) == lines(served.instance.metrics.text(), points)

    run_scenario(scenario)


def lines(text: str, name: str) -> list[str]:
    """Return the lines of a series."""
    return [line for line in text.splitlines() if line.startswith(name)]


def test_an_explanation_without_the_right_to_read_nodes_names_none(served: Served) -> None:
    """The number of nodes that each filter removes, and no node's name."""

    async def scenario() -> None:
        async with served.session() as ask:
            found = await ask("/explain/default/big", "tenant")
            assert found["status"] == 200
            assert found["text"].startswith("default/big fits on 0 of 2 nodes\n")
            assert "  NodeResourcesFit removes 2: 2 Insufficient cpu\n" in found["text"]
            found = await ask("/explain/default/big", "tenant", Accept="application/json")
            reported = json.loads(found["text"])
            assert reported["nodes"] == 2
            assert not {"rejections", "scores", "best", "alternatives"} & set(reported)
            assert (await ask("/explain/default/big"))["status"] == 403
            found = await ask("/explain/default/p", "tenant", Accept="application/json")
            assert json.loads(found["text"])["decided"]["why"] == ""

    run_scenario(scenario)


def test_an_explanation_without_the_right_to_read_nodes_names_the_gate(served: Served) -> None:
    """No node was evaluated then."""
    waiting = pod("gated").replace("spec: {", "spec: {schedulingGates: [{name: quota}], ")
    served.world.apply(gated=waiting)

    async def scenario() -> None:
        async with served.session() as ask:
            found = await ask("/explain/default/gated", "tenant")
            assert found["text"] == (
                "default/gated does not enter the queue: SchedulingGates keeps it out\n"
                "  waiting for scheduling gates: [quota]\n"
            )

    run_scenario(scenario)


def test_a_bound_pod_is_explained_by_its_recorded_decision(served: Served) -> None:
    """As long as the record is kept; an unknown pod is not found."""

    async def scenario() -> None:
        async with served.session() as ask:
            found = await ask("/explain/default/p", "admin")
            assert found["text"].startswith("default/p has a node: a\n  1 of 2 nodes fit")
            served.instance.log.last.clear()
            found = await ask("/explain/default/p", "admin")
            assert "too long ago" in found["text"]
            found = await ask("/explain/default/none", "admin")
            assert found["status"] == 404
            assert json.loads(found["text"])["message"] == "there is no pod default/none"
            assert (await ask("/explain/default/p", "admin", "POST"))["status"] == 405

    run_scenario(scenario)


def test_the_pod_of_another_scheduler_is_not_explained(served: Served) -> None:
    """The answer names its scheduler."""
    served.world.apply(q=pod("q", scheduler="another"))
    served.door.rights["admin"].add("get /explain/default/q")

    async def scenario() -> None:
        async with served.session() as ask:
            found = await ask("/explain/default/q", "admin")
            assert found["status"] == 404
            assert json.loads(found["text"])["message"].endswith(
                "does not wait here: the scheduler another decides"
            )

    run_scenario(scenario)


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 200), ({"Host": "evil.example:80"}, 403), ({"Origin": "https://evil.example"}, 403)],
)
def test_open_endpoints_serve_this_machine_only(
    served: Served, headers: dict[str, str], status: int
) -> None:
    """A web page of another origin cannot use a browser here."""

    async def scenario() -> None:
        async with served.session(delegated_auth.AlwaysAllow()) as ask:
            assert (await ask("/metrics", **headers))["status"] == status

    run_scenario(scenario)
