"""The endpoints of ``run``: behind reviews of an API server, or beside the embedded cluster."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import pytest

from policy_sched.cli.options.endpoints import EndpointFlags, _status_of, endpoints
from policy_sched.cli.options.kube_scheduler_flags import Overrides
from policy_sched.client.kube.auth import credentials as kube
from policy_sched.client.kube.auth.credentials import Fixed, bearer
from policy_sched.client.kube.auth.kubeconfig import load
from policy_sched.client.kube.rest.client import Api
from policy_sched.client.kube.rest.settings import ClientEnvironment, Settings
from policy_sched.client.kube.time.work_queue import Clocks
from policy_sched.embedded.apiserver.endpoints.server import ApiServer
from policy_sched.embedded.apiserver.security.authentication import kubeconfig
from policy_sched.embedded.cluster import EmbeddedCluster
from policy_sched.errors import ClusterError
from policy_sched.http.access import RBAC, Access, Address
from policy_sched.instance.app.cluster_instance import ClusterInstance
from policy_sched.instance.app.embedded_instance import EmbeddedInstance, Sources
from policy_sched.instance.app.run_loop import LONGEST_SLEEP, RunLoop
from policy_sched.instance.http.listener import self_signed
from policy_sched.instance.observability.log import Record
from policy_sched.profiles.reload.inputs import PolicyFiles
from policy_sched.profiles.reload.store import PolicyStore
from tests.instance.test_client_certificates import client_certificate

TOKENS = 'admin-token,admin,1,"system:masters"\nviewer-token,viewer,2,"watchers"\n'
READER: dict[str, Any] = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "metrics"},
    "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
}
BINDING: dict[str, Any] = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "metrics"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "metrics"},
    "subjects": [{"kind": "User", "name": "viewer", "apiGroup": "rbac.authorization.k8s.io"}],
}
POD = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c}]}}"
CLOCKS = Clocks(time.time_ns, time.monotonic_ns)
Ask = Callable[..., Awaitable[tuple[int, str]]]


@asynccontextmanager
async def asking(records: list[Record]) -> AsyncIterator[Ask]:
    """Yield what asks the endpoints that the last record names."""
    url = next(record["url"] for record in reversed(records) if "url" in record)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as client:

        async def ask(path: str, token: str = "", body: str = "") -> tuple[int, str]:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            method = "POST" if body else "GET"
            data = body.encode() or None
            async with client.request(method, url + path, headers=headers, data=data) as answer:
                return answer.status, await answer.text()

        yield ask


def test_an_api_server_decides_about_callers(tmp_path: Path, port: int) -> None:
    """By TokenReview and SubjectAccessReview; before the cluster is read we are not ready."""
    tokens = tmp_path / "tokens"
    tokens.write_text(TOKENS, encoding="utf-8")
    records: list[Record] = []

    async def story() -> None:
        cluster = EmbeddedCluster.open(None, time.time_ns)
        access = Access(tokens=str(tokens), mode=RBAC)
        async with ApiServer(cluster.store, Address("127.0.0.1", 0), access) as server:
            for thing in (READER, BINDING):
                cluster.apply(thing)
            grant = kube.Grant(bearer("admin-token"))
            there = kube.ClusterAccess(server.url, credentials=Fixed(grant))
            api = Api(there, ClientEnvironment(CLOCKS, Random(1)), Settings(qps=0))
            store = PolicyStore(PolicyFiles(None, ()), time.time_ns)
            instance = ClusterInstance(store, api, None, records.append)
            running = RunLoop(instance, lambda: None, LONGEST_SLEEP)
            reviewed = tmp_path / "kubeconfig"
            reviewed.write_text(kubeconfig(server.address, access, server.tokens), "utf-8")
            flags = EndpointFlags(
                bind_address="127.0.0.1",
                secure_port=0,
                authorization_kubeconfig=str(reviewed),
            )
            async with endpoints(flags, Access(), running, Overrides()):
                assert records[-1]["msg"] != "Serving securely"  # port 0 is off
            async with endpoints(replace(flags, secure_port=port), Access(), running, Overrides()):
                assert records[-1]["msg"] == "Serving securely"
                async with asking(records) as ask:
                    assert await ask("/livez") == (200, "ok")
                    status, text = await ask("/readyz")
                    assert status == 500
                    assert "[-]informer-sync failed: reason withheld\n" in text
                    assert (await ask("/metrics", "admin-token"))[0] == 200
                    assert (await ask("/metrics", "viewer-token"))[0] == 200
                    assert (await ask("/configz", "viewer-token"))[0] == 403
                    status, text = await ask("/metrics")
                    assert status == 403
                    assert 'User \\"system:anonymous\\" cannot get path' in text
                    assert (await ask("/metrics", "nobody"))[0] == 401
                    assert (await ask("/metrics/resources", "admin-token")) == (200, "")
                    status, text = await ask("/fit", "viewer-token", POD)
                    assert status == 403
                    assert 'User \\"viewer\\" cannot post path \\"/fit\\"' in text
                    status, text = await ask("/fit", "admin-token", POD)
                    assert (status, "has not been read yet" in text) == (503, True)
                    lease = json.loads((await ask("/configz", "admin-token"))[1])
                    assert lease["componentconfig"]["leaderElection"]["leaderElect"] is False
        cluster.close()

    asyncio.run(story())


def test_the_embedded_clusters_tokens_are_those_of_its_file(tmp_path: Path, port: int) -> None:
    """A request with a token may do everything; without a token file every request may."""
    tokens = tmp_path / "tokens"
    tokens.write_text(TOKENS, encoding="utf-8")
    records: list[Record] = []
    instance = EmbeddedInstance(Sources(PolicyFiles(None, ())), time.time_ns, records.append)
    running = RunLoop(instance, lambda: None, LONGEST_SLEEP)
    flags = EndpointFlags(bind_address="127.0.0.1", secure_port=port)

    async def story() -> None:
        access = Access(tokens=str(tokens))
        async with endpoints(flags, access, running, Overrides()), asking(records) as ask:
            assert (await ask("/policies", "viewer-token"))[0] == 200
            assert (await ask("/policies", "nobody"))[0] == 401
            assert (await ask("/policies"))[0] == 401
            assert await ask("/readyz") == (200, "ok")
        async with endpoints(flags, Access(), running, Overrides()), asking(records) as ask:
            assert records[-1]["msg"] == "Serving"
            assert (await ask("/policies"))[0] == 200

    asyncio.run(story())
    instance.close()


def test_beside_a_cluster_with_roles_they_decide_about_callers(tmp_path: Path, port: int) -> None:
    """Tokens of the file and of service accounts; nodes are named to users that may read nodes."""
    tokens = tmp_path / "tokens"
    tokens.write_text(TOKENS, encoding="utf-8")
    access = Access(tokens=str(tokens), mode=RBAC)
    records: list[Record] = []
    instance = EmbeddedInstance(Sources(PolicyFiles(None, ())), time.time_ns, records.append)
    running = RunLoop(instance, lambda: None, LONGEST_SLEEP)
    flags = EndpointFlags(bind_address="127.0.0.1", secure_port=port)
    where = Address("127.0.0.1", 0)
    issued = "/api/v1/namespaces/default/serviceaccounts/watcher/token"
    watcher = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "watcher"}}

    async def story() -> None:
        async with (
            ApiServer(instance.cluster.store, where, access) as server,
            endpoints(flags, access, running, Overrides()),
            asking(records) as ask,
            aiohttp.ClientSession(headers={"Authorization": "Bearer admin-token"}) as client,
        ):
            instance.cluster.apply(watcher)
            request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
            async with client.post(server.url + issued, json=request) as answer:
                account = (await answer.json())["status"]["token"]
            assert (await ask("/metrics", "viewer-token"))[0] == 403
            for thing in (READER, BINDING):
                instance.cluster.apply(thing)
            assert (await ask("/metrics", "viewer-token"))[0] == 200
            status, text = await ask("/policies", "viewer-token")
            assert status == 403
            assert 'User \\"viewer\\" cannot get path \\"/policies\\"' in text
            assert (await ask("/explain/default/web", "viewer-token"))[0] == 403
            assert (await ask("/explain/default/web", "admin-token"))[0] == 404
            assert "system:serviceaccount:default:watcher" in (await ask("/policies", account))[1]
            assert "system:anonymous" in (await ask("/policies"))[1]
            assert (await ask("/policies", "nobody"))[0] == 401
            assert (await ask("/policies", "admin-token"))[0] == 200

    asyncio.run(story())
    instance.close()


def test_beyond_loopback_nothing_goes_in_the_clear(tmp_path: Path, port: int) -> None:
    """Tokens are for a server that others cannot listen to."""
    tokens = tmp_path / "tokens"
    tokens.write_text(TOKENS, encoding="utf-8")
    records: list[Record] = []
    instance = EmbeddedInstance(Sources(PolicyFiles(None, ())), time.time_ns, records.append)
    running = RunLoop(instance, lambda: None, LONGEST_SLEEP)
    flags = EndpointFlags(bind_address="0.0.0.0", secure_port=port)

    async def story() -> None:
        async with endpoints(flags, Access(tokens=str(tokens)), running, Overrides()):
            assert records[-1]["msg"] == "Serving securely"
            assert records[-1]["url"].startswith("https://")

    asyncio.run(story())
    instance.close()


def test_certificates_of_clients_guard_the_endpoints(tmp_path: Path, port: int) -> None:
    """`--serve --client-ca-file --secure-port` guarded the API, and let everybody reload."""
    authority = tmp_path / "clients.pem"
    authority.write_bytes(client_certificate("ann", "ops"))
    files = tmp_path / "tls.crt", tmp_path / "tls.key"
    for file, content in zip(files, self_signed(["127.0.0.1"], time.time_ns()), strict=True):
        file.write_bytes(content)
    records: list[Record] = []
    instance = EmbeddedInstance(Sources(PolicyFiles(None, ())), time.time_ns, records.append)
    running = RunLoop(instance, lambda: None, LONGEST_SLEEP)
    clients = str(authority)
    flags = EndpointFlags(bind_address="127.0.0.1", secure_port=port, client_ca_file=clients)
    shown = ssl.create_default_context(cafile=str(files[0]))
    shown.load_cert_chain(authority)

    async def story() -> None:
        # With and without the API beside it, which is what tells of the authority otherwise.
        for access in (Access(*map(str, files)), Access(*map(str, files), clients=clients)):
            async with endpoints(flags, access, running, Overrides()), asking(records) as ask:
                assert (await ask("/policies"))[0] == 401
                assert (await ask("/policies", "guess"))[0] == 401
                assert await ask("/healthz") == (200, "ok")
                url = f"https://127.0.0.1:{port}/policies"
                async with (
                    aiohttp.ClientSession() as client,
                    client.get(url, ssl=shown) as answer,
                ):
                    assert answer.status == 200

    asyncio.run(story())
    instance.close()


def test_an_api_that_is_open_to_all_opens_nothing_beyond_loopback(
    tmp_path: Path, port: int
) -> None:
    """`run --kubeconfig` of an API without credentials listened on 0.0.0.0, and let all in."""
    records: list[Record] = []
    config = tmp_path / "kubeconfig"

    async def story() -> None:
        cluster = EmbeddedCluster.open(None, time.time_ns)
        async with ApiServer(cluster.store, Address("127.0.0.1", 0)) as server:
            config.write_text(kubeconfig(server.address, Access(), None), "utf-8")
            api = Api(load([config], CLOCKS), ClientEnvironment(CLOCKS, Random(1)), Settings(qps=0))
            store = PolicyStore(PolicyFiles(None, ()), time.time_ns)
            instance = ClusterInstance(store, api, None, records.append)
            running = RunLoop(instance, lambda: None, LONGEST_SLEEP)
            flags = EndpointFlags(secure_port=port)
            async with endpoints(flags, Access(), running, Overrides()), asking(records) as ask:
                assert records[-1]["url"] == f"https://127.0.0.1:{port}"
                assert (await ask("/metrics"))[0] == 200
            everywhere = replace(flags, bind_address="0.0.0.0")
            async with (
                endpoints(everywhere, Access(), running, Overrides()),
                asking(records) as ask,
            ):
                assert records[-1]["url"] == f"https://0.0.0.0:{port}"
                status, text = await ask("/metrics")
                assert (status, "requires no credentials" in text) == (403, True)
                assert await ask("/livez") == (200, "ok")
        cluster.close()

    asyncio.run(story())
    assert any("requires no credentials" in record["msg"] for record in records)


def test_a_certificate_that_is_replaced_is_shown(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next connection gets the new one; a file that is no certificate changes nothing."""
    monkeypatch.setattr("policy_sched.cli.options.endpoints.REREAD", 0.01)
    records: list[Record] = []
    instance = EmbeddedInstance(Sources(PolicyFiles(None, ())), time.time_ns, records.append)
    running = RunLoop(instance, lambda: None, LONGEST_SLEEP)
    flags = EndpointFlags(bind_address="127.0.0.1", secure_port=port)
    files = tmp_path / "tls.crt", tmp_path / "tls.key"

    def put(pair: tuple[bytes, bytes]) -> bytes:
        for file, content in zip(files, pair, strict=True):
            file.write_bytes(content)
        return pair[0]

    async def shown() -> bytes:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return ssl.DER_cert_to_PEM_cert(der).encode()

    async def said(message: str) -> None:
        async with asyncio.timeout(60):
            while not any(record["msg"] == message for record in records):
                await asyncio.sleep(0.01)

    async def story() -> None:
        first = put(self_signed(["one"], time.time_ns()))
        access = Access(str(files[0]), str(files[1]))
        async with endpoints(flags, access, running, Overrides()):
            assert await shown() == first
            second = put(self_signed(["two"], time.time_ns()))
            await said("The endpoints have another certificate")
            assert await shown() == second
            put((b"nonsense", b"nonsense"))
            await said("The endpoints keep their certificate")
            assert await shown() == second

    asyncio.run(story())
    instance.close()


