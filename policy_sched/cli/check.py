"""The verb ``check``: every problem of policies and scheduler configurations, with its place."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number
from msgspec.structs import replace

from policy_sched.cli.input.parallel_map import parallel_map
from policy_sched.cli.input.paths import PathsOrStdin
from policy_sched.cli.input.values import MaxCostLimit
from policy_sched.cli.output import diagnostics, junit_tap_sarif
from policy_sched.cli.output.report import write_report
from policy_sched.errors import Diagnostic, PolicySchedError
from policy_sched.language.diagnostics import MAX_ANNOTATED_COST
from policy_sched.profiles.check import Checkup, check_all
from policy_sched.profiles.load import files_of_ours
from policy_sched.source import Marked

if TYPE_CHECKING:
    from policy_sched.cli.input.live_cluster import Definitions

Output = Literal["text", "json", "github", "junit", "tap", "sarif", "gitlab"]


def check(  # noqa: PLR0913  # one parameter for each option
    paths: PathsOrStdin,
    /,
    *,
    output: Annotated[Output, Parameter(name=["--output", "-o"])] = "text",
    strict: Annotated[bool, Parameter(name=["--strict", "--fail-on-warn"], negative="")] = False,
    lint_fatal: Annotated[bool, Parameter(negative="")] = False,
    snapshot: Annotated[
        tuple[str, ...],
        Parameter(name=["--snapshot", "--cluster"], negative="", show_default=False),
    ] = (),
    kubeconfig: str | None = None,
    nodes: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    ignore_unknown: Annotated[bool, Parameter(negative="")] = False,
    max_cost_limit: MaxCostLimit = MAX_ANNOTATED_COST,
) -> int:
    """Check policies and scheduler configurations; print every problem with its place.

    Selectors over devices are checked, too, in the DeviceClasses, ResourceClaims and
    ResourceClaimTemplates of manifests.

    Errors keep a policy from being loaded. Warnings and notes are about policies that are valid
    and probably not what was meant; a comment "# policy-sched: ignore[PS412] reason" on the line,
    or above it, silences them.

    Parameters
    ----------
    paths
        Policy, PolicyTest, Experiment and KubeSchedulerConfiguration files, manifests with device
        classes or resource claims, directories of them, or - for standard input.
    output
        text: position, line and caret; json; github: annotations for a pull request; junit, tap:
        a test per file; sarif: version 2.1.0; gitlab: Code Quality of a merge request.
    strict
        Exit with 1 for warnings, too.
    lint_fatal
        Exit with 3 if there are warnings and no errors, as promtool does.
    snapshot
        Manifests or a snapshot of a cluster, as simulate reads them: warns of labels, resources,
        taints and priority classes that nothing there has, and of filters that reject all of its
        nodes. Selectors over devices are warned about that name attributes which no device there
        has; those in the manifests are checked, too.
    kubeconfig
        Instead of --snapshot: the live cluster of this kubeconfig, or of the pod that the process
        runs in (in-cluster). It is listed once, as by snapshot; nothing is written. Schemas of
        inputs are held against its CustomResourceDefinitions, too.
    nodes
        Number of nodes for which the time that the rules take is estimated, in text.
    ignore_unknown
        Skip files without policies, tests, configurations, device classes or resource claims,
        judged by their content: for hooks that get every YAML file.
    max_cost_limit
        The most nanoseconds for each node that the annotation policysched.dev/cost-limit of a
        policy may let its rules cost; a policy that asks for more is refused.
    """
    if snapshot and kubeconfig is not None:
        named = "--kubeconfig does not go together with files of a cluster (--cluster, --snapshot)"
        raise PolicySchedError(named)
    diagnostics.require_files([*paths, *snapshot])
    if ignore_unknown:
        paths = tuple(files_of_ours(paths))
    checked = partial(
        check_all,
        paths,
        stdin=sys.stdin,
        refuse_others=not ignore_unknown,
        max_cost_limit=max_cost_limit,
        experiments=_experiment,
    )
    if snapshot or kubeconfig is not None:
        checkup = _against(checked, paths, snapshot, kubeconfig)
    else:
        checkup = checked(each=parallel_map)
    _write(checkup, output, strict=strict)
    if nodes is not None and output == "text":
        from policy_sched.profiles.check import cost_report  # noqa: PLC0415  only here

        write_report(cost_report(checkup.policies, nodes), "text")
    return _exit_code(checkup, strict=strict, lint_fatal=lint_fatal)


def _exit_code(checkup: Checkup, *, strict: bool, lint_fatal: bool) -> int:
    if junit_tap_sarif.failures(checkup.diagnostics, strict=False):
        return diagnostics.FAILED
    warned = bool(junit_tap_sarif.failures(checkup.diagnostics, strict=True))
    if warned and lint_fatal:
        return diagnostics.LINTED
    return diagnostics.FAILED if warned and strict else diagnostics.OK


def _against(
    checked: Callable[..., Checkup],
    paths: tuple[str, ...],
    snapshot: tuple[str, ...],
    kubeconfig: str | None,
) -> Checkup:
    """Check files against a cluster; problems of its manifests are reported beside theirs."""
    # API objects and the cluster take 50 ms to import.
    from policy_sched.cli.input.cluster_files import read_files  # noqa: PLC0415  see above
    from policy_sched.manifests import Manifests, load  # noqa: PLC0415  see above
    from policy_sched.model import CustomObject  # noqa: PLC0415  see above
    from policy_sched.profiles.check import device_names, selectors_of, snapshot_of  # noqa: PLC0415  see above
    from policy_sched.profiles.reload import PolicyFiles  # noqa: PLC0415  see above

    custom = PolicyFiles(None, paths).input_kinds()
    definitions: Definitions = {}
    if kubeconfig is None:
        manifests = load(snapshot, sys.stdin, custom=custom)
    else:
        from policy_sched.cli.input.live_cluster import read_definitions  # noqa: PLC0415  see above

        manifests = Manifests(read_files((), kubeconfig=kubeconfig, custom=custom).objects, [])
        further = [kind for kind, struct in custom.items() if struct is CustomObject]
        definitions = read_definitions(kubeconfig, further) if further else {}
    diagnostics.write_hints(manifests.hints)
    seen = snapshot_of(manifests.objects, definitions)
    wrong = diagnostics.exit_code(manifests.diagnostics) != diagnostics.OK
    lint = None if wrong else seen.lint
    checkup = checked(lint, devices=device_names(manifests.objects))
    problems = sorted({*checkup.diagnostics, *manifests.diagnostics, *selectors_of(manifests)})
    return replace(checkup, diagnostics=problems)


def _experiment(marked: Marked) -> list[Diagnostic]:
    """Return every problem of an Experiment, of the files that it names, too."""
    from policy_sched.experiments import experiment_problems  # noqa: PLC0415  150 ms of imports

    return experiment_problems(marked)


def _write(checkup: Checkup, output: Output, *, strict: bool) -> None:
    problems = checkup.diagnostics
    if output in ("text", "json", "github"):
        diagnostics.write_diagnostics(problems, sys.stdout, output)
        if output == "text" and not problems:
            print("no problems found")
    elif output in ("junit", "tap"):
        cases = junit_tap_sarif.cases_of(checkup.files, problems, checkup.seconds, strict=strict)
        sys.stdout.write(
            junit_tap_sarif.as_junit(cases) if output == "junit" else junit_tap_sarif.as_tap(cases)
        )
    else:
        sys.stdout.write(
            junit_tap_sarif.as_gitlab(problems)
            if output == "gitlab"
            else junit_tap_sarif.as_sarif(problems)
        )
