"""What `policy-sched run` shows on a terminal: policies in force, nodes, queues, last decisions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Self, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from policy_sched.cluster.node_table import NodeTable
from policy_sched.errors import Diagnostic
from policy_sched.serve.decision_log import Record
from policy_sched.serve.scheduling import Scheduling
from policy_sched.simulate.report import quantity_text

NODES: Final = 12
"""Nodes that are shown, those with the most pods first."""
DECISIONS: Final = 10
PROBLEMS: Final = 3
"""Problems that are shown whole; of the others only the number."""
EVERY: Final = 1.0
"""Seconds between two pictures while nothing happens."""
_FASTEST: Final = 100_000_000
"""Nanoseconds between two pictures while much happens."""
_SHARES: Final = ("cpu", "memory")


class LiveView:
    """Draws an instance on a terminal; a context manager, which leaves the last picture there."""

    every = EVERY

    def __init__(self, stream: TextIO) -> None:
        self._live = Live(console=Console(file=stream), auto_refresh=False)
        self._shown_at = 0
        self._said = ""

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def take(self, record: Record) -> None:
        """Take note of what the instance says; decisions it remembers itself."""
        if "pod" not in record and "file" not in record:
            self._said = str(record["msg"])

    def show(self, instance: Scheduling, *, now: bool = False) -> None:
        """Draw, unless that was done a moment ago."""
        time = instance.now()
        if now or time - self._shown_at >= _FASTEST:
            self._shown_at = time
            self._live.update(picture(instance, self._said), refresh=True)


def picture(instance: Scheduling, said: str = "") -> RenderableType:
    """Return the whole picture; ``said`` is the last thing that happened beside decisions."""
    parts: list[RenderableType] = [*_policies(instance), *_problems(instance)]
    parts += [_nodes(instance.scheduler.cache.nodes), _queues(instance), _decisions(instance)]
    if said:
        parts.append(Text(said, style="dim"))
    return Group(*parts)


def _policies(instance: Scheduling) -> Iterator[Text]:
    status = instance.reloader.status
    profiles = ", ".join(sorted(instance.scheduler.profiles))
    yield Text.assemble(
        ("policies ", "bold"),
        f"generation {status.generation} ({status.content_hash[:12]})",
        f" since {_clock(status.loaded_at)}; profiles: {profiles}",
    )
    if status.restart:
        names = ", ".join(status.restart)
        yield Text(f"settings that count from the next start only: {names}", style="yellow")


def _problems(instance: Scheduling) -> Iterator[Text]:
    status = instance.reloader.status
    if not status.healthy:
        text = f"the reload at {_clock(status.refused_at)} failed; the policies in force stay"
        yield Text(text, style="bold red")
        yield from _rendered(status.problems)
    problems = instance.manifest_problems
    if problems:
        yield Text("problems of manifests", style="bold red")
        yield from _rendered(problems)


def _rendered(problems: Sequence[Diagnostic]) -> Iterator[Text]:
    for problem in problems[:PROBLEMS]:
        yield Text(problem.render(), style="red")
    if len(problems) > PROBLEMS:
        yield Text(f"... and {len(problems) - PROBLEMS} more", style="red")


def _nodes(table: NodeTable) -> Table:
    shown = Table(box=None, pad_edge=False, header_style="bold")
    shown.add_column("NODE")
    for name in ("PODS", "CPU", "MEMORY"):
        shown.add_column(name, justify="right")
    rows = sorted(table.row_of.values(), key=lambda row: (-len(table.pods_on(row)), row))
    for row in rows[:NODES]:
        shares = [_share(table, name, row) for name in _SHARES]
        shown.add_row(table.names[row], str(len(table.pods_on(row))), *shares)
    if len(rows) > NODES:
        shown.add_row(f"... and {len(rows) - NODES} more", "", "", "")
    return shown


def _share(table: NodeTable, resource: str, row: int) -> str:
    requested = table.column(("requested", resource)).values.item(row)
    allocatable = table.column(("allocatable", resource)).values.item(row)
    return f"{quantity_text(resource, requested)}/{quantity_text(resource, allocatable)}"


def _queues(instance: Scheduling) -> Text:
    lengths = {**instance.queue_lengths(), "in flight": instance.scheduler.in_flight}
    named = "  ".join(f"{queue} {length}" for queue, length in lengths.items())
    return Text.assemble(("queue ", "bold"), named)


def _decisions(instance: Scheduling) -> Table:
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("TIME", "POD", "NODE"):
        shown.add_column(name, no_wrap=True)
    shown.add_column("WHY", overflow="fold")
    for decided in list(instance.log.last)[-DECISIONS:]:
        style = "" if decided.node else "yellow"
        node = decided.node or "-"
        shown.add_row(_clock(decided.time), decided.pod, node, decided.why, style=style)
    return shown


def _clock(time: int) -> str:
    return datetime.fromtimestamp(time / 1e9, UTC).astimezone().strftime("%H:%M:%S")
