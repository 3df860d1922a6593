"""Validating webhooks: which requests they review, what they see, and whose word counts."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from policy_sched.http import Bounds, Connections, Site
from policy_sched.instance.http.listener import self_signed, server_context
from tests.embedded.apiserver.test_kubectl import KUBECTL, Kubectl
from tests.embedded.apiserver.world import PODS, World, pod, serving
from tests.embedded.schema.crds import definition, shirt, version

Plain = dict[str, Any]
PATH = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
MAPS = "/api/v1/namespaces/default/configmaps"
BOUNDS = Bounds(10, 2**16, 64, 2**22, 30.0, 30.0)
MERGE = "application/merge-patch+json"
ANSWER: Plain = {"allowed": True}


class Hook:
    """A webhook on this machine: what it was asked, and what it answers."""

    def __init__(self) -> None:
        self.asked: list[Plain] = []
        self.answer: Callable[[Plain], Plain] = lambda _: dict(ANSWER)
        self.raw: Callable[[Plain], web.Response] | None = None
        self.meanwhile: Callable[[], None] = lambda: None
        self.url = self.bundle = self.deaf = ""
        self.silent: list[asyncio.StreamWriter] = []

    async def handle(self, request: web.BaseRequest) -> web.Response:
        """Answer a review."""
        review = json.loads(await request.read())
        self.asked.append(review["request"])
        self.meanwhile()
        if self.raw is not None:
            return self.raw(review)
        response = {"uid": review["request"]["uid"], **self.answer(review["request"])}
        head = {"apiVersion": review["apiVersion"], "kind": review["kind"]}
        return web.json_response({**head, "response": response})


@asynccontextmanager
async def hooked() -> AsyncIterator[tuple[World, Hook]]:
    """Serve a cluster, and a webhook beside it."""
    hook = Hook()
    certificate, key = self_signed(["localhost", "127.0.0.1"], time.time_ns())
    hook.bundle = base64.b64encode(certificate).decode()
    context = server_context(certificate, key)
    site = Site(Connections(hook.handle, BOUNDS), ("127.0.0.1", 0), context)
    deaf = await asyncio.start_server(lambda _, writer: hook.silent.append(writer), "127.0.0.1", 0)
    async with serving() as world, site, deaf:
        hook.deaf = f"https://127.0.0.1:{deaf.sockets[0].getsockname()[1]}/x"
        hook.url = f"https://127.0.0.1:{site.port}/validate"
        yield world, hook
        for writer in hook.silent:
            writer.close()


def configuration(hook: Hook, name: str = "maps", **given: Any) -> Plain:
    """Return a configuration of one webhook, about configuration maps unless another is given."""
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["*"],
        "resources": ["configmaps"],
    }
    webhook = {
        "name": f"{name}.example.com",
        "clientConfig": {"url": hook.url, "caBundle": hook.bundle},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **given,
    }
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    return {**head, "kind": "ValidatingWebhookConfiguration", "webhooks": [webhook]}


def config_map(name: str = "m", **data: str) -> Plain:
    """Return a configuration map."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def played(play: Callable[[World, Hook], Any]) -> None:
    """Run a test."""

    async def run() -> None:
        async with asyncio.timeout(60), hooked() as (world, hook):
            await play(world, hook)

    asyncio.run(run())


