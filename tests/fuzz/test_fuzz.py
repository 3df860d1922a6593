"""The fuzzer's short run: some hundred inputs, the same ones each time.

``python -m tests.fuzz`` takes many others, and holds them to limits of time and memory.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import example, given, settings, strategies as st

from tests.examples import scaled
from tests.fuzz import sessions
from tests.fuzz.corpus import BOMBS, RAW
from tests.fuzz.inputs import text
from tests.fuzz.requests import persisted
from tests.fuzz.targets import TARGETS, command
from tests.fuzz.worlds import world


@pytest.fixture(scope="module", autouse=True)
def closed_console() -> Iterator[None]:
    """Stop the console at the end of the tests."""
    yield
    sessions.CONSOLES.close()


SEEDS = st.integers(0, 2**32)


@pytest.mark.parametrize("kind", sorted(TARGETS))
@settings(max_examples=scaled(40))
@given(seed=SEEDS)
def test_no_input_is_answered_by_a_traceback(kind: str, seed: int) -> None:
    """A mutated file gave tracebacks, hung, or wrote commands to CI; each is a diagnostic now."""
    with tempfile.TemporaryDirectory() as folder:
        TARGETS[kind](text(kind, Random(seed)), Path(folder))


@pytest.mark.parametrize("kind", ["policy", "test", "manifest", "kubeconfig"])
@pytest.mark.parametrize("raw", RAW["policy"], ids=range(len(RAW["policy"])))
def test_hostile_texts_are_diagnosed(kind: str, raw: str, tmp_path: Path) -> None:
    """Texts that ended a running scheduler, or every start of it, are refused in every kind."""
    TARGETS[kind](raw, tmp_path)


@pytest.mark.parametrize("bomb", BOMBS, ids=range(len(BOMBS)))
def test_expressions_that_explode_are_refused(bomb: str, tmp_path: Path) -> None:
    """Small expressions took all time or memory; they end with a value or a diagnostic."""
    TARGETS["expression"](bomb, tmp_path)


@pytest.mark.parametrize("kind", ["claim", "slice"])
def test_counters_beyond_all_numbers_are_diagnosed(kind: str, tmp_path: Path) -> None:
    """A shared counter of 1e2000 in a slice was answered by a traceback."""
    made = text(kind, Random(1))
    one = '"sharedCounters": [{"name": "c", "counters": {"m": {"value": "1e2000"}}}], "pool"'
    TARGETS[kind](made.replace('"pool"', one), tmp_path)


def test_a_request_for_billions_of_devices_is_explained(tmp_path: Path) -> None:
    """`explain` tried every smaller count, one after the other: 2^31 - 1 of them."""
    made = [one for one in world("claim", Random(1)) if one["kind"] in ("Node", "DeviceClass")]
    device = {"name": "d", "attributes": {}}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec: dict[str, object] = {"driver": "a.b", "pool": pool, "allNodes": True, "devices": [device]}
    meta = {"name": "a", "namespace": "default"}
    group = "resource.k8s.io/v1"
    exactly = {"deviceClassName": "gpu", "count": 2**31 - 1}
    requests = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    claims = [{"name": "v", "resourceClaimName": "a"}]
    pod = {"containers": [{"name": "c"}], "resourceClaims": claims}
    made += [
        {"apiVersion": group, "kind": "ResourceSlice", "metadata": meta, "spec": spec},
        {"apiVersion": group, "kind": "ResourceClaim", "metadata": meta, "spec": requests},
        {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod},
    ]
    path = tmp_path / "cluster.jsonl"
    path.write_text("\n".join(map(json.dumps, made)), encoding="utf-8")
    assert "2147483647" in command("explain", "a", "--cluster", str(path)).replace(",", "")


@settings(max_examples=scaled(40))
@given(seed=SEEDS)
@example(seed=0)
def test_no_request_to_a_console_is_a_mistake_of_ours(seed: int) -> None:
    """Odd methods, headers, bodies and parameters are refused, or answered with a page."""
    sessions.CONSOLES.send(sessions.console_request(Random(seed)))


@settings(max_examples=scaled(40))
@given(seed=SEEDS)
@example(seed=0)
def test_no_frame_is_answered_by_a_mistake_of_ours(seed: int) -> None:
    """A frame without JSON, of no length or out of turn was a traceback of the language server."""
    sessions.language_server(sessions.frames(Random(seed)))


@settings(max_examples=scaled(40))
@given(seed=SEEDS)
@example(seed=0)
def test_no_request_breaks_the_api_server(seed: int) -> None:
    """Objects and patches of any form are answered below 500, and kept as they were accepted."""

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(persisted(Random(seed), Path(folder)))
