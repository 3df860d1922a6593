"""kubectl against the server; skipped where there is none."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from policy_sched.embedded.apiserver.security.authentication import kubeconfig
from policy_sched.http.access import Access
from tests.embedded.apiserver.endpoints.test_write import deployment
from tests.embedded.apiserver.world import World, serving
from tests.embedded.world import node

KUBECTL = shutil.which("kubectl")
pytestmark = pytest.mark.skipif(KUBECTL is None, reason="no kubectl")


class Kubectl:
    """Runs kubectl with a kubeconfig of its own."""

    def __init__(self, world: World, folder: Path) -> None:
        self.config = folder / "config"
        text = kubeconfig(world.server.address, Access(), None)
        self.config.write_text(text, encoding="utf-8")
        self.folder = folder
        self.path = "/usr/bin"

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        """Start kubectl."""
        assert KUBECTL is not None
        environment = {"HOME": str(self.folder), "KUBECONFIG": str(self.config), "PATH": self.path}
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            KUBECTL, *arguments, stdout=pipe, stderr=pipe, env=environment
        )

    async def __call__(self, *arguments: str, fails: bool = False) -> str:
        """Run kubectl; return what it prints."""
        process = await self.start(*arguments)
        out, errors = await process.communicate()
        assert (process.returncode != 0) is fails, errors.decode()
        return errors.decode() if fails else out.decode()


def words(text: str) -> list[list[str]]:
    """Return the words of each line."""
    return [line.split() for line in text.splitlines()]


def test_kubectl_applies_gets_patches_scales_and_deletes(tmp_path: Path) -> None:
    """Tables, changes and deletions as on any cluster."""
    file = tmp_path / "web.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [
        node("n"), deployment("web"),
    ]}), encoding="utf-8")  # fmt: skip

    async def run() -> None:
        async with serving() as world:
            kubectl = Kubectl(world, tmp_path)
            assert words(await kubectl("apply", "-f", str(file))) == [
                ["node/n", "created"],
                ["deployment.apps/web", "created"],
            ]
            assert "deployment.apps/web unchanged" in await kubectl("apply", "-f", str(file))
            patch = '{"metadata": {"labels": {"x": "y"}}}'
            assert "patched" in await kubectl("patch", "deployment", "web", "-p", patch)
            assert "scaled" in await kubectl("scale", "deployment/web", "--replicas=3")
            heads, row = words(await kubectl("get", "deploy", "-l", "x=y"))
            assert heads == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
            assert row[:2] == ["web", "0/3"]
            pods = words(await kubectl("get", "pods", "-o", "wide"))
            assert pods[0][:5] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
            assert [row[2] for row in pods[1:]] == ["Pending"] * 3
            assert "3 desired" in await kubectl("describe", "deploy", "web")
            assert "cordoned" in await kubectl("cordon", "n")
            assert words(await kubectl("get", "nodes"))[1][:2] == ["n", "Ready,SchedulingDisabled"]
            assert "deleted" in await kubectl("delete", "-f", str(file))
            missing = await kubectl("get", "deploy", "web", fails=True)
            assert missing == 'Error from server (NotFound): deployments.apps "web" not found\n'

    asyncio.run(run())


def test_kubectl_shows_components_and_api_services(tmp_path: Path) -> None:
    """Scripts that look at a cluster's health with ``kubectl get cs`` had no such resource."""

    async def run() -> None:
        async with serving() as world:
            kubectl = Kubectl(world, tmp_path)
            heads, *rows = words(await kubectl("get", "cs"))
            assert heads == ["NAME", "STATUS", "MESSAGE", "ERROR"]
            names = ["controller-manager", "etcd-0", "scheduler"]
            assert rows == [[name, "Healthy", "ok"] for name in names]
            world.cluster.store.storage.write_error = lambda: "disk is full"  # type: ignore[method-assign]
            path = "jsonpath={.conditions[0].status} {.conditions[0].error}"
            assert await kubectl("get", "cs", "etcd-0", "-o", path) == "False disk is full"
            heads, *rows = words(await kubectl("get", "apiservices"))
            assert heads == ["NAME", "SERVICE", "AVAILABLE", "AGE"]
            assert ["v1.apps", "Local", "True", "<unknown>"] in rows
            versions = (await kubectl("api-versions")).split()
            served = {f"{version}.{group}" for group, _, version in
                      (item.rpartition("/") for item in versions)}  # fmt: skip
            assert {row[0] for row in rows} == served
            refusal = await kubectl("delete", "apiservice", "v1.apps", fails=True)
            assert "the server does not allow this method" in refusal
            assert "not found" in await kubectl("get", "cs", "etcd-1", fails=True)

    asyncio.run(run())


def test_kubectl_watches(tmp_path: Path) -> None:
    """Each change is a line."""

    async def run() -> None:
        async with serving() as world:
            kubectl = Kubectl(world, tmp_path)
            process = await kubectl.start("get", "nodes", "-w")
            assert process.stdout is not None
            await world.create("/api/v1/nodes", node("a"))
            assert (await process.stdout.readline()).split()[0] == b"NAME"
            assert (await process.stdout.readline()).split()[:2] == [b"a", b"Ready"]
            await world.create("/api/v1/nodes", node("b"))
            assert (await process.stdout.readline()).split()[:2] == [b"b", b"Ready"]
            process.kill()
            await process.communicate()

    asyncio.run(run())


