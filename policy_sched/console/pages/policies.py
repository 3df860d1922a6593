"""The policies: the loaded set, its files with problems in place, and what each rule does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from policy_sched import web
from policy_sched.console.pages import page
from policy_sched.console.sources import ClusterSource
from policy_sched.console.trials import Hits, SourceText, source_texts
from policy_sched.errors import Diagnostic
from policy_sched.model import counted, datetime_of
from policy_sched.profiles.build import CompiledPlan
from policy_sched.profiles.reload import PolicyStore, ReloadResult

HASH: Final = 12
"""Hexadecimal digits that are shown of a hash."""
PROBLEMS: Final = 50
"""Problems that are shown."""
EDIT: Final = "/policies/edit"


def view(source: ClusterSource, query: page.Query, results: page.Results) -> page.View:
    """Return the values of the page."""
    del query, results
    store = source.store
    problems = [*store.status.problems, *store.current.warnings]
    texts = source_texts(store.files)
    return {
        "sections": [
            _state(store, fallback=source.status.fallback),
            *_problems(problems),
            _profiles(store.current.plans),
            _policies(store.current.plans),
        ],
        "files": files(texts, problems),
        "edit": EDIT,
    }


def _state(store: PolicyStore, *, fallback: bool) -> web.Section:
    current, status = store.current, store.status
    broken = "the files have errors; the default profile decides"
    state = (
        web.Badge(broken if fallback else "the last reload was refused", "bad")
        if status.refused_at
        else web.Badge("in force", "good")
    )
    facts = [
        web.Fact("state", state),
        web.Fact("generation", f"{current.generation:,}"),
        web.Fact("content hash", web.Text(current.content_hash[:HASH], code=True)),
        web.Fact("in force since", _time(status.loaded_at)),
        web.Fact("files last valid", _time(status.succeeded_at)),
    ]
    if status.refused_at:
        facts.append(web.Fact("refused", web.Text(_time(status.refused_at), tone="bad")))
    reloads = ", ".join(f"{count:,} {result}" for result, count in _counted(status.counts) if count)
    facts.append(web.Fact("reloads", reloads or "none"))
    blocks: list[web.Block] = [web.Facts(facts)]
    if status.restart:
        waiting = f"These settings take effect after a restart: {', '.join(status.restart)}."
        blocks.append(web.Prose([web.Text(waiting, tone="warn")]))
    return web.Section("The set in force", blocks)


def _counted(counts: dict[ReloadResult, int]) -> Iterable[tuple[str, int]]:
    return ((str(result), count) for result, count in counts.items())


def _time(nanoseconds: int) -> str:
    return datetime_of(nanoseconds).strftime("%Y-%m-%d %H:%M:%S UTC") if nanoseconds else "never"


def _problems(problems: Sequence[Diagnostic]) -> list[web.Section]:
    if not problems:
        return []
    shown: list[web.Block] = [
        web.DiagnosticView.of(problem, edit_href(problem)) for problem in problems[:PROBLEMS]
    ]
    if len(problems) > PROBLEMS:
        shown.append(web.Prose([f"and {counted(len(problems) - PROBLEMS, 'more problem')}"]))
    return [web.Section("Problems", shown)]


def edit_href(problem: Diagnostic) -> str:
    """Return the address of the editor at a problem."""
    return page.address(EDIT, file=problem.file, line=problem.line)


def _profiles(plans: Sequence[CompiledPlan]) -> web.Section:
    rows: list[Sequence[web.Value]] = [
        [
            ready.plan.scheduler_name,
            web.Text(ready.content_hash[:HASH], code=True),
            f"{len(ready.plan.plugins):,}",
            f"{len(ready.own):,}",
        ]
        for ready in plans
    ]
    columns = [
        web.Column("Profile"),
        web.Column("Hash"),
        web.Column("Plugins", number=True),
        web.Column("Of these, your policies", number=True),
    ]
    return web.Section("Profiles", [web.Table("Profiles of the set in force", columns, rows)])


def _policies(plans: Sequence[CompiledPlan]) -> web.Section:
    rows: list[Sequence[web.Value]] = [
        [
            name,
            ready.plan.scheduler_name,
            web.Text(ready.hashes[name].whole[:HASH], code=True),
            ", ".join(point for point, names in ready.plan.points.items() if _in(name, names)),
            _weight(ready, name),
        ]
        for ready in plans
        for name in ready.own
    ]
    columns = [
        web.Column("Policy"),
        web.Column("Profile"),
        web.Column("Hash"),
        web.Column("Extension points"),
        web.Column("Weight", number=True),
    ]
    empty = "only the default profile decides"
    return web.Section(
        "Policies", [web.Table("Policies beside the default ones", columns, rows, "", empty)]
    )


def _in(name: str, enabled: Iterable[tuple[str, int]]) -> bool:
    return any(name == plugin for plugin, _ in enabled)


def _weight(ready: CompiledPlan, name: str) -> str:
    weight = next((w for plugin, w in ready.plan.points.get("score", ()) if plugin == name), None)
    return "" if weight is None else str(weight)


def files(texts: Sequence[SourceText], problems: Sequence[Diagnostic]) -> list[dict[str, object]]:
    """Return each file with its problems in place, and the address of the editor."""
    return [
        {
            "href": page.address(EDIT, file=text.path),
            "path": text.path,
            "problem": text.problem,
            "source": web.Source(text.path, text.text, marks, folded=not marks),
        }
        for text in texts
        for marks in (_marks(text.path, problems),)
    ]


def _marks(path: str, problems: Iterable[Diagnostic]) -> dict[int, web.Badge]:
    badges: dict[int, web.Badge] = {}
    for problem in problems:
        if problem.file == path and problem.line not in badges:
            tone: web.Tone = "bad" if problem.severity == "error" else "warn"
            badges[problem.line] = web.Badge(f"{problem.code}: {problem.message}", tone)
    return badges


def hits_sections(hits: Hits) -> list[web.Section]:
    """Return what each policy and rule applied to."""
    rows: list[Sequence[web.Value]] = []
    for policy in hits.policies:
        errors: web.Value = (
            web.Text(f"{policy.failed:,}: {policy.error}", tone="bad") if policy.failed else ""
        )
        rows.append(
            [
                web.Text(policy.policy, note=f"of {policy.profile}"),
                f"{policy.matched:,}",
                _number(policy.rejected),
                _number(policy.scored),
                errors,
            ]
        )
        rows += [
            [
                web.Text(rule.rule, tone="dim"),
                f"{rule.pods:,}",
                f"{rule.nodes:,}",
                "",
                "",
            ]
            for rule in policy.rules
        ]
    columns = [
        web.Column("Policy or rule"),
        web.Column(
            "Pods", number=True, note="that it applies to, or for which the rule rejects a node"
        ),
        web.Column("Nodes rejected", number=True, note="for one of the pods"),
        web.Column("Nodes scored above 0", number=True, note="for one of the pods"),
        web.Column("Errors"),
    ]
    pods, nodes = counted(hits.pods, "pending pod"), counted(hits.nodes, "node")
    note = f"{pods} on {nodes}, decided one after the other; each rule counts as if it were alone."
    empty = "there is no policy beside those of the default profile"
    table = web.Table("Hits of policies and rules", columns, rows, note, empty)
    return [web.Section("What each rule does", [table])]


def _number(count: int | None) -> str:
    return "" if count is None else f"{count:,}"
