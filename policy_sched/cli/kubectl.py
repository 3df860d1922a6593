"""``kubectl policy-sched``: the verbs on the cluster that kubectl would use.

kubectl runs the program kubectl-policy_sched with what follows the plugin's name. Its flags
--kubeconfig, --context and --namespace mean here what they mean there, and without the first one
the kubeconfig is kubectl's, too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from policy_sched.errors import PolicySchedError

ON_A_CLUSTER: Final = frozenset(
    {"console", "diff", "eval", "explain", "fit", "record", "rollout", "snapshot"}
)
"""Verbs that look at a cluster: the one of kubectl, unless files are named."""
SOURCES: Final = ("--kubeconfig", "--cluster", "--server")
_FLAGS: Final = {"--context": "context", "--namespace": "namespace", "-n": "namespace"}


@dataclass(slots=True)
class KubectlArguments:
    """The arguments of the plugin: kubectl's flags apart from those of the verb."""

    rest: list[str] = field(default_factory=list)
    context: str = ""
    namespace: str = ""

    @property
    def verb(self) -> str:
        """The verb, empty where there is none."""
        return self.rest[0] if self.rest and not self.rest[0].startswith("-") else ""


def parsed(arguments: Sequence[str]) -> KubectlArguments:
    """Return the arguments. Raises PolicySchedError for a flag of kubectl without a value."""
    read, left = KubectlArguments(), list(arguments)
    while left:
        word = left.pop(0)
        if word == "--":
            read.rest += [word, *left]
            break
        name, equals, value = word.partition("=")
        if name not in _FLAGS:
            read.rest.append(word)
            continue
        if not equals:
            value = left.pop(0) if left else ""
        if not value:
            raise PolicySchedError(f"{name} needs a value")
        setattr(read, _FLAGS[name], value)
    return read


def command(given: KubectlArguments, environ: Mapping[str, str], namespace: str) -> list[str]:
    """Return the command line of policy-sched; ``namespace``: that of the context, if any.

    Raises PolicySchedError for a flag of kubectl that the verb has no use for.
    """
    words, verb = list(given.rest), given.verb
    if given.namespace and verb != "explain":
        raise PolicySchedError("--namespace is for explain: other verbs read the whole cluster")
    named = [word for word in words if word.partition("=")[0] in SOURCES]
    if verb in ON_A_CLUSTER and not named and "--help" not in words:
        words += ["--kubeconfig", kubeconfig_of(environ)]
    if verb == "explain" and len(words) > 1:
        pod, chosen = words[1], given.namespace or namespace
        if not pod.startswith("-") and "/" not in pod and chosen:
            words[1] = f"{chosen}/{pod}"
    return words


def kubeconfig_of(environ: Mapping[str, str]) -> str:
    """Return the kubeconfig that kubectl uses: KUBECONFIG, or ~/.kube/config."""
    return environ.get("KUBECONFIG") or os.path.join(environ.get("HOME", ""), ".kube", "config")


def main() -> None:
    """Run the plugin and exit."""
    from policy_sched.cli import main as program  # noqa: PLC0415 - the program imports little

    try:
        given = parsed(sys.argv[1:])
        if given.context:
            os.environ["POLICY_SCHED_CONTEXT"] = given.context
        words = command(given, os.environ, _namespace(given))
    except PolicySchedError as error:
        print(f"kubectl policy-sched: {error}", file=sys.stderr)
        sys.exit(2)
    sys.argv[1:] = words
    program.main()


def _namespace(given: KubectlArguments) -> str:
    """Return the namespace of the context where it matters; the verb says what is wrong with it."""
    if given.verb != "explain" or given.namespace:
        return ""
    words = given.rest
    if any(word.partition("=")[0] == "--cluster" for word in words):
        return ""
    from policy_sched.cli.input.live_cluster import environment_of  # noqa: PLC0415 - explain alone

    named = kubeconfig_of(os.environ)
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name == "--kubeconfig":
            named = value if equals else following
    try:
        return environment_of(named)[1].namespace
    except (PolicySchedError, OSError):
        return ""


if __name__ == "__main__":
    main()
