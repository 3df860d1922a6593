"""The verb ``eval``: one expression, its values, and where they come from."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from cyclopts import Parameter

from policy_sched.cli.input.cluster_files import expanded, problems_of, read_files
from policy_sched.cli.input.paths import ClusterPaths
from policy_sched.cli.input.values import MaxCostLimit, moment
from policy_sched.cli.output import diagnostics
from policy_sched.cli.output.report import write_report
from policy_sched.cluster import Cache
from policy_sched.errors import PolicyError, PolicySchedError
from policy_sched.explain import SELECTOR, evaluated, evaluated_on_devices, is_over_devices
from policy_sched.language.diagnostics import MAX_ANNOTATED_COST, PolicySource, did_you_mean
from policy_sched.language.stdlib import ANY, core_object, decoded_structs, policy_environment
from policy_sched.manifests import NO_STRUCTS, Structs, load, set_creation_times
from policy_sched.model import ApiObject, Pod, PodInfo, ResourceSlice
from policy_sched.profiles.load import beyond_ceiling, input_kinds, load_policies, policy_source
from policy_sched.report import Report
from policy_sched.scheduler.setup import load_cluster

Paths = Annotated[tuple[str, ...], Parameter(negative="", show_default=False)]


def evaluate(  # noqa: PLR0913  # each is an option of the command
    expression: Annotated[str, Parameter(name="EXPRESSION", allow_leading_hyphen=True)],
    /,
    *,
    pod: str | None = None,
    node: Paths = (),
    cluster: ClusterPaths = (),
    kubeconfig: str | None = None,
    section: str = ANY,
    policy: str | None = None,
    max_cost_limit: MaxCostLimit = MAX_ANNOTATED_COST,
    now: str | None = None,
    output: Annotated[Literal["text", "json"], Parameter(name=["--output", "-o"])] = "text",
) -> int:
    """Evaluate one expression of the rule language: its type, its cost, its value on each node.

    Shows for each part when it is computed: once when a policy is loaded, once per pod, once per
    node, or for each pod and node. The cost is estimated.

    An expression that reads device, or any with --section selector, is a selector as
    DeviceClasses and ResourceClaims have it: its value, or its error, is shown for each device of
    the ResourceSlices.

    Parameters
    ----------
    expression
        The expression, as in a rule.
    pod
        A file whose first pod is the pod of the expression.
    node
        Files with nodes.
    cluster
        Manifests of nodes, of pods that run on them and of ResourceSlices: files, directories, or
        - for standard input.
    kubeconfig
        Instead of --cluster: the live cluster of this kubeconfig, or of the pod that the process
        runs in (in-cluster). It is listed once, as by snapshot; nothing is written.
    section
        The section of a policy whose names it may read, and whose type it must have, such as
        filter or score; or selector.
    policy
        A policy file whose params, functions and variables the expression may use.
    max_cost_limit
        The most nanoseconds for each node that the annotation policysched.dev/cost-limit of a
        policy may let its rules cost; a policy that asks for more is refused.
    now
        The time that the expression sees, as in "2026-01-31T18:00:00Z"; the clock's unless given.
    output
        text, or json.
    """
    if cluster and kubeconfig is not None:
        raise PolicySchedError("--kubeconfig does not go together with --cluster")
    diagnostics.require_files(
        [*node, *cluster, *([pod] if pod else []), *([policy] if policy else [])]
    )
    if section == SELECTOR or (section == ANY and is_over_devices(expression)):
        unread = {"--pod": pod, "--node": node, "--policy": policy, "--now": now}
        write_report(_on_devices(expression, _objects(cluster, 0, kubeconfig), unread), output)
        return diagnostics.OK
    _require_section(section)
    seen = time.time_ns() if now is None else moment(now)
    source = None if policy is None else _source(policy, max_cost_limit)
    custom = _custom(expression, policy)
    cache = Cache()
    objects = _objects([*node, *cluster], seen, kubeconfig, custom=custom)
    load_cluster(cache, objects)
    info = None if pod is None else _pod(pod, seen, objects, custom)
    write_report(evaluated(expression, section, source, cache, info, seen, objects), output)
    return diagnostics.OK


def _custom(expression: str, policy: str | None) -> Structs:
    """Return how kinds are decoded that the expression, or its policy, may read."""
    inputs = {} if policy is None else input_kinds(load_policies([policy])[0])
    whole = map(core_object, ("Pod", "Node")) if ".object" in expression else ()
    return {**inputs, **decoded_structs(whole)}


def _on_devices(
    expression: str, objects: Sequence[ApiObject], unread: Mapping[str, object]
) -> Report:
    """Evaluate a selector on each device. Raises PolicySchedError for options it does not read."""
    if given := ", ".join(option for option, value in unread.items() if value):
        raise PolicySchedError(f"a selector over devices does not go together with {given}")
    slices = [obj for obj in objects if isinstance(obj, ResourceSlice)]
    return evaluated_on_devices(expression, slices)


def _require_section(section: str) -> None:
    """Raise PolicySchedError for a name that no section has."""
    sections = policy_environment().sections
    if section != ANY and section not in sections:
        hint = did_you_mean(section, (SELECTOR, *sections))
        raise PolicySchedError(f'there is no section "{section}"{hint}')


def _objects(
    paths: Sequence[str],
    now: int,
    kubeconfig: str | None = None,
    cluster: Sequence[ApiObject] = (),
    custom: Structs = NO_STRUCTS,
) -> list[ApiObject]:
    """Return the objects of manifests, and those of a live cluster.

    ``cluster``: the objects whose classes apply to pods, beside their own. ``custom``: how kinds
    are decoded that rules read.
    """
    live: list[ApiObject] = []
    if kubeconfig is not None:
        live = read_files((), kubeconfig=kubeconfig, custom=custom).objects
    manifests = load(list(paths), sys.stdin, cluster=[*live, *cluster], custom=custom)
    diagnostics.write_hints(manifests.hints)
    problems = problems_of(manifests)
    if diagnostics.exit_code(problems) != diagnostics.OK:
        raise PolicyError(problems)
    diagnostics.write_diagnostics(problems, sys.stderr)
    objects = [*expanded(manifests.objects, paths, cluster), *live]
    set_creation_times(objects, now)
    return objects


def _pod(path: str, now: int, cluster: Sequence[ApiObject], custom: Structs) -> PodInfo:
    """Return the first pod of a file, as if it had no node yet."""
    for obj in _objects([path], now, cluster=cluster, custom=custom):
        if isinstance(obj, Pod):
            info = PodInfo.of(obj)
            info.node_name = ""
            return info
    raise PolicySchedError(f"{path}: there is no pod")


def _source(path: str, max_cost_limit: int) -> PolicySource:
    """Return the one policy of a file."""
    policies, problems = load_policies([path])
    problems += beyond_ceiling(policies, max_cost_limit)
    if diagnostics.exit_code(problems) != diagnostics.OK:
        raise PolicyError(problems)
    diagnostics.write_diagnostics(problems, sys.stderr)
    if len(policies) != 1:
        raise PolicySchedError(f"{path}: one policy is needed here, not {len(policies)}")
    return policy_source(policies[0])
