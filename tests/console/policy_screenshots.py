"""Makes the pictures of policies, timelines and experiments in docs/console.md.

``python -m tests.console.policy_screenshots`` needs what ``tests.console.screenshots`` does.
"""

from __future__ import annotations

import io
import os
from contextlib import redirect_stdout
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image

from policy_sched.cli.main import run
from policy_sched.console import FilesSource
from policy_sched.profiles.reload import PolicyFiles
from tests.console.browsing import ROOT, of_files
from tests.console.screenshots import COLOURS, FOLDER, PLACE, SIZE
from tests.console.test_in_browser import visit
from tests.console.threaded import Running, served
from tests.web.browser import chromium

POLICY = "policies/gpu-bin-packing/policy.yaml"
NODE = """\
apiVersion: v1
kind: Node
metadata: {{name: node-{number}}}
status: {{allocatable: {{cpu: "16", memory: 64Gi, pods: "110"}}}}
---
"""
POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: job-{number}
  namespace: {namespace}
  creationTimestamp: "2026-01-01T{hours:02}:{minutes:02}:00Z"
  annotations: {{policysched.dev/duration: {seconds}s}}
spec: {{priority: {priority}, containers: [{{name: c, resources: {{requests: {{cpu: "{cpu}"}}}}}}]}}
---
"""
EXPERIMENT = """\
apiVersion: policysched.dev/v1alpha1
kind: Experiment
metadata: {name: packing}
spec:
  cluster: {generate: ["12*cpu=8,memory=32Gi"]}
  workload:
    rows:
      file: pods.csv
      pod:
        metadata: {name: "${row.name}", namespace: default}
        spec: {containers: [{name: c, resources: {requests: {cpu: "${row.cpu}"}}}]}
    arrivals: {order: Shuffled}
  variants:
  - name: default
  - name: packed
    params: {NodeResourcesFit: {scoringStrategy: {type: MostAllocated}}}
    weights: {NodeResourcesFit: 5}
  seeds: {count: 14}
  curve: {arrived: cpu}
  measures:
  - {name: cpu, allocation: cpu, better: Higher}
  - {name: unplaced, pods: Unplaced, better: Lower}
"""


def day(folder: Path) -> str:
    """Write a cluster of a day: pods that come, run for an hour or so, and leave."""
    random, minutes = Random(1), 0.0
    parts = [NODE.format(number=number) for number in range(8)]
    for number in range(400):
        minutes += random.expovariate(1 / 1.15)
        parts.append(
            POD.format(
                number=number,
                namespace=random.choice(("web", "batch", "train")),
                hours=int(minutes) // 60,
                minutes=int(minutes) % 60,
                seconds=60 + int(random.expovariate(1 / 2600)),
                priority=1000 * (random.random() < 0.12),
                cpu=random.choice((1, 2, 4, 4, 8)),
            )
        )
    (folder / "day.yaml").write_text("".join(parts), "utf-8")
    return str(folder / "day.yaml")


def results(folder: Path) -> str:
    """Run an experiment, and return the folder of its results."""
    cpus = (1,) * 30 + (6,) * 12
    rows = "".join(f"p{i},{cpu}\n" for i, cpu in enumerate(cpus))
    (folder / "pods.csv").write_text(f"name,cpu\n{rows}", "utf-8")
    (folder / "experiment.yaml").write_text(EXPERIMENT, "utf-8")
    text = str(folder / "results")
    with redirect_stdout(io.StringIO()):
        run(["sweep", str(folder / "experiment.yaml"), "-j", "1", "--results", text])
    return text


def tries(page: Any, running: Running) -> None:
    """Turn a score of the example's policy round, and try that."""
    visit(page, running, f"/policies/edit?file={POLICY}&line=36")
    page.locator("[data-part=state]", has_text="no problems").wait_for()
    page.evaluate(
        "(() => { const one = document.querySelector('.CodeMirror').CodeMirror;"
        " const text = one.getValue();"
        " one.setValue(text.replace('nodeHasGpu ? 0 : 100', 'nodeHasGpu ? 100 : 0'));"
        " one.setSize(null, 260); one.scrollTo(0, 1e6); })()"
    )
    page.get_by_role("button", name="Try it").click()
    page.locator("#result", has_text="Which pods move").wait_for()
    page.evaluate("scrollTo(0, 60)")
    page.wait_for_timeout(600)


def policies(page: Any, running: Running) -> None:
    """Show the set in force and what its rules do."""
    visit(page, running, "/policies")
    hits = page.locator("text=Hits of policies and rules")
    hits.wait_for()
    page.evaluate("scrollTo(0, 90)")


def timeline(page: Any, running: Running) -> None:
    """Move the slider to where the queue is long."""
    visit(page, running, "/timeline")
    slider = page.get_by_label("Moment")
    slider.wait_for()
    slider.evaluate(
        "(one) => { one.value = 80; one.dispatchEvent(new Event('input', {bubbles: true})); }"
    )
    page.locator("#moment h2", has_text="After 4h").wait_for()


def experiments(page: Any, running: Running) -> None:
    """Show the curves."""
    visit(page, running, "/experiments")
    page.locator(".chart .u-legend").first.wait_for()


def main() -> None:
    """Make all pictures."""
    os.chdir(ROOT)  # pages show paths as they are given
    with TemporaryDirectory() as name, chromium() as browser:
        folder = Path(name)
        cluster, results_folder = day(folder), results(folder)

        def example() -> FilesSource:
            files = PolicyFiles(f"{PLACE}/config.yaml", (POLICY,))
            return of_files([f"{PLACE}/manifests"], files)

        def of_day() -> FilesSource:
            return of_files([cluster], PolicyFiles())

        for make, shown, scheme in (
            (example, tries, "light"),
            (example, policies, "light"),
            (of_day, timeline, "dark"),
            (of_day, experiments, "light"),
        ):
            with served(make, [results_folder]) as running:
                page = browser.new_context(viewport=SIZE, color_scheme=scheme).new_page()
                page.set_default_timeout(60_000)
                page.goto(running.server.url)
                shown(page, running)
                file = FOLDER / f"console-{shown.__name__}.png"
                page.screenshot(path=str(file))
                Image.open(file).convert("RGB").quantize(COLOURS).save(file, optimize=True)
                page.context.close()


if __name__ == "__main__":
    main()
