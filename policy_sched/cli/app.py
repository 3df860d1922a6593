"""The verbs of the command line, and the application that finds them.

Verbs are imported when they are called, so that ``--help`` prints at once. What is not given by a
flag is taken from the environment: POLICY_SCHED_CHECK_OUTPUT is ``check --output``.
"""

from __future__ import annotations

from contextlib import suppress
from math import isfinite
from typing import Final, get_args

from cyclopts import App, ArgumentCollection, CoercionError
from cyclopts.config import Env

from policy_sched import __version__

VERBS: Final = {
    "simulate": (
        "policy_sched.cli.simulate:simulate",
        "Decide every pending pod of a set of manifests and print the placements.",
    ),
    "run": (
        "policy_sched.cli.run:run",
        "Schedule continuously, on an embedded cluster or on that of a kubeconfig.",
    ),
    "manifests": (
        "policy_sched.cli.manifests:print_manifests",
        "Print what a cluster needs to run policy_sched, for kubectl apply.",
    ),
    "test": (
        "policy_sched.cli.test:run_scenarios",
        "Run tests of policies and print every difference from what they expect.",
    ),
    "rollout": (
        "policy_sched.cli.rollout:rollout",
        "Show where a rollout is, or promote or abort its candidate.",
    ),
    "prove": (
        "policy_sched.cli.prove:prove",
        "Say what holds of policies for every pod and every node.",
    ),
    "check": (
        "policy_sched.cli.check:check",
        "Check policies and scheduler configurations; print every problem with its place.",
    ),
    "fmt": (
        "policy_sched.cli.fmt:fmt",
        "Format policy files.",
    ),
    "explain": (
        "policy_sched.cli.explain:explain",
        "Explain why a pod goes to its node, or to none, and what would change that.",
    ),
    "fit": (
        "policy_sched.cli.fit:fit",
        "Count the replicas of a pod or a gang that fit on a cluster now.",
    ),
    "snapshot": (
        "policy_sched.cli.snapshot:snapshot",
        "Write all that deciding reads of a cluster to one file.",
    ),
    "record": (
        "policy_sched.cli.snapshot:record",
        "Record what comes, changes, goes and is decided in a cluster.",
    ),
    "eval": (
        "policy_sched.cli.eval:evaluate",
        "Evaluate one expression: its type, its cost, its value on each node.",
    ),
    "console": (
        "policy_sched.cli.console:console",
        "Show a cluster, its pods and its policies in the browser.",
    ),
    "diff": (
        "policy_sched.cli.diff:diff",
        "Compare two policy sets, and show which pods would go elsewhere.",
    ),
    "replay": (
        "policy_sched.cli.replay:replay",
        "Decide recorded traffic again, in virtual time.",
    ),
    "sweep": (
        "policy_sched.cli.sweep:sweep",
        "Run every variant of an Experiment with every seed, and write tables.",
    ),
    "tune": (
        "policy_sched.cli.sweep:tune",
        "Search the weights and parameters of an Experiment for the best variant.",
    ),
    "lsp": (
        "policy_sched.cli.completion:serve",
        "Run the language server: problems, completion, hover, formatting.",
    ),
    "schema": (
        "policy_sched.cli.docs:schema",
        "Print a JSON Schema for editors and validators.",
    ),
    "docs": (
        "policy_sched.cli.docs:docs",
        "Print a page of the documentation, or the entry of a name.",
    ),
    "init": (
        "policy_sched.cli.init:init",
        "Write a first policy, its test, and a CI job that checks both.",
    ),
    "completion": (
        "policy_sched.cli.completion:completion",
        "Print a shell's completion script.",
    ),
    "bench": (
        "policy_sched.cli.bench:bench",
        "Measure decisions per second on a generated cluster.",
    ),
}


def _numbers(_app: App, _commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Refuse fractions of whole numbers, which would be rounded in silence, and infinities."""
    for argument in arguments:
        types = (argument.hint, *get_args(argument.hint))
        for token in argument.tokens:
            if int in types and "." in token.value:
                raise CoercionError(token=token, argument=argument, target_type=int)
            with suppress(ValueError):
                if float in types and not isfinite(float(token.value)):
                    raise CoercionError(token=token, argument=argument, target_type=float)


app = App(
    name="policy-sched",
    help="A Kubernetes scheduler whose policy is data.",
    version=__version__,
    help_format="plaintext",
    exit_on_error=False,
    print_error=False,
    result_action="return_value",
    config=(Env("POLICY_SCHED_", show=False), _numbers),
)
for _verb, (_function, _help) in VERBS.items():
    app.command(_function, name=_verb, help=_help)
