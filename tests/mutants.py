"""Mutants of every line that makes a kept result invalid, and the tests that must see them.

``python -m tests.mutants [--jobs N] [--limit SECONDS] [WORD...]`` runs the program with one line
after the other taken out or broken; WORDs choose mutants by file or text. A mutant is seen if the
random histories of `tests.scheduler.histories` differ, or where it names tests of its own, if one
of them fails. One that is not seen, or not within its limit of CPU time, is printed, and the exit
code is 1. Where a line changes nothing that can be observed, delete it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]


@dataclass(frozen=True)
class Mutant:
    """A text of a file that occurs once there, and what stands in its place."""

    file: str
    text: str
    becomes: str
    tests: tuple[str, ...] = ()
    """What must see it; without them the histories."""

    def __str__(self) -> str:
        """Name it by its file and first line."""
        return f"{self.file}: {self.text.strip().splitlines()[0]}"

    @property
    def path(self) -> Path:
        """Where its file is."""
        return ROOT / "policy_sched" / self.file

    def texts(self) -> tuple[str, str]:
        """Return the text of its file before and after."""
        before = self.path.read_text(encoding="utf-8")
        assert before.count(self.text) == 1, f"{self}: {before.count(self.text)} times"
        return before, before.replace(self.text, self.becomes)


EVALUATE: Final = "framework/evaluate"
COUNTS: Final = "cluster/counts"
GROUPED: Final = "framework/grouped_sums.py"
SPREAD: Final = "plugins/podtopologyspread"
AFFINITY: Final = "plugins/interpodaffinity"
CLAIMS: Final = "plugins/dynamicresources"
DEVICES: Final = ("tests/plugins/dynamicresources",)
KEPT_ROWS: Final = ("tests/plugins/rules/test_kept_rows.py",)
TABLES: Final = ("tests/cluster/tables",)
OVERLAY: Final = ("tests/cluster/overlay",)
TERMS: Final = ("tests/cluster/counts/test_existing_terms.py",)
OBJECTS: Final = ("tests/plugins/rules/test_objects.py",)
GROUPS: Final = ("tests/cluster/test_group_index.py", "tests/scheduler/test_group_history.py")
SUMS: Final = ("tests/framework/test_grouped_sums.py",)
NEIGHBOURS: Final = (
    "tests/plugins/podtopologyspread/test_updated_results.py",
    "tests/plugins/interpodaffinity/test_updated_results.py",
)

AGGREGATES: Final = "cluster/tables/aggregates.py"
CONFIRMED: Final = ("tests/cluster/test_cache.py",)
COUNTED: Final = ("tests/cluster/tables/test_aggregates.py",)
COUNTED_RULES: Final = ("tests/plugins/rules/test_aggregates.py",)
ORDERED: Final = ("tests/plugins/rules/test_bound_order.py",)
READ: Final = ("tests/plugins/rules/test_inputs.py",)
QUOTAS: Final = ("tests/plugins/rules/test_quotas.py",)
TREE: Final = "cluster/tables/quotas.py"
OF_TREE: Final = ("tests/cluster/tables/test_quotas.py",)

QUEUE_HEAP: Final = "queue/queue_heap.py"
INPUTS: Final = "cluster/inputs.py"
DEPENDENCIES: Final = "cluster/tables/dependencies.py"
TRACING: Final = "language/runtime/tracing.py"
TURNS: Final = ("tests/queue/test_queue_heap.py",)
ORDERS: Final = ("tests/plugins/rules/test_bound_order.py",)

SETUP: Final = "scheduler/setup"
BESIDE: Final = ("tests/scheduler/setup/test_canary.py",)

MUTANTS: Final = (
    # A candidate beside the set in force: whose profiles are kept, and which pods change sides.
    Mutant(
        f"{SETUP}/profiles.py",
        " and current.pipeline.content_hash == ready.content_hash:\n"
        "                self._made.keep",
        ":\n                self._made.keep",
        BESIDE,
    ),
    Mutant(
        f"{SETUP}/reload.py",
        "        queue.move_among(moved, POLICY_RELOAD, None)\n",
        "",
        BESIDE,
    ),
    Mutant(
        f"{SETUP}/reload.py",
        "scheduler.profiles, scheduler.canary = built.profiles, None",
        "scheduler.profiles = built.profiles",
        BESIDE,
    ),
    Mutant(
        f"{SETUP}/reload.py",
        "        self._settle(self.assembly.build(current.plans, current.generation))\n",
        "",
        BESIDE,
    ),
    # Queues of pods: what moves a queue, and what a key read.
    Mutant(QUEUE_HEAP, "for name in self.order.take_stale_queues():", "for name in ():", TURNS),
    Mutant(QUEUE_HEAP, "queue.number = next(self._tickets)", "pass", TURNS),
    Mutant(
        QUEUE_HEAP,
        "if queue is not None and queue.stop_waiting(uid):",
        "if queue is not None and not queue:",
        TURNS,
    ),
    Mutant(
        "queue/scheduling_queue.py",
        "                queues.update(queued)\n",
        "                pass\n",
        TURNS,
    ),
    Mutant(
        DEPENDENCIES, "for read in by_key if key is ANY else (key, ANY):", "for read in ():", ORDERS
    ),
    Mutant(
        AGGREGATES,
        "        if self.readers:\n            self.changed(own.key)\n",
        "",
        ORDERS,
    ),
    Mutant(
        TRACING,
        "            self._dependencies.read(quotas.used, tables.ANY if quotas.nested else key)\n",
        "",
        ORDERS,
    ),
    # Aggregates and quotas: each pod that comes, goes or is nominated; what they read besides.
    Mutant(AGGREGATES, "self._count(before, -1)", "pass", COUNTED),
    Mutant(AGGREGATES, "values[row] = self.value(name)", "pass", COUNTED),
    Mutant(AGGREGATES, "self._table.journal.append(changed, DYNAMIC)", "pass", COUNTED),
    Mutant(
        AGGREGATES, "rows = {row_of.get(str(key), -1) for key in keys}", "rows = {row}", COUNTED
    ),
    Mutant(AGGREGATES, "        self.come(BOUND, pod, row)\n", "        pass\n", COUNTED),
    Mutant(
        AGGREGATES,
        "self._changed(aggregate, source, -1, aggregate.come(source, pod, row))",
        "pass",
        READ,
    ),
    Mutant(
        AGGREGATES,
        "            self._note_lookups(source, pod, row)\n",
        "            pass\n",
        READ,
    ),
    Mutant(
        AGGREGATES,
        "                keys.extend(self._settle(uid))\n",
        "                pass\n",
        COUNTED,
    ),
    Mutant(AGGREGATES, 'self._changed(aggregate, "", -1, keys)', "pass", COUNTED),
    Mutant(
        AGGREGATES, "        return time >= timeline.moment\n", "        return True\n", COUNTED
    ),
    Mutant(
        AGGREGATES,
        "pods[slice(*passed)]",
        "pods[passed[0] : passed[1] if before.moment < now.moment else 0]",
        COUNTED,
    ),
    Mutant(
        AGGREGATES,
        "            self._moments_reading.setdefault(lookup, {})[name] = None\n",
        "            pass\n",
        READ,
    ),
    Mutant(
        AGGREGATES,
        "                    self._note_part(key, 1)\n",
        "                    pass\n",
        COUNTED,
    ),
    Mutant(
        AGGREGATES, "                self._spend(own, None, 0)\n", "                pass\n", COUNTED
    ),
    Mutant(
        AGGREGATES, "            self._spend(before, own, began)\n", "            pass\n", COUNTED
    ),
    Mutant(AGGREGATES, "        aggregate.begins = True\n", "        pass\n", COUNTED),
    Mutant(AGGREGATES, "        aggregate.begins = False\n", "        pass\n", COUNTED),
    Mutant(AGGREGATES, "aggregate.leave(other, pod.uid)", "()", COUNTED),
    Mutant(AGGREGATES, "aggregate.reads_queue or ", "", COUNTED),
    Mutant(
        AGGREGATES,
        "pod, own = forms[source]\n",
        "pod, own = forms[source] if source == BOUND else (None, None)\n",
        COUNTED,
    ),
    Mutant("queue/scheduling_queue.py", "            changed(queued)\n", "", COUNTED),
    Mutant(
        "queue/scheduling_queue.py",
        "self._changed(queued)\n            if self._queues",
        "pass\n            if self._queues",
        COUNTED,
    ),
    Mutant(
        "queue/scheduling_queue.py",
        "self._changed(queued)\n\n",
        "pass\n\n",
        COUNTED,
    ),
    Mutant(
        AGGREGATES,
        "if aggregate.reads_namespaces:",
        "if False:",
        COUNTED,
    ),
    Mutant(AGGREGATES, "if not aggregate.reads_nodes:", "if True:", COUNTED),
    Mutant("cluster/cache.py", "nodes.aggregates.leave(BOUND, record.info, row)", "pass", COUNTED),
    Mutant("cluster/cache.py", "nodes.aggregates.come(BOUND, info, row)", "pass", COUNTED),
    # The binding that the watch shows is the assumed one, and nothing else.
    Mutant(
        "cluster/cache.py",
        "pod.spec.node_name or not _alike(record.info.pod, pod):",
        "pod.spec.node_name:",
        CONFIRMED,
    ),
    Mutant(
        "cluster/cache.py",
        "if record.node_name != pod.spec.node_name or not _alike",
        "if not _alike",
        CONFIRMED,
    ),
    Mutant(
        "cluster/cache.py",
        "            self.pods.exchange(record.row, info)\n",
        "            pass\n",
        CONFIRMED,
    ),
    Mutant("queue/nominator.py", "self.told(pod, node, False)", "pass", COUNTED),
    Mutant(
        TREE,
        "            self.stale[key] = None\n        else",
        "            pass\n        else",
        OF_TREE,
    ),
    Mutant(TREE, "            self._cut.add(key)\n", "", OF_TREE),
    Mutant(TREE, "        if not alone:\n", "        if False:\n", OF_TREE),
    Mutant(TREE, "used[name] = total = used.get(name, 0) + amount", "total = 1", OF_TREE),
    Mutant(TREE, "if self._granted != self.version:", "if self._granted < 0:", OF_TREE),
    Mutant(TREE, "            self.tree.attach(node, parent, -1)\n", "            pass\n", OF_TREE),
    Mutant(TREE, "            self.used.changed(ANY)\n", "            pass\n", ORDERS),
    Mutant(TREE, "self.used.stale[key] = None", "pass", OF_TREE),
    Mutant(TREE, "            self._count(node, {})\n", "            pass\n", OF_TREE),
    Mutant(TREE, "or self._cut or implied", "or implied", OF_TREE),
    Mutant(TREE, "        self._heights.clear()\n        implied", "        implied", OF_TREE),
    Mutant("cluster/tables/node_table.py", "quotas.object_changed(identity, key)", "pass", QUOTAS),
    Mutant("cluster/tables/node_table.py", "quotas.cached_object_changed(name)", "pass", QUOTAS),
    Mutant("cluster/tables/node_table.py", "objects.changed(name)", "pass", ORDERED),
    Mutant(
        "plugins/rules/plugin.py",
        "keys.append(self._verdict_of_pre_filter)",
        "pass",
        COUNTED_RULES,
    ),
    Mutant(
        "plugins/rules/plugin.py",
        "keys.append(self._weights)",
        "pass",
        ("tests/plugins/rules/test_weights.py",),
    ),
    # Evaluations: journal, scopes, nominations.
    Mutant(
        f"{EVALUATE}/evaluator.py",
        "if entry.version == journal.version and not renominated:",
        "if True:",
    ),
    Mutant(f"{EVALUATE}/evaluator.py", "rows = list(dict.fromkeys([*rows, *renominated]))", "pass"),
    Mutant(
        f"{EVALUATE}/evaluator.py",
        "entry_key = key if lowest is None else (*key, lowest)",
        "entry_key = key",
    ),
    Mutant(
        f"{EVALUATE}/evaluator.py",
        "            return False\n        if not updates.update(entry, pod, rows):",
        "            pass\n        if not updates.update(entry, pod, rows):",
    ),
    Mutant(
        f"{EVALUATE}/evaluator.py",
        "        if not updates.update(entry, pod, rows):\n            return False\n",
        "        updates.update(entry, pod, rows)\n",
    ),
    Mutant(f"{EVALUATE}/nominated_pods.py", "if before == self._version:", "if True:"),
    # Inputs of policies.
    Mutant(INPUTS, "            self._drop(before, place)\n", "            pass\n", READ),
    Mutant(INPUTS, "            self._drop(key, place)\n", "            pass\n", READ),
    Mutant(INPUTS, "self._problems.pop((self.given.identity, oldest), None)", "pass", READ),
    Mutant(INPUTS, "self._problems.pop((self.given.identity, place), None)", "pass", READ),
    Mutant(INPUTS, "holders = tuple(sorted(holders, key=_by_age))", "pass", READ),
    Mutant(
        INPUTS, "            if table.by_key.get(key) is record:\n", "            if True:\n", READ
    ),
    Mutant(
        INPUTS, "if holder[0] != place])\n        self._holders", "])\n        self._holders", READ
    ),
    Mutant(INPUTS, "self._readers[key_of(dropped.given.kind)].remove(dropped)", "pass", READ),
    Mutant(
        "scheduler/event_handlers.py",
        "after = None if before is None else inputs.keys_of(new)",
        "after = None",
        READ,
    ),
    Mutant(
        "scheduler/event_handlers.py",
        "before = inputs.keys_of(new) if",
        "before = InputChange({}) if",
        READ,
    ),
    Mutant(
        "scheduler/event_handlers.py",
        "before = inputs.keys_of(old) if",
        "before = InputChange({}) if",
        READ,
    ),
    Mutant(
        "queue/scheduling_queue.py",
        "return bool(self._unschedulable_pods.group_of or self._in_flight.pods)",
        "return bool(self._unschedulable_pods.group_of)",
        READ,
    ),
    Mutant(
        "queue/scheduling_queue.py",
        "return bool(self._unschedulable_pods.group_of or self._in_flight.pods)",
        "return bool(self._in_flight.pods)",
        READ,
    ),
    Mutant(
        "cluster/tables/node_table.py",
        "            self.journal.append(row, DYNAMIC)\n        if everywhere:",
        "            pass\n        if everywhere:",
    ),
    Mutant(
        "cluster/tables/node_table.py",
        "column.view[row] = self.inputs[identity].number(key)",
        "pass",
    ),
    Mutant("cluster/tables/node_table.py", "        if everywhere:\n", "        if False:\n"),
    Mutant(
        "cluster/tables/node_table.py",
        "return self.input_table(identity).number(node.metadata.name)",
        "return 0",
    ),
    Mutant("language/ir/dependencies.py", "if op.kind in _OF_INPUTS and (", "if False and ("),
    Mutant(
        f"{EVALUATE}/evaluator.py",
        "if entry is None or entry.version < self._table.journal.static_version:",
        "if entry is None:",
        ("tests/scheduler/test_nominated.py",),
    ),
    Mutant(
        f"{EVALUATE}/evaluator.py",
        "        if nominations.nominated_pods_on(pod, (own,)):\n            return None\n",
        "",
    ),
    Mutant(
        f"{EVALUATE}/entry.py",
        "return rejection(pod, row) is None",
        "return True",
    ),
    # Updates of changed rows.
    Mutant(
        f"{EVALUATE}/updates.py",
        "            entry.own_scores()\n            scoring",
        "            pass\n            scoring",
    ),
    Mutant(f"{EVALUATE}/updates.py", "entry.totals.add(scored, gains)", "pass"),
    Mutant(f"{EVALUATE}/updates.py", "                        view.raw[row] = score\n", ""),
    Mutant(
        f"{EVALUATE}/evaluator.py",
        "                if not incremental.holds():\n                    return False\n",
        "                pass\n",
        NEIGHBOURS,
    ),
    Mutant(
        f"{EVALUATE}/updates.py",
        "changed = np.union1d(changed, differ) if changed.size else differ\n        if nominated",
        "changed = differ\n        if nominated",
    ),
    Mutant(
        f"{EVALUATE}/updates.py",
        "            entry.filters.dry_run.node_by_node\n            or not",
        "            not",
    ),
    Mutant(
        f"{EVALUATE}/updates.py",
        "entry.override(pod, None if filters.dry_run.node_by_node else rows)",
        "pass",
    ),
    Mutant(
        f"{EVALUATE}/updates.py",
        "            entry.result.state.write(framework.Feasible(first=entry.first))\n",
        "            pass\n",
    ),
    Mutant(f"{EVALUATE}/updates.py", "entry.totals.put(closed, CLOSED)", "pass"),
    Mutant(f"{EVALUATE}/updates.py", "entry.totals.put(opened, total)", "pass"),
    Mutant(f"{EVALUATE}/updates.py", "self._renormalize(entry, view, pod, opened)", "pass"),
    Mutant(f"{EVALUATE}/updates.py", "if not view.whole and view.grouped is None:", "if False:"),
    Mutant(
        f"{EVALUATE}/updates.py",
        "        if opened is not None:\n",
        "        if opened is not None and changed.size:\n",
    ),
    Mutant(
        f"{EVALUATE}/updates.py",
        "elif changed.size or view.plugin.kernel.normalizes_by_row:",
        "elif False:",
    ),
    Mutant(
        f"{EVALUATE}/updates.py",
        "if entry.pre_score and not self.unchanged(",
        "if False and not self.unchanged(",
    ),
    Mutant(
        f"{EVALUATE}/updates.py",
        "if bounds is None or not view.same_bounds(entry.first):",
        "if bounds is None:",
    ),
    Mutant(
        f"{EVALUATE}/updates.py",
        "if rows.size and (raw.min() < bounds[0] or raw.max() > bounds[1]):",
        "if False:",
    ),
    Mutant(f"{EVALUATE}/updates.py", "            view.find_bounds(feasible.rows)\n", ""),
    Mutant(
        f"{EVALUATE}/updates.py",
        "or not entry.overrides.keys().isdisjoint(rows)",
        "",
    ),
    Mutant(
        f"{EVALUATE}/updates.py",
        "            or entry.nominated.any_on(rows)\n",
        "",
    ),
    # Entries and views.
    Mutant(
        f"{EVALUATE}/entry.py",
        "first[rows] = by_plugins[rows] = number",
        "first[rows] = number",
    ),
    Mutant(
        f"{EVALUATE}/entry.py",
        "            self.result.filtering.explanations.forget()\n",
        "",
    ),
    Mutant(f"{EVALUATE}/entry.py", "self.result.filtering.explanations.forget(few)", "pass"),
    Mutant(
        f"{EVALUATE}/entry.py",
        "self.result.filtering.explanations.forget([*before, *rejections])",
        "pass",
        ("tests/scheduler/test_nominated.py",),
    ),
    Mutant(
        f"{EVALUATE}/passes.py",
        "        entry.pre_filter = entry.active.changing_pre_filter\n",
        "",
    ),
    Mutant(
        f"{EVALUATE}/updates.py",
        "            if entry.shares_scores:\n                entry.own_scores()\n",
        "",
    ),
    Mutant(f"{EVALUATE}/updates.py", "view.grouped = incremental[view.name].scores", "pass"),
    Mutant(
        f"{EVALUATE}/views.py", "            self.codes = self.codes.copy()\n", "            pass\n"
    ),
    Mutant(
        f"{EVALUATE}/views.py",
        "if first.item(row) == FEASIBLE and self.raw.item(row) == score:",
        "if self.raw.item(row) == score:",
    ),
    # Totals.
    Mutant(
        f"{EVALUATE}/totals.py",
        "if not gain or (first.item(row) != FEASIBLE and not moved):",
        "if not gain:",
        ("tests/framework/evaluate/test_totals.py",),
    ),
    Mutant(f"{EVALUATE}/totals.py", "gain[self._first != FEASIBLE] = 0", "pass"),
    Mutant(
        f"{EVALUATE}/totals.py",
        "        self.values += gain\n        self._forget()\n",
        "        self.values += gain\n",
    ),
    Mutant(f"{EVALUATE}/totals.py", "                del left[bisect_left(left, row)]\n", ""),
    # Static results.
    Mutant(
        f"{EVALUATE}/static_part.py",
        "            self._kept.clear()\n            self._version = version\n",
        "            self._version = version\n",
    ),
    Mutant(
        f"{EVALUATE}/static_part.py",
        "return all(v.same_bounds(first) for v in views if v.plugin.normalizer is not None)",
        "return True",
        ("tests/framework/evaluate/test_static_part.py",),
    ),
    Mutant(
        f"{EVALUATE}/passes.py",
        "views = [view.copy() for view in views]",
        "pass",
        ("tests/framework/evaluate/test_static_part.py",),
    ),
    Mutant(
        f"{EVALUATE}/sampling.py",
        "if self._version != version:",
        "if self._version < 0:",
        ("tests/framework/evaluate/test_sampling.py",),
    ),
    # Dry runs of filters, rules.
    # Columns and counts of rules.
    Mutant(
        "language/runtime/incremental.py",
        "(journal.version if self._moves else journal.static_version)",
        "journal.static_version",
    ),
    Mutant(
        "language/runtime/incremental.py",
        "(journal.version if self._moves else journal.static_version)",
        "(journal.version if self._moves else 0)",
    ),
    Mutant(
        "language/runtime/incremental.py",
        "if self._moves and not self._dynamic.put(row):",
        "if False:",
    ),
    Mutant(
        "language/runtime/incremental.py",
        "if same is not None and value != same:",
        "if False:",
        ("tests/language/runtime/test_incremental.py",),
    ),
    Mutant(
        "language/runtime/incremental.py",
        "elif count.version != nodes.journal.version:",
        "elif False:",
    ),
    Mutant(
        "language/runtime/incremental.py",
        "        self.total += change\n        self._totals.clear()\n",
        "        self.total += change\n",
        ("tests/language/runtime/test_incremental.py",),
    ),
    Mutant(
        "language/runtime/incremental.py",
        "if kept is not None and kept[0] is domain:",
        "if kept is not None:",
        ("tests/language/runtime/test_incremental.py",),
    ),
    Mutant(
        "language/runtime/context.py",
        "if entry is None or entry[0] is not record:",
        "if entry is None:",
        KEPT_ROWS,
    ),
    Mutant(
        "plugins/rules/kept_rows.py",
        "changed = (kept.stamps[:n] != stamps).nonzero()[0]",
        "changed = (kept.stamps[:n] == _NEVER).nonzero()[0]",
        KEPT_ROWS,
    ),
    Mutant(
        "plugins/rules/kept_rows.py",
        "changed = rows[kept.stamps[rows] != stamps[rows]]",
        "changed = rows[kept.stamps[rows] == _NEVER]",
        KEPT_ROWS,
    ),
    Mutant(
        "plugins/rules/kept_rows.py",
        "if kept.stamps.item(row) == stamp:",
        "if kept.stamps.item(row) != _NEVER:",
        KEPT_ROWS,
    ),
    Mutant(
        "plugins/rules/kept_rows.py",
        "if latest is pod and kept.stamps.size >= n:",
        "if kept.stamps.size >= n:",
        KEPT_ROWS,
    ),
    # Tables and journal.
    Mutant(
        "cluster/tables/journal.py",
        "self.static_version = self.nodes_version = version",
        "self.nodes_version = version",
    ),
    Mutant(
        "cluster/tables/journal.py",
        "self.static_version = self.nodes_version = version",
        "self.static_version = version",
    ),
    Mutant(
        "cluster/tables/journal.py",
        "self.stamps[row], self.bare[row] = version, -version",
        "self.bare[row] = -version",
        TABLES,
    ),
    Mutant(
        "cluster/tables/journal.py",
        "return [row for row in rows if stamps[row] != seen[row]] or rows[:1]",
        "return rows[:1]",
    ),
    Mutant(
        "cluster/tables/node_table.py",
        "kind = STATIC | (DYNAMIC if self.usage.refresh_free(row) else 0)",
        "kind = STATIC",
    ),
    Mutant(
        "cluster/tables/node_table.py",
        "if known is None or known[0] != version:",
        "if known is None:",
    ),
    Mutant(
        "cluster/tables/column.py",
        "        self.version += 1\n        return True",
        "        return True",
        TABLES,
    ),
    # The overlay in which preemption tries.
    Mutant("cluster/overlay/overlay.py", "mine[row] = its[row]", "pass", OVERLAY),
    Mutant(
        "cluster/overlay/overlay.py",
        "copy.column.values[rows] = copy.source.values[rows]",
        "pass",
        OVERLAY,
    ),
    Mutant(
        "cluster/overlay/overlay.py",
        "            self._renew_copies()\n            return\n        version",
        "            pass\n        version",
        OVERLAY,
    ),
    # Claims and devices.
    Mutant(
        f"{CLAIMS}/device_table.py",
        "self.generation[list(rows)] = self._generation",
        "pass",
        DEVICES,
    ),
    Mutant(f"{CLAIMS}/device_table.py", "self.capacities.append(number, DYNAMIC)", "pass", DEVICES),
    Mutant(
        f"{CLAIMS}/device_table.py",
        "self._nodes_seen[row] = node\n            self.generation[row] = self._generation\n",
        "self._nodes_seen[row] = node\n",
        DEVICES,
    ),
    Mutant(
        f"{CLAIMS}/claim_columns.py",
        "if self._epoch != self._statuses.epoch or len(self._shapes)",
        "if len(self._shapes)",
        DEVICES,
    ),
    Mutant(
        f"{CLAIMS}/claim_columns.py",
        "column.seen[searched] != generation[searched]",
        "column.seen[searched] == _NEVER",
        DEVICES,
    ),
    Mutant(
        f"{CLAIMS}/claim_columns.py",
        "if requested.version != devices.capacities.version:",
        "if False:",
        DEVICES,
    ),
    Mutant(
        f"{CLAIMS}/claim_columns.py",
        "kept[0] == generation and kept[1].variant is None",
        "kept[1].variant is None",
        DEVICES,
    ),
    Mutant(
        f"{CLAIMS}/claim_columns.py",
        "flatnonzero(column.seen != generation)",
        "flatnonzero(column.seen == _NEVER)",
        DEVICES,
    ),
    Mutant(
        f"{CLAIMS}/claim_columns.py",
        "if column.layout != layout:",
        "if column.layout is None:",
        DEVICES,
    ),
    Mutant(
        f"{CLAIMS}/request_columns.py",
        "if self._epoch != self.table.epoch or len(self._kept)",
        "if len(self._kept)",
        DEVICES,
    ),
    Mutant(
        f"{CLAIMS}/request_columns.py",
        "if self.version != table.capacities.version:",
        "if False:",
        DEVICES,
    ),
    Mutant(
        f"{CLAIMS}/claim_store.py",
        "objects == self._objects.version and claims == self._claims.version",
        "objects == self._objects.version",
        DEVICES,
    ),
    Mutant(
        f"{CLAIMS}/claim_store.py",
        "if self._classes != self._claims.classes_version or len(self._specs)",
        "if len(self._specs)",
        DEVICES,
    ),
    # What only rules read of pods and nodes.
    Mutant(
        "cluster/tables/node_readers.py",
        '(status, replace(meta, resource_version="")) if type(node) is not Node else None',
        "None",
        OBJECTS,
    ),
    Mutant(
        "plugins/rules/plugin.py",
        'if ("object",) in self._policy.reads.pod:',
        "if False:",
        OBJECTS,
    ),
    Mutant(
        "language/ir/dependencies.py",
        "return op.args[0].kind not in (ops.POD, ops.NODE_AT)",
        "return False",
        OBJECTS,
    ),
    Mutant("cluster/tables/node_table.py", "if self.statuses_read:", "if False:", OBJECTS),
    # Counts of pods by selector and domain.
    Mutant(
        f"{COUNTS}/counts.py",
        "            self._current.clear()\n        domain",
        "            pass\n        domain",
    ),
    Mutant(
        f"{COUNTS}/counts.py",
        "if domain is None or domain.version != _version(key, self._table):",
        "if domain is None:",
    ),
    Mutant(f"{COUNTS}/counts.py", "totals[ids[row]] += amount", "pass"),
    Mutant(
        f"{COUNTS}/selector_counts.py",
        "        self._list(match)\n        self._known.clear()\n",
        "        self._list(match)\n",
    ),
    Mutant(
        f"{COUNTS}/existing_terms.py",
        "self.live += -1 if before else 1\n            self.version += 1",
        "self.live += -1 if before else 1",
        TERMS,
    ),
    Mutant(
        f"{COUNTS}/existing_terms.py",
        "        self._known.clear()\n        self.version += 1\n\n",
        "        self.version += 1\n\n",
        TERMS,
    ),
    Mutant(
        f"{COUNTS}/existing_terms.py",
        "        self._known.clear()\n        self.version += 1\n        return carried",
        "        self.version += 1\n        return carried",
        TERMS,
    ),
    Mutant(
        f"{COUNTS}/existing_terms.py",
        "            self._resolved[terms] = listed",
        "            self._resolved[terms] = listed[:1]",
        TERMS,
    ),
    # Sums by group of rows.
    Mutant(GROUPED, "amounts[number] = amount", "pass", SUMS),
    Mutant(GROUPED, "changed += addend.groups.get(number, ())", "pass", SUMS),
    Mutant(GROUPED, "if feasible is not self._feasible:", "if False:", SUMS),
    Mutant(GROUPED, "[*changed, *entered]", "[*changed]", SUMS),
    Mutant(GROUPED, "[*changed, *entered]", "[*entered]", SUMS),
    Mutant(GROUPED, "            groups[row] = new\n", "", SUMS),
    Mutant(GROUPED, "                members[old] -= 1\n", "", SUMS),
    Mutant(GROUPED, "self._scored.pop(old, None)", "pass", SUMS),
    Mutant(GROUPED, "        self._scored.clear()\n", "", SUMS),
    Mutant(
        GROUPED,
        "self._feasible, self._extremes = feasible, None",
        "self._feasible = feasible",
        SUMS,
    ),
    Mutant(GROUPED, "if extremes == self._extremes else", "if True else", SUMS),
    # Topology spread and pod affinity.
    Mutant(
        f"{SPREAD}/filtering.py",
        "        if was <= fewest or now < fewest:\n            recount = True\n",
        "",
        NEIGHBOURS,
    ),
    Mutant(
        f"{SPREAD}/plugin.py",
        "turned = np.union1d(turned, others) if turned.size else others",
        "turned = others",
        NEIGHBOURS,
    ),
    Mutant(
        f"{SPREAD}/constraints.py",
        "            self._included.clear()\n        spread",
        "            pass\n        spread",
    ),
    Mutant(
        f"{AFFINITY}/plugin.py",
        "if self._version != self._counts.version:",
        "if False:",
        NEIGHBOURS,
    ),
    Mutant(
        f"{AFFINITY}/plugin.py",
        "return preferred is None or preferred.same_counts()",
        "return True",
        NEIGHBOURS,
    ),
    # Preemption.
    Mutant(
        "preemption/dry_runs.py",
        "self._forget([*changes.rows, *moved])",
        "pass",
        ("tests/preemption",),
    ),
    Mutant("preemption/dry_runs.py", " or budgets != self._budgets:", ":", ("tests/preemption",)),
    Mutant(
        "preemption/dry_runs.py",
        "        for keyed in self._keyed.values():\n            keyed[rows] = False\n",
        "        pass\n",
        ("tests/preemption",),
    ),
    Mutant(
        "preemption/dry_runs.py",
        "self._forget([row for row in (self._own, own) if row is not None])",
        "pass",
        ("tests/preemption",),
    ),
    Mutant(
        "preemption/dry_runs.py",
        "        if self._pipeline != attempt.filter_dry_run.pipeline:\n",
        "        if not self._pipeline:\n",
        ("tests/preemption", "tests/scheduler/setup"),
    ),
    Mutant(
        "preemption/evictable.py", "kind.stale.update(changes.rows)", "pass", ("tests/preemption",)
    ),
    Mutant(
        "preemption/evictable.py", "none[list(kind.stale)] = False", "pass", ("tests/preemption",)
    ),
    Mutant(
        "preemption/evictable.py",
        "if asked is not None and asked[0] is attempt and asked[1] == version:",
        "if asked is not None and asked[0] is attempt:",
        ("tests/preemption",),
    ),
    Mutant(
        "preemption/budgets.py",
        "if self._version != self._objects.version:",
        "if self._version < 0:",
        ("tests/preemption",),
    ),
    Mutant(
        "preemption/budgets.py", "                self._changes += 1\n", "", ("tests/preemption",)
    ),
    Mutant(
        "cluster/pods_by_importance.py",
        "if kept.version < self._changed or kept.values.shape != shape:",
        "if kept.values.shape != shape:",
        ("tests/cluster/test_pods_by_importance.py", "tests/preemption"),
    ),
    Mutant(
        "cluster/pods_by_importance.py",
        "                for row in changes.rows:\n                    self._sort_one(row)\n",
        "                pass\n",
        ("tests/cluster/test_pods_by_importance.py", "tests/preemption"),
    ),
    # Pod groups.
    Mutant(
        "cluster/group_index.py",
        "        group.version = self.version\n",
        "        group.version = group.version or self.version\n",
        GROUPS,
    ),
    Mutant(
        "cluster/group_index.py",
        "            self.in_both[key] += sign\n",
        "            pass\n",
        GROUPS,
    ),
    Mutant("cluster/group_index.py", "        self.watched.note(key)\n", "", GROUPS),
    Mutant(
        "cluster/group_index.py",
        "            self.changed[key] = None\n        else",
        "            pass\n        else",
        GROUPS,
    ),
    Mutant(
        "framework/pod_groups.py",
        "        self._watched.note(key)\n",
        "",
        ("tests/scheduler/test_group_history.py", "tests/scheduler/test_permit_reject.py"),
    ),
    Mutant("framework/pod_groups.py", "GroupIndex(cache.groups)", "GroupIndex()", GROUPS),
    Mutant(
        "queue/heap.py",
        "                if queued.info.pod_group and self._has_grown(entry):\n",
        "                if False:\n",
        ("tests/scheduler/test_group_history.py",),
    ),
    Mutant(
        "framework/pod_groups.py",
        "            failures=history.failures if history.held == self._held(key) else 0,\n",
        "            failures=history.failures,\n",
        ("tests/scheduler/test_group_history.py", "tests/scheduler/test_permit_reject.py"),
    ),
    Mutant(
        "framework/pod_groups.py",
        "            history.failed_at, history.tried_since = now, None\n",
        "            history.failed_at = now\n",
        ("tests/scheduler/test_group_history.py",),
    ),
    # Volumes.
    Mutant(
        "plugins/volumes/node_labels.py",
        "if self._version != self._table.journal.nodes_version or self._kept_rows > KEPT_ROWS:",
        "if self._kept_rows > KEPT_ROWS:",
        ("tests/plugins/volumes",),
    ),
    Mutant(
        "plugins/volumes/limits.py",
        "if self._seen is not None and self._seen[0] is listed and self._seen[1] == version:",
        "if self._seen is not None and self._seen[0] is listed:",
        ("tests/plugins/volumes",),
    ),
)


if __name__ == "__main__":
    from tests.mutant_runs import main

    sys.exit(main())
