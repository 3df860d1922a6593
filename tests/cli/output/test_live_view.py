"""What a terminal shows of an instance."""

from __future__ import annotations

import errno
import io
from pathlib import Path

from rich.console import Console

from policy_sched.cli.output.live_view import Dashboard, picture
from policy_sched.instance.app.embedded_instance import EmbeddedInstance, Sources
from policy_sched.profiles.reload.inputs import PolicyFiles
from policy_sched.testing import FakeClock
from tests.profiles.policy_texts import keeping, write


def started(folder: Path, view: Dashboard | None = None) -> EmbeddedInstance:
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
    instance = EmbeddedInstance(Sources(files, [str(folder / "cluster")]), FakeClock(10**18), take)
    instance.step()
    return instance


def shown(instance: EmbeddedInstance, width: int = 160, height: int = 50) -> str:
    """Return the picture as text without colours."""
    console = Console(file=io.StringIO(), width=width, height=height)
    console.print(picture(instance, "the last news", height))
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
    instance.reload(instance.reloader.store.prepare(), "test")
    text = shown(instance)
    assert "failed; the policies in force stay" in text
    assert "did you mean 'name'?" in text
    assert "^" in text
    write(file, keeping("Keep", 'node.name == "b"'))
    instance.reload(instance.reloader.store.prepare(), "test")
    text = shown(instance)
    assert "failed" not in text
    assert "generation 2" in text


def test_the_view_draws_on_a_terminal(tmp_path: Path) -> None:
    """Pictures are drawn on request, and the last one stays."""
    stream = io.StringIO()
    with Dashboard(stream) as view:
        view.show(started(tmp_path, view))
    assert "Applied manifests" in stream.getvalue()


def crowded(folder: Path) -> EmbeddedInstance:
    """Return an instance with 60 nodes, two of them with GPUs, and 80 pods, some too large."""
    lines = []
    for number in range(60):
        gpus = ", example.com/gpu: 8" if number < 2 else ""
        lines += [f"apiVersion: v1\nkind: Node\nmetadata: {{name: node-{number}}}"]
        lines += [f"status: {{allocatable: {{cpu: 4, memory: 8Gi, pods: 10{gpus}}}}}\n---"]
    for number in range(80):
        cpu = 9 if number % 8 == 0 else 1
        lines += [f"apiVersion: v1\nkind: Pod\nmetadata: {{name: pod-{number}}}"]
        lines += [f"spec: {{containers: [{{name: m, resources: {{requests: {{cpu: {cpu}}}}}}}]}}"]
        lines += ["---"]
    (folder / "cluster").mkdir()
    write(folder / "cluster" / "all.yaml", "\n".join(lines))
    clock = FakeClock(10**18)
    instance = EmbeddedInstance(
        Sources(PolicyFiles(None, ()), [str(folder / "cluster")]), clock, lambda _: None
    )
    instance.step()
    while instance.scheduler.queue.active():
        instance.step()
    return instance


def test_pending_pods_and_new_decisions_are_visible_on_a_small_terminal(tmp_path: Path) -> None:
    """At 80x24 a user saw old decisions and nodes only, and not one pod that waits.

    The dashboard fits the screen: pending pods are grouped by reason, the newest decision is the
    first of its table.
    """
    lines = shown(crowded(tmp_path), 80, 24).rstrip("\n").split("\n")
    assert len(lines) <= 24
    (pending,) = [line for line in lines if "Insufficient cpu" in line and " 10 " in line[:10]]
    assert "default/pod-" in pending
    names = [line.split()[1] for line in lines if "nodes fit" in line]
    assert names
    assert names == sorted(names, key=lambda name: -int(name.rpartition("-")[2]))
    assert "... and" in lines[-2]


def test_extended_resources_have_columns(tmp_path: Path) -> None:
    """The terminal showed no GPUs of GPU nodes; nodes without any show a dash."""
    text = shown(crowded(tmp_path))
    (heading,) = [line for line in text.splitlines() if line.startswith("NODE")]
    assert heading.split() == ["NODE", "PODS", "CPU", "MEMORY", "GPU"]
    rows = [line.split() for line in text.splitlines() if line.startswith("node-")]
    assert {row[-1] for row in rows} == {"0/8", "-"}


class Terminal(io.StringIO):
    """A terminal that can go away."""

    gone = False

    def isatty(self) -> bool:
        """Return whether it is still there."""
        return not self.gone

    def write(self, text: str) -> int:
        """Fail as a terminal does whose other side is closed."""
        if self.gone:
            raise OSError(errno.EIO, "Input/output error")
        return super().write(text)


def test_the_terminal_shows_something_before_anything_is_read() -> None:
    """With 1,000 nodes the terminal stayed empty for seconds."""
    terminal = Terminal()
    with Dashboard(terminal):
        assert "reading policies and the cluster" in terminal.getvalue()


def test_a_closed_terminal_ends_nothing_by_an_error(tmp_path: Path) -> None:
    """Drawing goes on without a terminal until SIGHUP has been handled."""
    terminal = Terminal()
    with Dashboard(terminal) as view:
        assert not view.hung_up
        terminal.gone = True
        view.show(started(tmp_path, view), now=True)
        assert view.hung_up
