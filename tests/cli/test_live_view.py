"""What a terminal shows of an instance."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from policy_sched.cli.live_view import LiveView, picture
from policy_sched.profiles.policy_files import PolicyFiles
from policy_sched.serve.instance import Instance, Sources
from policy_sched.testing import FakeClock
from tests.profiles.policy_texts import keeping, write


def started(folder: Path, view: LiveView | None = None) -> Instance:
    """Return an instance with two nodes and two pods, one of which is too large."""
    lines = []
    for name in "ab":
        lines += [f"apiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}"]
        lines += ["status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}\n---"]
    for name, cpu in (("small", 1), ("large", 9)):
        lines += [f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}"]
        lines += [f"spec: {{containers: [{{name: m, resources: {{requests: {{cpu: {cpu}}}}}}}]}}"]
        lines += ["---"]
    for name in ("cluster", "policies"):
        (folder / name).mkdir()
    write(folder / "cluster" / "all.yaml", "\n".join(lines))
    write(folder / "policies" / "keep.yaml", keeping("Keep", 'node.name == "a"'))
    files = PolicyFiles(None, (str(folder / "policies"),))
    take = view.take if view is not None else lambda _: None
    instance = Instance(Sources(files, [str(folder / "cluster")]), FakeClock(10**18), take)
    instance.step()
    return instance


def shown(instance: Instance) -> str:
    """Return the picture as text without colours."""
    console = Console(file=io.StringIO(), width=160)
    console.print(picture(instance, "the last news"))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_nodes_queues_and_decisions(tmp_path: Path) -> None:
    """Nodes with what is requested of them, how many wait, where pods went and why not."""
    text = shown(started(tmp_path))
    assert "generation 1" in text
    assert "profiles: default-scheduler" in text
    assert "1000m/4" in text or "1/4" in text
    assert "unschedulable 1" in text
    assert "default/small" in text
    assert "1 of 2 nodes fit" in text
    assert "Insufficient cpu" in text
    assert "the last news" in text
    assert "failed" not in text


def test_a_failed_reload_is_shown_until_it_is_mended(tmp_path: Path) -> None:
    """The problem is shown with its line and a caret."""
    instance = started(tmp_path)
    file = tmp_path / "policies" / "keep.yaml"
    write(file, keeping("Keep", "node.nam"))
    instance.reload(instance.read_policies(), "test")
    text = shown(instance)
    assert "failed; the policies in force stay" in text
    assert "did you mean 'name'?" in text
    assert "^" in text
    write(file, keeping("Keep", 'node.name == "b"'))
    instance.reload(instance.read_policies(), "test")
    text = shown(instance)
    assert "failed" not in text
    assert "generation 2" in text


def test_the_view_draws_on_a_terminal(tmp_path: Path) -> None:
    """Pictures are drawn when asked for, and the last one stays."""
    stream = io.StringIO()
    with LiveView(stream) as view:
        view.show(started(tmp_path, view))
    assert "Applied manifests" in stream.getvalue()
