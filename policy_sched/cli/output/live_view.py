"""The dashboard of `policy-sched run` on a terminal.

From top to bottom: policies, problems of files, queue lengths, pending pods grouped by reason, the
newest decisions, nodes. The dashboard fits the height of the terminal: pending pods and decisions
come first, nodes take what is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, Self, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from policy_sched.cluster.tables import NodeTable
from policy_sched.errors import Diagnostic
from policy_sched.instance.app import Instance
from policy_sched.instance.observability import SERVING_CONSOLE, Record
from policy_sched.model import quantity_text

NODES: Final = 40
"""Nodes that are shown at most, those with the most pods first."""
DECISIONS: Final = 10
REASONS: Final = 5
"""Reasons of pending pods that are shown, the most frequent first."""
RESOURCES: Final = 3
"""Extended resources that have a column, in alphabetical order."""
MIN_NODES: Final = 2
"""Nodes that are shown on the smallest terminal."""
PROBLEMS: Final = 3
"""Problems that are shown whole; of the others only the number."""
EVERY: Final = 1.0
"""Seconds between two pictures while nothing happens."""
_FASTEST: Final = 100_000_000
"""Nanoseconds between two pictures while much happens."""
_SHARES: Final = ("cpu", "memory")
_NO_COLUMN: Final = frozenset({*_SHARES, "pods", "ephemeral-storage"})
_HEADINGS: Final = 3
"""Lines of the headings of pending pods, decisions and nodes."""


class Dashboard:
    """Draws an instance on a terminal; a context manager, which leaves the last picture there."""

    every = EVERY

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live = Live(console=Console(file=stream), auto_refresh=False)
        self._shown_at = 0
        self._message = ""
        self._console = ""

    def __enter__(self) -> Self:
        self._live.start()
        self._live.update(Text("reading policies and the cluster ..."), refresh=True)
        return self

    @property
    def hung_up(self) -> bool:
        """Whether the terminal is gone: its window was closed, or the connection was lost."""
        return not self._stream.isatty()

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # the terminal may be gone
            self._live.stop()

    def take(self, record: Record) -> None:
        """Keep the last message of the log and the console's URL; the instance keeps decisions."""
        if record["msg"] == SERVING_CONSOLE:
            self._console = f"console: {record['url']}"
            return
        if "pod" not in record and "file" not in record:
            self._message = str(record["msg"])

    def show(self, instance: Instance, *, now: bool = False) -> None:
        """Draw, unless that was done a moment ago."""
        time = instance.now()
        if now or time - self._shown_at >= _FASTEST:
            self._shown_at = time
            height = self._live.console.height
            with suppress(OSError):  # the terminal may be gone; SIGHUP ends the process then
                message = "\n".join(filter(None, (self._message, self._console)))
                self._live.update(picture(instance, message, height), refresh=True)


