"""What a trial shows: the report of `diff` over the set in force and the edited one."""

from __future__ import annotations

from policy_sched.console.pages.links import linked
from policy_sched.console.trials import PolicyTrial
from policy_sched.diff import diff_page
from policy_sched.web import Block, Problem, Prose, Section, Text, Value


def sections(trial: PolicyTrial, href: str) -> list[Section]:
    """Return the result of a trial; ``href``: the address of the editor, for problems."""
    problems: list[Block] = [
        Problem.of(problem, f"{href}&line={problem.line}") for problem in trial.problems
    ]
    if trial.found is None:
        text = "The edited policies have errors, so nothing was decided."
        return [Section("Problems", [Prose([Text(text, tone="bad")]), *problems])]
    page = diff_page(trial.found)
    texts: list[Value] = [page.lead]
    if not trial.pending:
        text = "The cluster has no pending pods: there is nothing to decide, with either set."
        texts.append(Text(text, tone="warn"))
    texts.append(
        Text("OLD is the set in force, NEW the edited one; nothing is applied.", tone="dim")
    )
    texts += [
        Text(one.replace("--seeds 10", "Trying 10 seeds"), tone="dim")
        for one in page.remarks
        if not one.startswith(("OLD: ", "NEW: "))  # both have one configuration
    ]
    facts: list[Block] = [] if page.facts is None else [page.facts]
    warnings = [Section("Warnings", problems)] if problems else []
    return [Section("Result", [Prose(texts), *facts]), *linked(page.sections), *warnings]
