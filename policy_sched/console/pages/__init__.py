"""The pages of the console: one module for each, with a pure function that makes its values.

A page reads a `Source` and the address, and returns view models of `web`; its template is below
``console/templates``. The state of a page is in its address.
"""

from policy_sched.console.pages import (
    experiments,
    node,
    nodes,
    overview,
    pod,
    pods,
    policy_editor,
    rollout,
    timeline,
)
from policy_sched.console.pages.page import (
    Missing as Missing,
    Page as Page,
    Query as Query,
    Results as Results,
    View as View,
)

ALL = (
    overview.PAGE,
    pods.PAGE,
    pod.PAGE,
    nodes.PAGE,
    node.PAGE,
    policy_editor.POLICIES,
    policy_editor.EDITOR,
    rollout.PAGE,
    timeline.PAGE,
    experiments.PAGE,
)
"""In the order of the navigation."""


def pages(*, has_cluster: bool, has_results: bool, runs: bool = False) -> tuple[Page, ...]:
    """Return the pages for what is looked at; ``runs``: a scheduler that decides."""
    given = {"": True, "cluster": has_cluster, "results": has_results, "running": runs}
    return tuple(page for page in ALL if given[page.needs])