def test_a_webhook_sees_what_would_be_stored_and_its_word_counts() -> None:
    """Created, patched, replaced, applied, deleted: as they are to be and as they were."""

    async def play(world: World, hook: Hook) -> None:
        made = await world.create(PATH, configuration(hook))
        assert made["webhooks"][0]["failurePolicy"] == "Fail"
        assert made["webhooks"][0]["timeoutSeconds"] == 10
        await world.create(MAPS, config_map(a="1"))
        await world.ask("PATCH", f"{MAPS}/m", {"data": {"a": "2"}}, type=MERGE)
        await world.ask("PUT", f"{MAPS}/m", config_map(a="3"))
        apply = json.dumps(config_map(b="4")).encode()
        path = f"{MAPS}/m?fieldManager=me&force=true"
        status, _ = await world.ask("PATCH", path, apply, type="application/apply-patch+yaml")
        assert status == 200
        await world.ask("DELETE", f"{MAPS}/m")
        assert [asked["operation"] for asked in hook.asked] == [
            "CREATE", "UPDATE", "UPDATE", "UPDATE", "DELETE",
        ]  # fmt: skip
        first, second, *_, last = hook.asked
        assert first["object"]["data"] == {"a": "1"}
        assert first["object"]["metadata"]["uid"]
        assert (first["oldObject"], first["name"], first["namespace"]) == (None, "m", "default")
        assert (second["oldObject"]["data"], second["object"]["data"]) == ({"a": "1"}, {"a": "2"})
        assert (last["object"], last["oldObject"]["data"]) == (None, {"a": "3", "b": "4"})
        assert first["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
        assert first["userInfo"]["username"] == "system:unsecured"
        assert [asked["dryRun"] for asked in hook.asked] == [False] * 5

    played(play)


def test_a_refusal_has_upstreams_words_and_changes_nothing() -> None:
    """The message, the reason and the code of the webhook; warnings come along."""

    async def play(world: World, hook: Hook) -> None:
        await world.create(PATH, configuration(hook))
        said = {"code": 422, "reason": "Invalid", "message": "no\nno"}
        hook.answer = lambda _: {"allowed": False, "status": said, "warnings": ["w"]}
        status, body = await world.ask("POST", MAPS, config_map())
        assert (status, body["reason"], body["message"]) == (
            422, "Invalid", 'admission webhook "maps.example.com" denied the request: no\nno',
        )  # fmt: skip
        assert (await world.ask("GET", f"{MAPS}/m"))[0] == 404
        hook.answer = lambda _: {"allowed": False}
        status, body = await world.ask("POST", MAPS, config_map())
        said_so = 'admission webhook "maps.example.com" denied the request without explanation'
        assert (status, body["message"]) == (400, said_so)
        await world.create(PODS, pod("p"))  # other resources are not reviewed
        hook.answer = lambda _: {"allowed": True, "warnings": ["mind the gap"]}
        async with world.session.post(world.url + MAPS, json=config_map()) as answer:
            assert answer.headers["Warning"] == '299 - "mind the gap"'

    played(play)


def test_a_dry_run_is_reviewed_and_stores_nothing() -> None:
    """kubectl diff and --dry-run=server find what an apply would find."""

    async def play(world: World, hook: Hook) -> None:
        await world.create(PATH, configuration(hook))
        status, _ = await world.ask("POST", f"{MAPS}?dryRun=All", config_map())
        assert status == 201
        assert hook.asked[0]["dryRun"] is True
        hook.answer = lambda _: {"allowed": False}
        status, _ = await world.ask("POST", f"{MAPS}?dryRun=All", config_map())
        assert status == 400
        assert (await world.ask("GET", f"{MAPS}/m"))[0] == 404

    played(play)


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("uid", 'received invalid webhook response: expected response.uid="'),
        ("json", "received invalid webhook response: it is no JSON"),
        ("status", "the server answered with 500"),
        ("slow", "context deadline exceeded"),
        ("gone", "failed to call webhook: Post"),
        ("trust", "certificate"),
        ("service", 'service "s" of namespace "n" has no address here'),
        ("elsewhere", "example.org is another machine"),
    ],
)
def test_a_webhook_that_fails_counts_by_its_policy(policy: str, how: str, words: str) -> None:
    """Fail refuses with the reason; Ignore lets the object in."""

    async def play(world: World, hook: Hook) -> None:
        given: Plain = {"failurePolicy": policy, "timeoutSeconds": 1}
        if how == "uid":
            hook.answer = lambda _: {"allowed": True, "uid": "x"}
        elif how == "json":
            hook.raw = lambda _: web.Response(text="no")
        elif how == "status":
            hook.raw = lambda _: web.Response(status=500)
        elif how == "gone":
            given["clientConfig"] = {"url": "https://127.0.0.1:9/x", "caBundle": hook.bundle}
        elif how == "trust":
            given["clientConfig"] = {"url": hook.url}
        elif how == "service":
            given["clientConfig"] = {"service": {"name": "s", "namespace": "n"}}
        elif how == "elsewhere":
            given["clientConfig"] = {"url": "https://example.org/x"}
        else:
            given["clientConfig"] = {"url": hook.deaf, "caBundle": hook.bundle}
        await world.create(PATH, configuration(hook, **given))
        status, body = await world.ask("POST", MAPS, config_map())
        if policy == "Ignore":
            assert status == 201
        else:
            assert (status, body["reason"]) == (500, "InternalError")
            start = 'Internal error occurred: failed calling webhook "maps.example.com": '
            assert body["message"].startswith(start)
            assert words in body["message"]

    played(play)


