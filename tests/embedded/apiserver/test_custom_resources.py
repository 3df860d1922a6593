"""Custom resources over HTTP: definitions, objects, versions, subresources, and what is hostile."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from policy_sched.client.apimachinery.object import Key
from policy_sched.embedded.cluster import EmbeddedCluster
from policy_sched.testing import FakeClock
from tests.embedded.apiserver.security.guarded import RBAC, binding, guarded, make, role, rule, user
from tests.embedded.apiserver.world import World, serving
from tests.embedded.schema.crds import NAMES, SHIRT, definition, shirt, version
from tests.embedded.world import START

Plain = dict[str, Any]
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAME = "shirts.stable.example.com"
SHIRTS = "/apis/stable.example.com/v1/namespaces/default/shirts"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def run(test: Any) -> None:
    """Run a test in a world that serves shirts."""

    async def main() -> None:
        async with serving() as world:
            await world.create(CRDS, definition())
            await test(world)

    asyncio.run(main())


async def until_gone(world: World, path: str) -> None:
    """Let steps happen until nothing is under a path."""
    for _ in range(200):
        if (await world.ask("GET", path))[0] == 404:
            return
    raise AssertionError(f"{path} stays")


def test_objects_are_created_read_changed_and_deleted() -> None:
    """Requests for objects of a definition were answered with 404."""

    async def test(world: World) -> None:
        made = await world.create(SHIRTS, shirt(size=4))
        assert made["spec"] == {"color": "red", "size": 4, "replicas": 1}
        assert made["metadata"]["generation"] == 1
        status, refusal = await world.ask("POST", SHIRTS, shirt("t", color="green"))
        assert (status, refusal["reason"]) == (422, "Invalid")
        assert refusal["message"] == (
            'Shirt.stable.example.com "t" is invalid: spec.color: Unsupported value: "green":'
            ' supported values: "red", "blue"'
        )
        status, refusal = await world.ask("POST", SHIRTS, shirt("A_b", size="x"))
        fields = [cause["field"] for cause in refusal["details"]["causes"]]
        assert fields == ["metadata.name", "spec.size"]
        changed = {**made, "spec": {**made["spec"], "color": "blue"}}
        status, updated = await world.ask("PUT", f"{SHIRTS}/s", changed)
        assert (status, updated["metadata"]["generation"]) == (200, 2)
        status, patched = await world.ask(
            "PATCH", f"{SHIRTS}/s", {"metadata": {"labels": {"x": "y"}}}, type=MERGE
        )
        assert (status, patched["metadata"]["generation"]) == (200, 2)
        strategic = "application/strategic-merge-patch+json"
        assert (await world.ask("PATCH", f"{SHIRTS}/s", {}, type=strategic))[0] == 415
        status, gone = await world.ask("DELETE", f"{SHIRTS}/s")
        assert (status, gone["status"]) == (200, "Success")
        assert (await world.ask("GET", f"{SHIRTS}/s"))[0] == 404

    run(test)


def test_unknown_fields_are_pruned_or_refused_as_asked() -> None:
    """kubectl asks for strict validation, other clients for none."""

    async def test(world: World) -> None:
        odd = shirt(color="red", colour="x")
        made = await world.create(SHIRTS, odd)
        assert "colour" not in made["spec"]
        odd["metadata"]["name"] = "t"
        status, refusal = await world.ask("POST", f"{SHIRTS}?fieldValidation=Strict", odd)
        assert status == 400
        assert refusal["message"] == (
            'Shirt in version "v1" cannot be handled as a Shirt: strict decoding error: unknown'
            ' field "spec.colour"'
        )
        schema = {**SHIRT, "propertys": {}}
        wrong = definition(version(schema=schema), names={"plural": "shorts", "kind": "Shorts"})
        status, refusal = await world.ask("POST", f"{CRDS}?fieldValidation=Strict", wrong)
        at = "spec.versions[0].schema.openAPIV3Schema.propertys"
        assert f'strict decoding error: unknown field "{at}"' in refusal["message"]

    run(test)


def test_lists_pages_selectors_and_watches() -> None:
    """A controller lists and watches; selectableFields may be selected by."""

    async def test(world: World) -> None:
        fields = {"selectableFields": [{"jsonPath": ".spec.color"}]}
        stored = (await world.ask("GET", f"{CRDS}/{NAME}"))[1]
        stored["spec"]["versions"][0] |= fields
        assert (await world.ask("PUT", f"{CRDS}/{NAME}", stored))[0] == 200
        for name, color in (("a", "red"), ("b", "blue"), ("c", "red")):
            await world.create(SHIRTS, shirt(name, color=color))
        status, page = await world.ask("GET", f"{SHIRTS}?limit=2")
        assert (status, page["kind"], len(page["items"])) == (200, "ShirtList", 2)
        assert page["items"][0]["kind"] == "Shirt"
        more = f"{SHIRTS}?limit=2&continue={page['metadata']['continue']}"
        assert [
            item["metadata"]["name"] for item in (await world.ask("GET", more))[1]["items"]
        ] == ["c"]
        red = f"{SHIRTS}?fieldSelector=spec.color%3Dred"
        assert len((await world.ask("GET", red))[1]["items"]) == 2
        status, refusal = await world.ask("GET", f"{SHIRTS}?fieldSelector=spec.size%3D1")
        assert (status, refusal["message"]) == (400, "field label not supported: spec.size")
        async with world.watch(red) as lines:
            seen = [(await anext(lines))["object"]["metadata"]["name"] for _ in range(2)]
            assert seen == ["a", "c"]
            await world.ask("PATCH", f"{SHIRTS}/b", {"spec": {"color": "red"}}, type=MERGE)
            event = await anext(lines)
            assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "b")

    run(test)


def test_status_and_scale_are_apart() -> None:
    """The generation rises with the specification alone."""

    async def test(world: World) -> None:
        scale = {
            "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        }  # fmt: skip
        stored = (await world.ask("GET", f"{CRDS}/{NAME}"))[1]
        stored["spec"]["versions"][0]["subresources"]["scale"] = scale
        assert (await world.ask("PUT", f"{CRDS}/{NAME}", stored))[0] == 200
        made = await world.create(SHIRTS, {**shirt(), "status": {"replicas": 9}})
        assert "status" not in made
        state = {**made, "spec": {"color": "blue"}, "status": {"replicas": 2, "selector": "a=b"}}
        status, updated = await world.ask("PUT", f"{SHIRTS}/s/status", state)
        assert (status, updated["spec"]["color"]) == (200, "red")
        assert updated["metadata"]["generation"] == 1
        wrong = {"status": {"replicas": "2"}}
        status, refusal = await world.ask("PATCH", f"{SHIRTS}/s/status", wrong, type=MERGE)
        assert 'status.replicas in body must be of type integer: "string"' in refusal["message"]
        status, shown = await world.ask("GET", f"{SHIRTS}/s/scale")
        assert (shown["spec"], shown["status"]) == (
            {"replicas": 1},
            {"replicas": 2, "selector": "a=b"},
        )
        shown["spec"]["replicas"] = 5
        status, scaled = await world.ask("PUT", f"{SHIRTS}/s/scale", shown)
        assert (status, scaled["spec"]) == (200, {"replicas": 5})
        stored = (await world.ask("GET", f"{SHIRTS}/s"))[1]
        assert (stored["spec"]["replicas"], stored["metadata"]["generation"]) == (5, 2)

    run(test)


def test_columns_are_those_of_the_definition() -> None:
    """kubectl showed names and times."""

    async def test(world: World) -> None:
        stored = (await world.ask("GET", f"{CRDS}/{NAME}"))[1]
        await world.create(SHIRTS, shirt(limits={"b": 1, "a": 2}))
        _, table = await world.ask("GET", SHIRTS, accept=TABLE)
        assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Age"]
        stored["spec"]["versions"][0]["additionalPrinterColumns"] = [
            {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Limits", "type": "string", "jsonPath": ".spec.limits"},
            {"name": "None", "type": "integer", "jsonPath": ".spec.color"},
        ]
        assert (await world.ask("PUT", f"{CRDS}/{NAME}", stored))[0] == 200
        _, table = await world.ask("GET", SHIRTS, accept=TABLE)
        assert table["rows"][0]["cells"] == ["s", "red", 3, '{"a":2,"b":1}', None]
        assert table["columnDefinitions"][1]["priority"] == 1

    run(test)


def test_applied_files_have_managers() -> None:
    """Lists of list type map are merged by their keys."""

    async def test(world: World) -> None:
        mine = shirt(parts=[{"name": "a", "count": 1}])
        yours = {**shirt(), "spec": {"color": "red", "parts": [{"name": "b", "count": 2}]}}
        path = f"{SHIRTS}/s?fieldManager="
        assert (await world.ask("PATCH", f"{path}me", mine, type=APPLY))[0] == 201
        status, both = await world.ask("PATCH", f"{path}you", yours, type=APPLY)
        assert (status, both["spec"]["parts"]) == (
            200,
            [{"name": "a", "count": 1}, {"name": "b", "count": 2}],
        )
        yours["spec"]["parts"].append({"name": "a", "count": 7})
        status, refusal = await world.ask("PATCH", f"{path}you", yours, type=APPLY)
        assert status == 409
        assert refusal["message"] == (
            'Apply failed with 1 conflict: conflict with "me": .spec.parts[name="a"].count'
        )
        less = {**mine, "spec": {"color": "red"}}
        _, left = await world.ask("PATCH", f"{path}me", less, type=APPLY)
        assert left["spec"]["parts"] == [{"name": "b", "count": 2}]

    run(test)


def test_versions_differ_in_what_they_show() -> None:
    """A definition with several versions stores one of them, and serves all that it says."""

    async def test(world: World) -> None:
        await world.create(SHIRTS, shirt(size=4))
        small = {"type": "object", "properties": {"spec": {
            "type": "object", "properties": {"color": {"type": "string"}},
        }}}  # fmt: skip
        stored = (await world.ask("GET", f"{CRDS}/{NAME}"))[1]
        (first,) = stored["spec"]["versions"]
        beta = version("v2beta1", storage=True, schema=small, deprecated=True)
        hidden = version("v0", storage=False, served=False)
        stored["spec"]["versions"] = [{**first, "storage": False}, beta, hidden]
        status, changed = await world.ask("PUT", f"{CRDS}/{NAME}", stored)
        assert (status, changed["status"]["storedVersions"]) == (200, ["v1", "v2beta1"])
        path = SHIRTS.replace("/v1/", "/v2beta1/")
        _, shown = await world.ask("GET", f"{path}/s")
        assert (shown["apiVersion"], shown["spec"]) == (
            "stable.example.com/v2beta1", {"color": "red"},
        )  # fmt: skip
        _, group = await world.ask("GET", "/apis/stable.example.com")
        assert [item["version"] for item in group["versions"]] == ["v1", "v2beta1"]
        assert (await world.ask("GET", SHIRTS.replace("/v1/", "/v0/")))[0] == 404
        url = f"{world.url}{path}/s"
        async with world.session.get(url) as answer:
            assert answer.headers["Warning"] == (
                '299 - "stable.example.com/v2beta1 Shirt is deprecated"'
            )
        stored = changed
        stored["spec"]["versions"] = [beta]
        status, refusal = await world.ask("PUT", f"{CRDS}/{NAME}", stored)
        assert (
            "missing from spec.versions; v1 was previously a storage version" in refusal["message"]
        )

    run(test)


def test_a_schema_changes_under_existing_objects() -> None:
    """Objects of an earlier schema are shown pruned and complete, and can be changed."""

    async def test(world: World) -> None:
        await world.create(SHIRTS, shirt(label="abc", size=9))
        stored = (await world.ask("GET", f"{CRDS}/{NAME}"))[1]
        schema = stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        fields = schema["properties"]["spec"]["properties"]
        del fields["label"]
        fields["size"]["maximum"] = 3
        fields["new"] = {"type": "string", "default": "x"}
        assert (await world.ask("PUT", f"{CRDS}/{NAME}", stored))[0] == 200
        _, shown = await world.ask("GET", f"{SHIRTS}/s")
        assert shown["spec"] == {"color": "red", "size": 9, "replicas": 1, "new": "x"}
        labels = {"metadata": {"labels": {"x": "y"}}}
        assert (await world.ask("PATCH", f"{SHIRTS}/s", labels, type=MERGE))[0] == 200
        worse = {"spec": {"size": 8}}
        status, refusal = await world.ask("PATCH", f"{SHIRTS}/s", worse, type=MERGE)
        assert (status, refusal["reason"]) == (422, "Invalid")

    run(test)


def test_a_definition_takes_its_objects_with_it() -> None:
    """Objects stayed behind that no request could reach."""

    async def test(world: World) -> None:
        kept = shirt("kept")
        kept["metadata"]["finalizers"] = ["example.com/wait"]
        await world.create(SHIRTS, kept)
        await world.create(SHIRTS, shirt("free"))
        status, going = await world.ask("DELETE", f"{CRDS}/{NAME}")
        assert status == 200
        said = {
            condition["type"]: (condition["status"], condition["reason"])
            for condition in going["status"]["conditions"]
        }
        assert said["Terminating"] == ("True", "InstanceDeletionInProgress")
        await until_gone(world, f"{SHIRTS}/free")
        status, refusal = await world.ask("POST", SHIRTS, shirt("late"))
        assert (status, refusal["message"]) == (
            405, "create not allowed while custom resource definition is terminating",
        )  # fmt: skip
        free = {"metadata": {"finalizers": None}}
        assert (await world.ask("PATCH", f"{SHIRTS}/kept", free, type=MERGE))[0] == 200
        await until_gone(world, f"{CRDS}/{NAME}")
        assert (await world.ask("GET", SHIRTS))[0] == 404
        groups = (await world.ask("GET", "/apis"))[1]["groups"]
        assert "stable.example.com" not in [condition["name"] for condition in groups]

    run(test)


def test_names_that_are_free_again_are_accepted() -> None:
    """A definition whose names another one had waited for ever."""

    async def test(world: World) -> None:
        second = definition(names={"plural": "shorts", "kind": "Shorts", "shortNames": ["sh"]})
        made = await world.create(CRDS, second)
        assert made["status"]["conditions"][0]["status"] == "False"
        await world.ask("DELETE", f"{CRDS}/{NAME}")
        await until_gone(world, f"{CRDS}/{NAME}")
        for _ in range(100):
            _, stored = await world.ask("GET", f"{CRDS}/shorts.stable.example.com")
            if stored["status"]["conditions"][0]["status"] == "True":
                break
        assert [condition["status"] for condition in stored["status"]["conditions"]] == [
            "True",
            "True",
        ]

    run(test)


def test_namespaces_and_owners_hold_custom_objects_too() -> None:
    """They stayed in a namespace that was deleted, and after their owner."""

    async def test(world: World) -> None:
        await world.create("/api/v1/namespaces", {"metadata": {"name": "n"}})
        path = SHIRTS.replace("/default/", "/n/")
        inside = shirt()
        inside["metadata"]["namespace"] = "n"
        await world.create(path, inside)
        owner = await world.create(SHIRTS, shirt("owner"))
        reference = {
            "apiVersion": "stable.example.com/v1", "kind": "Shirt", "name": "owner",
            "uid": owner["metadata"]["uid"],
        }  # fmt: skip
        owned = {"metadata": {"name": "owned", "ownerReferences": [reference]}}
        maps = "/api/v1/namespaces/default/configmaps"
        await world.create(maps, owned)
        await world.ask("DELETE", "/api/v1/namespaces/n")
        await until_gone(world, "/api/v1/namespaces/n")
        assert (await world.ask("GET", f"{maps}/owned"))[0] == 200
        await world.ask("DELETE", f"{SHIRTS}/owner")
        await until_gone(world, f"{maps}/owned")

    run(test)


def test_discovery_and_the_description_have_them() -> None:
    """kubectl finds resources by discovery, and explains fields by the OpenAPI document."""

    async def test(world: World) -> None:
        _, listed = await world.ask("GET", "/apis/stable.example.com/v1")
        (body, status) = listed["resources"]
        assert (body["shortNames"], body["categories"], body["singularName"]) == (
            ["sh"], ["all"], "shirt",
        )  # fmt: skip
        assert status["name"] == "shirts/status"
        form = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        _, aggregated = await world.ask("GET", "/apis", accept=form)
        if isinstance(aggregated, str):
            aggregated = json.loads(aggregated)
        assert aggregated["items"][-1]["metadata"]["name"] == "stable.example.com"
        _, described = await world.ask("GET", "/openapi/v3/apis/stable.example.com/v1")
        schema = described["components"]["schemas"]["com.example.stable.v1.Shirt"]
        kind = {"group": "stable.example.com", "kind": "Shirt", "version": "v1"}
        assert schema["x-kubernetes-group-version-kind"] == [kind]
        assert schema["properties"]["spec"] == SHIRT["properties"]["spec"]

    run(test)


def test_custom_objects_survive_a_restart(tmp_path: Path) -> None:
    """Definitions were kept, and their objects could not be read."""
    clock, path = FakeClock(START), str(tmp_path / "data.db")
    first = EmbeddedCluster.open(path, clock)
    first.store.create(definition())
    first.store.create(shirt(size=4))
    first.close()
    second = EmbeddedCluster.open(path, clock)
    assert second.store.set_aside == {}
    kept = second.store.get(("stable.example.com/v1", "Shirt"), "default", "s")
    assert kept.data["spec"]["size"] == 4
    second.store.delete(Key(kept.resource.key, *kept.namespaced_name))
    second.close()


def test_a_definition_of_an_earlier_release_is_judged_anew(tmp_path: Path) -> None:
    """Files hold definitions that nothing had checked."""
    clock, path = FakeClock(START), str(tmp_path / "data.db")
    first = EmbeddedCluster.open(path, clock)
    good, bad = definition(), definition(version(schema={}), names={"plural": "xs", "kind": "X"})
    for data in (good, bad):
        stored = first.store.create(definition(names={**data["spec"]["names"], "shortNames": []}))
        plain = stored.data
        first.store.revise(stored, {**plain, "spec": data["spec"], "status": {}})
    first.close()
    second = EmbeddedCluster.open(path, clock)
    second.step()
    assert [kind.name for kind in second.store.custom] == [NAME]
    crd = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    (said,) = [
        condition
        for condition in second.store.get(crd, "", "xs.stable.example.com").data["status"][
            "conditions"
        ]
        if condition["type"] == "NonStructuralSchema"
    ]
    assert (said["status"], said["reason"]) == ("True", "Violations")
    assert "must not be empty at the root" in said["message"]
    second.close()


def test_rbac_holds_for_custom_resources(tmp_path: Path) -> None:
    """Roles name custom resources like all others."""

    async def main() -> None:
        async with guarded(tmp_path) as world:
            await make(world, CRDS, definition())
            await make(world, SHIRTS, shirt())
            reads = role("reader", rule("get", "shirts", "stable.example.com"))
            await make(world, f"{RBAC}/clusterroles", reads)
            gives = binding("jane-reads", "ClusterRole", "reader", user("jane"))
            await make(world, f"{RBAC}/clusterrolebindings", gives)
            assert (await world.ask("GET", f"{SHIRTS}/s", token="jane-token"))[0] == 200
            assert (await world.ask("DELETE", f"{SHIRTS}/s", token="jane-token"))[0] == 403
            status, refusal = await world.ask("GET", f"{SHIRTS}/s", token="joe-token")
            assert status == 403
            assert refusal["message"] == (
                'shirts.stable.example.com "s" is forbidden: User "joe" cannot get resource'
                ' "shirts" in API group "stable.example.com" in the namespace "default"'
            )

    asyncio.run(main())


def test_hostile_definitions_are_refused_and_the_server_lives_on() -> None:
    """Recursion, thousands of fields and deep schemas: each is refused, or served in good time."""

    async def test(world: World) -> None:
        def with_spec(spec: Plain, plural: str) -> Plain:
            schema = {"type": "object", "properties": {"spec": spec}}
            names = {"plural": plural, "kind": plural.capitalize()}
            return definition(version(schema=schema), names=names)

        recursive = with_spec({"$ref": "#/properties/spec"}, "recs")
        status, refusal = await world.ask("POST", CRDS, recursive)
        assert (status, "$ref is not supported" in refusal["message"]) == (422, True)
        many = {f"f{i}": {"type": "string"} for i in range(20_001)}
        status, _ = await world.ask(
            "POST", CRDS, with_spec({"type": "object", "properties": many}, "manys")
        )
        assert status == 413
        wide = {f"f{i}": {"type": "string"} for i in range(9_000)}
        await world.create(CRDS, with_spec({"type": "object", "properties": wide}, "wides"))
        path = SHIRTS.replace("shirts", "wides")
        spec = {f"f{i}": "x" for i in range(9_000)}
        body = {"apiVersion": "stable.example.com/v1", "kind": "Wides", "metadata": {"name": "w"}}
        await world.create(path, {**body, "spec": spec})
        deep: Plain = {"type": "object"}
        for _ in range(300):
            deep = {"type": "object", "properties": {"a": deep}}
        status, refusal = await world.ask("POST", CRDS, with_spec(deep, "deeps"))
        assert (status, "exceeded max depth" in refusal["message"]) == (400, True)
        pattern = {"type": "string", "pattern": "(a{1000}){1000}"}
        status, refusal = await world.ask("POST", CRDS, with_spec(pattern, "patterns"))
        assert (status, "must be a valid regular expression" in refusal["message"]) == (422, True)
        slow = {"type": "string", "pattern": "^(a+)+$"}
        await world.create(CRDS, with_spec(slow, "slows"))
        body = {**body, "kind": "Slows", "spec": "a" * 100_000 + "b"}
        status, refusal = await world.ask("POST", SHIRTS.replace("shirts", "slows"), body)
        assert (status, refusal["reason"]) == (422, "Invalid")
        enum = {"type": "string", "enum": [f"v{i}" for i in range(15_000)]}
        await world.create(CRDS, with_spec(enum, "enums"))
        assert (await world.ask("GET", f"{SHIRTS}"))[0] == 200

    run(test)


def test_pod_groups_follow_a_definition_once_there_is_one() -> None:
    """Coscheduling's groups are served without a definition; theirs was stored to no effect."""

    async def test(world: World) -> None:
        path = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"
        group = {"metadata": {"name": "g"}, "spec": {"minMember": 2}}
        made = await world.create(path, group)
        spec = {"type": "object", "properties": {"minMember": {"type": "integer", "minimum": 1}}}
        schema = {"type": "object", "properties": {"spec": spec}}
        names = {"plural": "podgroups", "kind": "PodGroup"}
        versions = version("v1alpha1", schema=schema, subresources={})
        await world.create(CRDS, definition(versions, group="scheduling.x-k8s.io", names=names))
        for name, given in (("g", made), ("h", group)):
            wrong = {**given, "spec": {"minMember": 0}}
            wrong["metadata"] = {**given["metadata"], "name": name}
            verb, target = ("PUT", f"{path}/g") if name == "g" else ("POST", path)
            status, refusal = await world.ask(verb, target, wrong)
            assert (status, "greater than or equal to 1" in refusal["message"]) == (422, True)
        assert len(world.cluster.store.select(("scheduling.x-k8s.io/v1alpha1", "PodGroup"))) == 1

    run(test)


def test_definitions_of_built_in_kinds_change_nothing() -> None:
    """What the server has itself is not replaced."""

    async def test(world: World) -> None:
        names = {"plural": "leases", "kind": "Lease"}
        data = definition(group="coordination.k8s.io", names=names)
        data["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved"}
        await world.create(CRDS, data)
        path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
        lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}
        made = await world.create(path, lease)
        assert made["spec"] == {"holderIdentity": "me"}
        assert NAMES["kind"] == "Shirt"

    run(test)
