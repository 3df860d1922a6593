"""A server whose disk is full: what it refuses, what it goes on with, and that it says so."""

from __future__ import annotations

import asyncio
from pathlib import Path

from policy_sched.embedded.cluster import EmbeddedCluster
from policy_sched.testing import FakeClock
from tests.embedded.apiserver.world import PODS, pod, serving
from tests.embedded.world import START


def test_a_full_disk_is_a_status_and_the_server_is_not_ready(tmp_path: Path) -> None:
    """It answered "500 Internal Server Error" as text, and went on to say that it was ready."""

    async def run() -> None:
        cluster = EmbeddedCluster.open(str(tmp_path / "cluster.db"), FakeClock(START))
        connection = cluster.store.storage._connection  # type: ignore[attr-defined]
        big = pod("big")
        big["metadata"]["annotations"] = {"text": "x" * 100_000}
        async with serving(cluster=cluster) as world:
            await world.create(PODS, pod("before"))
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages}")
            status, told = await world.ask("POST", PODS, big)
            assert (status, told["code"], told["kind"]) == (507, 507, "Status")
            assert told["reason"] == "InsufficientStorage"
            assert "make room on the disk of" in told["message"]
            assert (await world.ask("GET", "/readyz"))[0] == 500
            assert (await world.ask("GET", "/readyz/storage-readiness"))[0] == 500
            assert "[-]storage-readiness failed" in (await world.ask("GET", "/readyz?verbose"))[1]
            assert (await world.ask("GET", "/readyz/ping"))[0] == 200
            assert (await world.ask("GET", "/livez"))[0] == 200
            assert (await world.ask("GET", f"{PODS}/before"))[0] == 200
            assert (await world.ask("GET", PODS))[0] == 200
            connection.execute("PRAGMA max_page_count = 1000000")
            assert await world.ask("GET", "/readyz") == (200, "ok")
            assert (await world.ask("POST", PODS, big))[0] == 201
        cluster.close()

    asyncio.run(run())