def picture(instance: Instance, message: str = "", height: int = 50) -> RenderableType:
    """Return the dashboard for a terminal of ``height`` lines; ``message`` is the last message."""
    above: list[RenderableType] = [*_policies(instance), *_problems(instance), _queues(instance)]
    pending = _pending(instance)
    lines = len(above) + len(pending) + _HEADINGS + len(message.splitlines())
    free = max(height - lines - 1, 2 * MIN_NODES)
    decided = min(DECISIONS, len(instance.log.last), max(MIN_NODES, free // 2))
    nodes = max(MIN_NODES, min(NODES, free - decided))
    parts = [*above]
    if pending:
        parts.append(_pending_table(pending))
    parts += [_decisions(instance, decided), _nodes(instance.scheduler.cache.nodes, nodes)]
    if message:
        parts.append(Text(message, style="dim"))
    return Group(*parts)


def _policies(instance: Instance) -> Iterator[Text]:
    status = instance.reloader.store.status
    profiles = ", ".join(sorted(instance.scheduler.profiles))
    yield Text.assemble(
        ("policies ", "bold"),
        f"generation {status.generation} ({status.content_hash[:12]})",
        f" since {_clock(status.loaded_at)}; profiles: {profiles}",
    )
    if status.restart:
        names = ", ".join(status.restart)
        yield Text(f"settings that count from the next start only: {names}", style="yellow")


def _problems(instance: Instance) -> Iterator[Text]:
    status = instance.reloader.store.status
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


def _nodes(table: NodeTable, most: int) -> Table:
    """Return the nodes with the most pods, at most ``most`` lines of them."""
    extended = _extended_resources(table)
    shown = Table(box=None, pad_edge=False, header_style="bold")
    shown.add_column("NODE", no_wrap=True)
    for name in ("PODS", "CPU", "MEMORY", *(name.rpartition("/")[2].upper() for name in extended)):
        shown.add_column(name, justify="right", no_wrap=True)
    rows = sorted(table.row_of.values(), key=lambda row: (-len(table.pods_on(row)), row))
    whole = len(rows) <= most
    for row in rows if whole else rows[: most - 1]:
        shares = [_share(table, name, row) for name in (*_SHARES, *extended)]
        shown.add_row(table.names[row], str(len(table.pods_on(row))), *shares)
    if not whole:
        shown.add_row(f"... and {len(rows) - most + 1} more")
    return shown


def _extended_resources(table: NodeTable) -> list[str]:
    """Return the extended resources of nodes that have a column."""
    names = {
        name
        for node in table.nodes
        if node is not None
        for name in node.status.allocatable
        if name not in _NO_COLUMN
    }
    return sorted(names)[:RESOURCES]


def _share(table: NodeTable, resource: str, row: int) -> str:
    allocatable = table.lookup(("allocatable", resource)).values.item(row)
    if not allocatable and resource not in _NO_COLUMN:
        return "-"
    requested = table.lookup(("requested", resource)).values.item(row)
    return f"{quantity_text(resource, requested)}/{quantity_text(resource, allocatable)}"


def _queues(instance: Instance) -> Text:
    lengths = {**instance.queue_lengths(), "in flight": instance.scheduler.in_flight}
    named = "  ".join(f"{queue} {length}" for queue, length in lengths.items())
    return Text.assemble(("queue ", "bold"), named)


def _pending(instance: Instance) -> list[tuple[str, int, str]]:
    """Return why pods wait: the reason, how many pods share it, and one of them."""
    queue = instance.scheduler.queue
    counts: Counter[str] = Counter()
    example: dict[str, str] = {}
    for queued in (*queue.unschedulable(), *queue.backoff(), *queue.gated()):
        key = queued.info.key
        reason = _reason(instance, key) or f"rejected by {', '.join(sorted(queued.rejected_by))}"
        counts[reason] += 1
        example.setdefault(reason, key)
    return [(why, count, example[why]) for why, count in counts.most_common(REASONS)]


def _reason(instance: Instance, pod: str) -> str:
    """Return the filters' part of the last failure's message."""
    return instance.log.failures.get(pod, "").partition(". ")[0]


def _pending_table(pending: Sequence[tuple[str, int, str]]) -> Table:
    shown = Table(box=None, pad_edge=False, header_style="bold")
    shown.add_column("PENDING", justify="right")
    shown.add_column("REASON", no_wrap=True, overflow="ellipsis", ratio=1)
    shown.add_column("POD", no_wrap=True, overflow="ellipsis", max_width=24)
    for why, count, pod in pending:
        shown.add_row(str(count), why, pod, style="yellow")
    shown.expand = True
    return shown


def _decisions(instance: Instance, most: int) -> Table:
    """Return the newest decisions, the newest first."""
    shown = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    for name in ("TIME", "POD", "NODE"):
        shown.add_column(name, no_wrap=True, overflow="ellipsis", max_width=28)
    shown.add_column("WHY", no_wrap=True, overflow="ellipsis", ratio=1)
    for decided in list(instance.log.last)[::-1][:most]:
        style = "" if decided.node else "yellow"
        node = decided.node or "-"
        shown.add_row(_clock(decided.time), decided.pod, node, decided.why, style=style)
    return shown


def _clock(time: int) -> str:
    return datetime.fromtimestamp(time / 1e9, UTC).astimezone().strftime("%H:%M:%S")