def test_roll_outs_have_a_history(tmp_path: Path) -> None:
    """Each template is a revision, and one can go back to the last."""
    file = tmp_path / "web.json"
    file.write_text(json.dumps(deployment("web")), encoding="utf-8")

    async def run() -> None:
        async with serving() as world:
            kubectl = Kubectl(world, tmp_path)
            await kubectl("apply", "-f", str(file))
            await kubectl("set", "env", "deploy/web", "A=1")
            history = words(await kubectl("rollout", "history", "deploy/web"))
            assert [row[0] for row in history[2:] if row] == ["1", "2"]
            await kubectl("rollout", "undo", "deploy/web")
            history = words(await kubectl("rollout", "history", "deploy/web"))
            assert [row[0] for row in history[2:] if row] == ["2", "3"]
            shown = json.loads(await kubectl("get", "deploy", "web", "-o", "json"))
            assert "env" not in shown["spec"]["template"]["spec"]["containers"][0]
            assert shown["spec"]["strategy"]["type"] == "RollingUpdate"

    asyncio.run(run())


CREATED = [
    ("namespace", "shop"),
    ("serviceaccount", "s"),
    ("configmap", "c", "--from-literal=a=b"),
    ("secret", "generic", "g", "--from-literal=a=b"),
    ("role", "r", "--verb=get", "--resource=pods,deployments.apps"),
    ("rolebinding", "b", "--role=r", "--user=jane", "--serviceaccount=default:s"),
    ("clusterrole", "u", "--verb=get", "--non-resource-url=/metrics"),
    ("clusterrole", "a", "--aggregation-rule=a=b"),
    ("clusterrolebinding", "b", "--clusterrole=u", "--group=dev"),
    ("deployment", "web", "--image=nginx", "--replicas=0", "--port=80"),
    ("job", "j", "--image=busybox", "--", "echo", "hi"),
    ("cronjob", "j", "--image=busybox", "--schedule=*/1 * * * *", "--", "date"),
    ("service", "nodeport", "web", "--tcp=80:8080"),
    ("ingress", "i", "--rule=foo.com/bar=web:80,tls=x"),
    ("quota", "q", "--hard=cpu=1,pods=2"),
    ("poddisruptionbudget", "p", "--selector=app=web", "--min-available=50%"),
    ("priorityclass", "high", "--value=100", "--description=x"),
]


def _covers(printed: object, wanted: object) -> bool:
    """Tell whether a stored object has all that was sent, but for what is empty."""
    if isinstance(wanted, dict) and isinstance(printed, dict):
        return all(_covers(printed.get(k), v) for k, v in wanted.items() if v not in (None, {}, ""))
    if isinstance(wanted, list) and isinstance(printed, list):
        return len(printed) == len(wanted) and all(map(_covers, printed, wanted))
    return printed == wanted


def test_what_kubectl_sends_as_protobuf_is_what_it_shows_as_json(tmp_path: Path) -> None:
    """Each of its ``create`` commands, against its own dry run."""

    async def run() -> None:
        async with serving() as world:
            kubectl = Kubectl(world, tmp_path)

            async def same(command: tuple[str, ...]) -> bool:
                index = command.index("--") if "--" in command else len(command)
                shown = (*command[:index], "-o", "json", "--dry-run=client", *command[index:])
                created = (*command[:index], "-o", "json", *command[index:])
                both = await asyncio.gather(kubectl("create", *shown), kubectl("create", *created))
                wanted, actual = map(json.loads, both)
                wanted.pop("status", None)
                return _covers(actual, wanted)

            assert all(await asyncio.gather(*map(same, CREATED)))
            token = await kubectl("create", "token", "s")
            assert token.count(".") == 2
            rows = words(await kubectl("get", "rolebinding,ingress,quota,sa", "-o", "wide"))
            assert rows[1][:2] == ["rolebinding.rbac.authorization.k8s.io/b", "Role/r"]
            assert rows[4][2:5] == ["foo.com", "80,", "443"]

    asyncio.run(run())


JOB = {
    "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
    "spec": {"template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "a"}],
    }}},
}  # fmt: skip
WEB = {
    "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
    "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}},
}  # fmt: skip


@pytest.mark.parametrize("given", [JOB, WEB, deployment("web")])
def test_what_was_applied_by_the_client_is_applied_by_the_server(
    tmp_path: Path, given: dict[str, object]
) -> None:
    """The second server-side apply of a Job dropped the selector that the server had given it."""
    file = tmp_path / "given.json"
    file.write_text(json.dumps(given), encoding="utf-8")

    async def run() -> None:
        async with serving() as world:
            kubectl = Kubectl(world, tmp_path)
            assert "created" in await kubectl("apply", "-f", str(file))
            for _ in range(2):
                process = await kubectl.start("apply", "--server-side", "-f", str(file))
                out, errors = await process.communicate()
                assert (process.returncode, errors) == (0, b""), errors
                assert b"serverside-applied" in out

    asyncio.run(run())


def test_kubectl_debug_adds_a_container(tmp_path: Path) -> None:
    """The subresource ephemeralcontainers was not there."""

    async def run() -> None:
        async with serving() as world:
            kubectl = Kubectl(world, tmp_path)
            await kubectl("run", "p", "--image=a")
            for name in ("one", "two"):
                options = ("--image=b", f"--container={name}", "--attach=false")
                await kubectl("debug", "p", "--profile=general", *options)
            names = "jsonpath={.spec.ephemeralContainers[*].name}"
            assert await kubectl("get", "pod", "p", "-o", names) == "one two"

    asyncio.run(run())
