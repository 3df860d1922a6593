"""kubectl as operators use it: users and rights, server-side apply, draining, explaining."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from policy_sched.embedded.apiserver.security.authentication import kubeconfig
from policy_sched.http.access import Access
from tests.embedded.apiserver.endpoints.test_write import deployment
from tests.embedded.apiserver.test_kubectl import KUBECTL, Kubectl, words
from tests.embedded.apiserver.world import PODS, pod, serving
from tests.embedded.world import node

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="no kubectl")


@pytest.fixture(scope="module")
def access(tmp_path_factory: pytest.TempPathFactory) -> Access:
    """TLS, a master and another user, and RBAC: kubectl sends no token without TLS."""
    folder = tmp_path_factory.mktemp("tls")
    key, cert, tokens = (folder / name for name in ("key.pem", "cert.pem", "tokens.csv"))
    tokens.write_text('admin-token,admin,1,system:masters\njane-token,jane,2,"dev,ops"\n')
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-subj", "/CN=localhost", "-days", "1", "-keyout", str(key)]
    command += ["-out", str(cert), "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no openssl to make a certificate with")
    return Access(str(cert), str(key), str(tokens), "RBAC")


def test_users_and_their_rights(access: Access, tmp_path: Path) -> None:
    """``auth whoami`` and ``can-i``, ``--as``, roles, and the token of a service account."""

    async def run() -> None:
        async with serving(access) as world:
            kubectl = Kubectl(world, tmp_path)
            text = kubeconfig(world.server.address, access, world.server.tokens)
            kubectl.config.write_text(text, encoding="utf-8")
            attributes = dict(line.split(maxsplit=1) for line in (
                await kubectl("auth", "whoami")
            ).splitlines()[1:])  # fmt: skip
            assert attributes == {
                "Username": "admin", "UID": "1", "Groups": "[system:masters system:authenticated]",
            }  # fmt: skip
            jane = ("--as=jane", "--as-group=dev")
            await kubectl("auth", "can-i", "get", "pods", *jane, fails=True)
            role = ("role", "reader", "--verb=get,list,watch", "--resource=pods")
            await kubectl("create", *role)
            await kubectl("create", "rolebinding", "dev", "--role=reader", "--group=dev")
            assert (await kubectl("auth", "can-i", "list", "pods", *jane)).strip() == "yes"
            listed = await kubectl("auth", "can-i", "--list", *jane)
            assert "[get list watch]" in listed
            refused = await kubectl("get", "nodes", *jane, fails=True)
            assert refused == (
                'Error from server (Forbidden): nodes is forbidden: User "jane" cannot list'
                ' resource "nodes" in API group "" at the cluster scope\n'
            )
            await kubectl("create", "serviceaccount", "s")
            token = (await kubectl("create", "token", "s")).strip()
            config = json.loads(text)
            config["users"][0]["user"] = {"token": token}
            kubectl.config.write_text(json.dumps(config), encoding="utf-8")
            assert "system:serviceaccount:default:s" in await kubectl("auth", "whoami")

    asyncio.run(run())


def test_server_side_apply_keeps_managers_apart(tmp_path: Path) -> None:
    """A conflict names the field's manager; managers are shown only on request."""
    file = tmp_path / "web.json"
    data = deployment("web")
    data["spec"]["replicas"] = 1
    file.write_text(json.dumps(data), encoding="utf-8")

    async def run() -> None:
        async with serving() as world:
            kubectl = Kubectl(world, tmp_path)
            apply = ("apply", "--server-side", "-f", str(file))
            assert "serverside-applied" in await kubectl(*apply)
            await kubectl("scale", "deployment/web", "--replicas=0")
            refused = await kubectl(*apply, fails=True)
            assert 'conflict with "kubectl" with subresource "scale" using apps/v1' in refused
            assert ".spec.replicas" in refused
            assert "serverside-applied" in await kubectl(*apply, "--force-conflicts")
            get = ("get", "deployment", "web", "-o", "json")
            assert "managedFields" not in json.loads(await kubectl(*get))["metadata"]
            shown = json.loads(await kubectl(*get, "--show-managed-fields"))
            managers = {entry["manager"] for entry in shown["metadata"]["managedFields"]}
            assert managers == {"kubectl"}
            assert await kubectl("diff", "--server-side", "-f", str(file)) == ""

    asyncio.run(run())


def test_a_node_is_drained_as_budgets_allow(tmp_path: Path) -> None:
    """Evictions that a budget forbids are tried again, in the API server's words."""

    async def run() -> None:
        async with serving() as world:
            kubectl = Kubectl(world, tmp_path)
            await world.create("/api/v1/nodes", node("n"))
            await world.create(PODS, pod("p", app="web"))
            target = {"kind": "Node", "name": "n"}
            await world.create(f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": target})
            world.cluster.step()
            world.clock.advance(10**9)
            world.cluster.step()
            await kubectl("create", "pdb", "b", "--selector=app=web", "--min-available=1")
            await kubectl("taint", "node", "n", "a=b:NoSchedule")
            for patience in ("1s", "5s", "30s"):  # a busy machine may not come so far in one
                drain = ("drain", "n", "--force", f"--timeout={patience}")
                refused = await kubectl(*drain, fails=True)
                if "disruption budget" in refused:
                    break
            assert "would violate the pod's disruption budget" in refused
            assert "will retry after" in refused
            rows = words(await kubectl("get", "node", "n"))
            assert rows[1][1] == "Ready,SchedulingDisabled"
            await kubectl("uncordon", "n")
            jsonpath = "--for=jsonpath={.spec.taints[0].key}=a"
            assert "condition met" in await kubectl("wait", jsonpath, "node/n", "--timeout=60s")

    asyncio.run(run())


def test_explain_works_and_typing_errors_are_reported(tmp_path: Path) -> None:
    """``explain``, field validation, logs without a kubelet, metrics that are not there."""
    file = tmp_path / "pod.json"
    data = {**pod("p"), "spec": {**pod("p")["spec"], "nodSelector": {"a": "b"}}}
    file.write_text(json.dumps(data), encoding="utf-8")

    async def run() -> None:
        async with serving() as world:
            kubectl = Kubectl(world, tmp_path)
            assert "nodeName <string>" in await kubectl("explain", "pod.spec.nodeName")
            refused = await kubectl("apply", "-f", str(file), fails=True)
            assert 'strict decoding error: unknown field "spec.nodSelector"' in refused
            await world.create(PODS, pod("p"))
            refused = await kubectl("logs", "p", fails=True)
            assert "pod p does not have a host assigned" in refused
            assert "Metrics API not available" in await kubectl("top", "nodes", fails=True)
            assert words(await kubectl("get", "pods", "--chunk-size=1"))[1][0] == "p"

    asyncio.run(run())