@pytest.mark.parametrize("answer", [b"", b"[]", b"{}", b'{"status": 7}'])
def test_an_answer_that_is_no_review_is_refused(answer: bytes) -> None:
    """It grants no access."""
    with pytest.raises(ClusterError, match="of another form"):
        _status_of(answer)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"secure_port": 70000}, "--secure-port 70000: must be between 0 and 65535"),
        ({"tls_min_version": "SSLv3"}, "must be VersionTLS12 or VersionTLS13"),
        (
            {"authentication_token_webhook_cache_ttl": "soon"},
            "--authentication-token-webhook-cache-ttl: 'soon' is not a duration",
        ),
    ],
)
def test_flags_that_cannot_be_are_refused(flags: dict[str, Any], words: str) -> None:
    """When they are read."""
    with pytest.raises(ClusterError, match=words):
        EndpointFlags(**flags)


@pytest.mark.parametrize(
    ("flags", "access", "words"),
    [
        (EndpointFlags("0.0.0.0", 1), Access(), "that needs --token-auth-file"),
        (EndpointFlags(secure_port=1, client_ca_file="x"), Access(), "needs --tls-cert-file"),
        (EndpointFlags(secure_port=1), Access("/none", "/none"), "/none: cannot be read"),
    ],
)
def test_what_may_not_be_served_is_refused(
    flags: EndpointFlags, access: Access, words: str
) -> None:
    """Before anything listens."""
    instance = EmbeddedInstance(Sources(PolicyFiles(None, ())), time.time_ns, lambda _record: None)
    running = RunLoop(instance, lambda: None, LONGEST_SLEEP)

    async def story() -> None:
        async with endpoints(flags, access, running, Overrides()):
            pass

    with pytest.raises(ClusterError, match=words):
        asyncio.run(story())
    instance.close()
