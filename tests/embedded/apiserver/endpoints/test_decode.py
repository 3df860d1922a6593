"""Bodies in YAML: read as the JSON that they stand for, within bounds."""

from __future__ import annotations

import asyncio

import pytest

from policy_sched.client.apimachinery.resources import ApiError
from policy_sched.embedded.apiserver.endpoints.negotiation import YAML, YAML_BYTES, yaml_data
from tests.embedded.apiserver.world import PODS, serving


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
