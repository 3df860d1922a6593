"""Makes the pictures of docs/console.md and the README: ``python -m tests.console.screenshots``.

Needs Chromium, Playwright and Pillow.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

from PIL import Image

from policy_sched.console import FilesSource, RunningSource
from policy_sched.model import ApiObject
from policy_sched.profiles.reload import PolicyFiles
from tests.console.browsing import EXAMPLE, ROOT, of_files
from tests.console.clusters import ZONE, node, of_objects, pod
from tests.console.test_rollout_page import Shown
from tests.console.threaded import served
from tests.instance.app.test_embedded_instance import World
from tests.web.browser import chromium

FOLDER = ROOT / "docs" / "images"
PLACE = "policies/example-cluster"
COLOURS = 96
SIZE = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}


def varied(nodes: int = 720) -> FilesSource:
    """Return a cluster whose nodes are used unequally, and in which pods wait for four reasons."""
    random = Random(7)
    items: list[ApiObject] = []
    for number in range(nodes):
        zone = f"eu-west-1{'abc'[number * 3 // nodes]}"
        taint = "dedicated" if number % 40 == 0 else ""
        items.append(node(f"node-{number:03d}", {ZONE: zone}, taint=taint, cpu="32"))
        level = random.betavariate(2.2, 1.6 + number * 3 // nodes)
        sizes = [random.choice((1, 2, 4)) for _ in range(int(level * 14))]
        items += [
            pod(f"web-{number:03d}-{i}", str(size), f"node-{number:03d}", memory=f"{size + 1}Gi")
            for i, size in enumerate(sizes)
            if sum(sizes[: i + 1]) <= 32
        ]
    for number in range(240):
        cpu = random.choice(("1", "4", "31", "48", "64"))
        waits = pod(f"job-{number:03d}", cpu, priority=number % 2 * 1000, memory="2Gi")
        if number % 5 == 0:
            waits.spec.node_selector["disktype"] = "ssd"
        items.append(waits)
    return of_objects(items, name="cluster.yaml")


def shoot(page: Any, url: str, name: str, *, full: bool = False) -> None:
    """Write a picture of a page, in few colours."""
    page.goto(url)
    page.wait_for_selector("h1", state="attached")
    page.wait_for_load_state("load")
    file = FOLDER / f"console-{name}.png"
    page.screenshot(path=str(file), full_page=full)
    Image.open(file).convert("RGB").quantize(COLOURS).save(file, optimize=True)


def main() -> None:
    """Make all pictures, or those that are named."""
    os.chdir(ROOT)  # pages show paths as they are given
    FOLDER.mkdir(exist_ok=True)
    wanted = set(sys.argv[1:])
    pages = {
        "overview": (varied, "/", SIZE, "light"),
        "pod": (_example, "/pods/shop/report", SIZE, "light"),
        "placed": (_example, "/pods/shop/ingress-1", SIZE, "dark"),
        "pods": (varied, "/pods?by=reason", SIZE, "light"),
        "node": (_example, "/nodes/gpu-1", SIZE, "light"),
        "phone": (_example, "/pods/shop/report", PHONE, "dark"),
        "problem": (_broken, "/", SIZE, "light"),
        "rollout": (_rollout, "/rollout", SIZE, "light"),
    }
    with chromium() as browser:
        for name, (make, path, size, scheme) in pages.items():
            if wanted and name not in wanted:
                continue
            with served(make) as running:
                context = browser.new_context(viewport=size, color_scheme=scheme)
                page = context.new_page()
                page.goto(running.server.url)
                page.wait_for_selector(".banner.info", state="detached")
                shoot(page, running.server.address.rstrip("/") + path, name)
                context.close()


def _example() -> FilesSource:
    """Return the example cluster, by relative paths."""
    files = PolicyFiles(f"{PLACE}/config.yaml", ("policies/gpu-bin-packing",))
    return of_files([f"{PLACE}/manifests"], files)


def _rollout() -> RunningSource:
    """Return a scheduler with a rollout in its second step."""
    instance = World(Path(mkdtemp())).start()
    instance.rollout = Shown()
    return RunningSource(instance, "embedded cluster")


def _broken() -> FilesSource:
    """Return the example cluster after its policy was broken."""
    text = Path("policies/gpu-bin-packing/policy.yaml").read_text("utf-8")
    folder = Path(mkdtemp())
    shutil.copytree(EXAMPLE, folder / "cluster")
    os.chdir(folder)
    file = Path("policy.yaml")
    file.write_text(text, "utf-8")
    files = PolicyFiles("cluster/config.yaml", ("policy.yaml",))
    source = of_files(["cluster/manifests"], files)
    file.write_text(text.replace("node.allocatable", "node.allocateable", 1), "utf-8")
    source.reload()
    return source


if __name__ == "__main__":
    main()