def test_selectors_choose_by_labels_of_objects_and_namespaces() -> None:
    """What is not chosen is not asked about."""

    async def play(world: World, hook: Hook) -> None:
        chosen = {"matchLabels": {"team": "a"}}
        await world.create(PATH, configuration(hook, objectSelector=chosen))
        await world.create(MAPS, config_map("other"))
        labelled = config_map("mine")
        labelled["metadata"]["labels"] = {"team": "a"}
        await world.create(MAPS, labelled)
        assert [asked["name"] for asked in hook.asked] == ["mine"]
        removed = {"metadata": {"labels": None}}  # the object as it was is chosen
        await world.ask("PATCH", f"{MAPS}/mine", removed, type=MERGE)
        assert len(hook.asked) == 2
        spaces = {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}
        changed = configuration(hook, namespaceSelector=spaces)
        await world.ask("PUT", f"{PATH}/maps", changed)
        await world.create(MAPS, config_map("third"))
        await world.create(MAPS.replace("default", "kube-system"), config_map("fourth"))
        assert [asked["name"] for asked in hook.asked[2:]] == ["fourth"]

    played(play)


def test_an_object_that_changes_meanwhile_is_reviewed_again() -> None:
    """What is stored is what was reviewed."""

    async def play(world: World, hook: Hook) -> None:
        await world.create(MAPS, config_map(a="1"))
        await world.create(PATH, configuration(hook))
        store, turns = world.cluster.store, iter(range(1))

        def meddle() -> None:
            for _ in turns:
                stored = store.get(("v1", "ConfigMap"), "default", "m")
                store.patch(stored.key, {"data": {"b": "meanwhile"}})

        hook.meanwhile = meddle
        status, body = await world.ask("PATCH", f"{MAPS}/m", {"data": {"a": "2"}}, type=MERGE)
        assert (status, body["data"]) == (200, {"a": "2", "b": "meanwhile"})
        assert [asked["object"]["data"] for asked in hook.asked] == [
            {"a": "2"},
            {"a": "2", "b": "meanwhile"},
        ]

    played(play)


def test_configurations_of_webhooks_are_reviewed_by_none() -> None:
    """One that refuses everything can be deleted."""

    async def play(world: World, hook: Hook) -> None:
        everything = {k: ["*"] for k in ("apiGroups", "apiVersions", "operations", "resources")}
        await world.create(PATH, configuration(hook, rules=[everything]))
        hook.answer = lambda _: {"allowed": False}
        assert (await world.ask("POST", MAPS, config_map()))[0] == 400
        assert (await world.ask("DELETE", f"{PATH}/maps"))[0] == 200
        assert (await world.ask("POST", MAPS, config_map()))[0] == 201

    played(play)


def test_many_deletions_are_reviewed_one_by_one() -> None:
    """One that is refused refuses all, and nothing is deleted."""

    async def play(world: World, hook: Hook) -> None:
        for name in "ab":
            await world.create(MAPS, config_map(name))
        await world.create(PATH, configuration(hook))
        hook.answer = lambda request: {"allowed": request["name"] != "b"}
        status, body = await world.ask("DELETE", MAPS)
        assert (status, "denied the request" in body["message"]) == (400, True)
        names = {asked["oldObject"]["metadata"]["name"] for asked in hook.asked}
        assert names >= {"a", "b"}
        assert len((await world.ask("GET", MAPS))[1]["items"]) >= 2
        hook.answer = lambda _: dict(ANSWER)
        assert (await world.ask("DELETE", f"{MAPS}?labelSelector=x%3Dy"))[0] == 200
        assert (await world.ask("DELETE", MAPS))[0] == 200
        assert (await world.ask("GET", f"{MAPS}/b"))[0] == 404

    played(play)


