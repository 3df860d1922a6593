"""The embedded API server under hostile objects and patches: it answers, and goes on."""

from __future__ import annotations

import json
from random import Random
from typing import Any, Final

from tests.apiserver.world import World
from tests.fuzz.corpus import OBJECTS, PATCHES
from tests.fuzz.mutations import mutated, text_of
from tests.fuzz.targets import BrokenRunError

Plain = Any
_JSON: Final = "application/json"


async def attempt(world: World, random: Random) -> None:
    """Create, patch, replace and delete one mutated object; every answer is below 500."""
    path, valid = random.choice(sorted(OBJECTS.items()))
    sent = mutated(valid, random) if random.random() < 0.8 else valid
    await _send(world, "POST", path, sent)
    name = valid["metadata"]["name"]
    if random.random() < 0.5:
        await _send(world, "POST", path, valid)
    kind, patch = random.choice(PATCHES)
    changed = mutated(patch, random)
    query = "?fieldManager=f&force=true" if "apply" in kind else ""
    if "apply" in kind and isinstance(changed, dict):
        changed = {"apiVersion": valid["apiVersion"], "kind": valid["kind"], **changed}
    await _send(world, "PATCH", f"{path}/{name}{query}", changed, kind)
    await _send(world, "PUT", f"{path}/{name}", mutated(valid, random))
    await _send(world, "PATCH", f"{path}/{name}/status", mutated(valid, random), PATCHES[2][0])
    selector = random.choice(("app=web", "(" * 500, "a in (b", "\x00", "=" * 300, "!" * 300))
    status, _ = await world.ask("GET", f"{path}?labelSelector={_quoted(selector)}")
    _below_500(status, "GET", path, selector)
    await _send(world, "DELETE", f"{path}/{name}", {"gracePeriodSeconds": 0})


def _quoted(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


async def _send(world: World, method: str, path: str, body: Plain, kind: str = _JSON) -> None:
    text = text_of(body)
    status, answer = await world.ask(method, path, text.encode("utf-8"), type=kind)
    _below_500(status, method, path, f"{text[:2000]} -> {json.dumps(answer)[:1000]}")


def _below_500(status: int, method: str, path: str, what: str) -> None:
    if status >= 500:
        raise BrokenRunError(f"{status} for {method} {path}: {what}")
