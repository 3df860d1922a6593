"""Bodies in YAML: read as the JSON that they stand for, within bounds.

Fields that a kind does not have: refused, warned of, or let pass, as a request asks for.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from policy_sched.client.apimachinery.resources import ApiError
from policy_sched.embedded.apiserver.endpoints.negotiation import YAML, YAML_BYTES, yaml_data
from policy_sched.model.messages import path_text, texts, unknown_fields
from tests.embedded.apiserver.test_applying import APPLY
from tests.embedded.apiserver.world import JSON, PODS, pod, serving


def test_yaml_creates_objects() -> None:
    """As with ``curl --data-binary @pod.yaml``."""
    body = (
        b"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"
        b"spec:\n  containers:\n  - {name: c, image: i}\n"
    )

    async def run() -> None:
        async with serving() as world:
            status, made = await world.ask("POST", PODS, body, type=YAML)
            assert (status, made["spec"]["containers"][0]["name"]) == (201, "c")
            status, answer = await world.ask("POST", PODS, b"a: [", type=YAML)
            assert (status, "error converting YAML to JSON" in answer["message"]) == (400, True)

    asyncio.run(run())


def test_json_is_yaml_too() -> None:
    """And so are YAML's own braces."""
    assert yaml_data(b'{"a": [1]}', "X") == {"a": [1]}
    assert yaml_data(b"{a: [1]}", "X") == {"a": [1]}


BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "\n".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join([f'*{chr(97 + i)}'] * 10)}]" for i in range(8)
)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", 400),
        (b"a: 1\n---\nb: 2\n", 400),
        (b"\xff", 400),
        (b"a: !!python/object:os.system x", 400),
        (b"[" * 100_000, 400),
        (BOMB.encode(), 400),
        (b"a: " + b"x" * YAML_BYTES, 413),
    ],
)
def test_bodies_that_are_no_document_or_too_large_are_rejected(body: bytes, code: int) -> None:
    """Nothing, several, no text, no plain data, too deep, blown up, too long."""
    with pytest.raises(ApiError) as refused:
        yaml_data(body, "Pod")
    assert refused.value.code == code


SLIPS: dict[str, Any] = {
    "nodNme": "n",
    "containers": [{"name": "c", "image": "x", "imge": "y", "resources": {"request": {}}}],
    "volumes": [{"name": "v", "emptyDir": {"x": 1}, "projected": {"anything": 1}}],
    "nodeSelector": {"any": "key"},
    "affinity": {"nodeAffinity": {"required": {}}},
    "schedulingGroup": {"podGroupName": "g"},
}


def test_paths_of_unknown_fields_are_reported() -> None:
    """In items and in what Go embeds; not in maps. Requests leave a status out."""
    data = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": "b"}, "label": {}},
        "spec": SLIPS, "status": {"anything": 1}, "extra": 1,
    }  # fmt: skip
    assert list(map(path_text, unknown_fields("v1/Pod", data))) == [
        "metadata.label",
        "spec.nodNme",
        "spec.containers[0].imge",
        "spec.containers[0].resources.request",
        "spec.volumes[0].emptyDir.x",
        "spec.volumes[0].projected.anything",
        "spec.affinity.nodeAffinity.required",
        "status.anything",
        "extra",
    ]


@pytest.mark.parametrize("kind", [name for name in texts() if "/" in name])
def test_malformed_objects_are_left_to_validation(kind: str) -> None:
    """Lists and texts where there should be objects."""
    for value in ([1, "x"], "x", None, 5):
        assert list(map(path_text, unknown_fields(kind, {"spec": value, "metadata": value}))) in (
            [],
            ["spec"],
        )


def test_strict_refuses_and_warn_warns() -> None:
    """Create, update, patches and apply; a request that does not ask is not looked at."""

    async def run() -> None:
        async with serving() as world:
            wrong = {**pod("a"), "spec": {**pod("a")["spec"], "nodNme": "n"}}
            strict, warn = f"{PODS}?fieldValidation=Strict", f"{PODS}?fieldValidation=Warn"
            status, body = await world.ask("POST", strict, wrong)
            what = 'Pod in version "v1" cannot be handled as a Pod'
            words = f'{what}: strict decoding error: unknown field "spec.nodNme"'
            assert (status, body["message"]) == (400, words)
            async with world.session.post(world.url + warn, json=wrong) as answer:
                assert answer.status == 201
                assert answer.headers["Warning"] == '299 - "unknown field \\"spec.nodNme\\""'
            for query in ("", "?fieldValidation=Ignore"):
                named = {**wrong, "metadata": {"name": f"p{len(query)}"}}
                assert (await world.ask("POST", PODS + query, named))[0] == 201
            path = f"{PODS}/p0?fieldValidation=Strict&fieldManager=m"
            labels = {"metadata": {"lables": {}}}
            merge = "application/merge-patch+json"
            assert (await world.ask("PATCH", path, labels, type=merge))[0] == 400
            assert (await world.ask("PUT", path, wrong, type=JSON))[0] == 400
            assert (await world.ask("PATCH", path, wrong, type=APPLY))[0] == 400
            status, body = await world.ask("POST", f"{PODS}?fieldValidation=x", wrong)
            assert (status, "supported values" in body["message"]) == (422, True)

    asyncio.run(run())