@pytest.mark.parametrize("policy", ["Equivalent", "Exact"])
def test_a_custom_kind_is_reviewed_in_the_version_that_a_rule_names(policy: str) -> None:
    """A request to another version is no way around a webhook, unless it matches exactly."""

    async def play(world: World, hook: Hook) -> None:
        data = definition(version("v1"), version("v2", storage=False))
        await world.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", data)
        rule = {
            "apiGroups": ["stable.example.com"],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["shirts", "shirts/status"],
            "scope": "Namespaced",
        }
        await world.create(PATH, configuration(hook, rules=[rule], matchPolicy=policy))
        made = {**shirt(), "apiVersion": "stable.example.com/v2"}
        path = "/apis/stable.example.com/v2/namespaces/default/shirts"
        await world.create(path, made)
        if policy == "Exact":
            assert not hook.asked
            return
        (asked,) = hook.asked
        assert asked["object"]["apiVersion"] == "stable.example.com/v1"
        assert (asked["kind"]["version"], asked["requestKind"]["version"]) == ("v1", "v2")
        assert asked["object"]["spec"]["size"] == 3  # defaults are filled in
        await world.ask("PATCH", f"{path}/s/status", {"status": {"replicas": 1}}, type=MERGE)
        assert hook.asked[1]["subResource"] == "status"

    played(play)


WRONG: list[tuple[Plain, str]] = [
    ({"name": "short"}, "webhooks[0].name: Invalid value: \"short\": should be a domain with at"),
    ({"sideEffects": None}, "webhooks[0].sideEffects: Required value: must specify one of None,"),
    ({"sideEffects": "Some"}, 'sideEffects: Unsupported value: "Some": supported values: "None"'),
    ({"timeoutSeconds": 31}, "the timeout value must be between 1 and 30 seconds"),
    ({"admissionReviewVersions": []}, "admissionReviewVersions: Required value: must specify one"),
    ({"matchConditions": [{"name": "a", "expression": "true"}]},
     "matchConditions: Forbidden: conditions are not evaluated by this API server"),
    ({"clientConfig": {}}, "clientConfig: Required value: exactly one of url or service"),
    ({"clientConfig": {"url": "http://a/b"}}, "'https' is the only allowed URL scheme"),
    ({"clientConfig": {"url": "https://u:p@a/b"}}, "user information is not permitted in the URL"),
    ({"clientConfig": {"service": {"name": "a"}}}, "service.namespace: Required value"),
    ({"objectSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
     'webhooks[0].objectSelector: Invalid value: '),
    ({"rules": [{"operations": ["*"]}]}, "webhooks[0].rules[0].apiGroups: Required value"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "words"), WRONG, ids=lambda value: str(value)[:40])
def test_a_wrong_configuration_is_refused(given: Plain, words: str) -> None:
    """With kube-apiserver's words; what is not evaluated here is refused, not ignored."""

    async def play(world: World, hook: Hook) -> None:
        data = configuration(hook)
        data["webhooks"][0] |= given
        status, body = await world.ask("POST", PATH, data)
        assert (status, words in body["message"]) == (422, True), body["message"]

    played(play)


@pytest.mark.skipif(KUBECTL is None, reason="no kubectl")
def test_kubectl_prints_the_refusal(tmp_path: Path) -> None:
    """As of a webhook on any cluster; apply, both ways, and a dry run."""

    async def play(world: World, hook: Hook) -> None:
        kubectl = Kubectl(world, tmp_path)
        for name, data in (("hook", configuration(hook)), ("map", config_map(a="1"))):
            (tmp_path / f"{name}.json").write_text(json.dumps(data), encoding="utf-8")
        await kubectl("apply", "-f", str(tmp_path / "hook.json"))
        file = str(tmp_path / "map.json")
        hook.answer = lambda _: {"allowed": False, "status": {"message": "not today"}}
        for how in ((), ("--server-side",), ("--dry-run=server",)):
            refused = await kubectl("apply", *how, "-f", file, fails=True)
            assert 'admission webhook "maps.example.com" denied the request: not today' in refused
        hook.answer = lambda _: {"allowed": True}
        assert "created" in await kubectl("apply", "-f", file)

    played(play)
