"""The verb ``manifests``: prints what a cluster needs to run policy_sched, or its Dockerfile."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from policy_sched import deploy
from policy_sched.cli.options.kubeconfig import PolicyObjectsFlags, name_of_other
from policy_sched.cli.options.policies import PolicyFlags
from policy_sched.cli.output.diagnostics import OK, write_diagnostics
from policy_sched.deploy import custom_resources, manifests
from policy_sched.errors import PolicySchedError

Output = Annotated[Literal["yaml", "json"], Parameter(name=["--output", "-o"])]


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class DeploymentFlags:
    """Flags of a deployment.

    Parameters
    ----------
    namespace
        Namespace of the deployment; printed, too, unless it is kube-system.
    name
        Name of all objects, and of the lease unless --config names one.
    image
        The image of the containers; see --dockerfile.
    scheduler_name
        The schedulerName of the pods to schedule; --name unless given.
    replicas
        Pods of the Deployment, of which one schedules; 2 unless given, and 1 for a shadow.
    shadow
        Run as the shadow of another scheduler (default-scheduler unless one is named), whose
        account may only read.
    service_monitor
        Print a Service and a ServiceMonitor, too, for the Prometheus operator.
    alerts
        Print a PrometheusRule, too: alerts about the scrapes of the ServiceMonitor.
    dashboard
        Print a ConfigMap with a dashboard, too, which the sidecar of Grafana's chart finds.
    tls_secret
        A Secret of the namespace with the certificate of the endpoints (tls.crt, tls.key), as
        cert-manager keeps them, read again when it changes; Prometheus trusts its ca.crt. Without
        it a certificate is made at the start, and Prometheus cannot check it.
    policy_objects
        Run with this option, and print the rights that it needs; see --crds.
    """

    namespace: str = deploy.SYSTEM
    name: str = deploy.NAME
    image: str = deploy.IMAGE
    scheduler_name: str | None = None
    replicas: int | None = None
    shadow: Annotated[tuple[str, ...] | None, Parameter(consume_multiple=True, negative="")] = None
    service_monitor: Annotated[bool, Parameter(negative="")] = False
    alerts: Annotated[bool, Parameter(negative="")] = False
    dashboard: Annotated[bool, Parameter(negative="")] = False
    tls_secret: str | None = None
    policy_objects: Annotated[
        tuple[str, ...] | None, Parameter(consume_multiple=True, negative="")
    ] = None

    @property
    def options(self) -> deploy.Options:
        """The deployment. Raises PolicySchedError for names that the API server rejects."""
        objects = PolicyObjectsFlags(self.policy_objects).selector
        names = {"shadow": name_of_other(self.shadow), "policy_objects": objects}
        given = deploy.Options(**{**asdict(self), **names})
        given.check()
        return given


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class InsteadFlags:
    """What is printed instead of a deployment.

    Parameters
    ----------
    crds
        Print what policies as objects need instead: their CustomResourceDefinition, and roles of
        authors and readers.
    webhook
        With --crds and --tls-secret: print a ValidatingWebhookConfiguration, too, with which the
        API server has policies checked before it stores them.
    ca_file
        With --webhook: the authority (PEM) that signed the certificate of --tls-secret; without
        it cert-manager fills it in.
    dockerfile
        Print the recipe of the image instead, and nothing else.
    rule_file
        Print the alerts as a rule file of Prometheus instead, for one without the operator: about
        the scrapes whose job is --name.
    dashboard_file
        Print the dashboard as a file that Grafana imports instead.
    """

    crds: Annotated[bool, Parameter(negative="")] = False
    webhook: Annotated[bool, Parameter(negative="")] = False
    ca_file: str | None = None
    dockerfile: Annotated[bool, Parameter(negative="")] = False
    rule_file: Annotated[bool, Parameter(negative="")] = False
    dashboard_file: Annotated[bool, Parameter(negative="")] = False

    def authority(self, options: deploy.Options) -> bytes:
        """Return the authority. Raises PolicySchedError for flags that do not go together."""
        if self.webhook and not self.crds:
            raise PolicySchedError("--webhook is for --crds")
        if self.webhook and options.tls_secret is None:
            text = "--webhook needs --tls-secret: the API server has to trust the certificate"
            raise PolicySchedError(text)
        if self.ca_file is None:
            return b""
        if not self.webhook:
            raise PolicySchedError("--ca-file is for --webhook")
        authority = Path(self.ca_file).read_bytes()
        if b"-----BEGIN CERTIFICATE-----" not in authority:
            raise PolicySchedError(f"{self.ca_file}: there is no certificate (PEM) in this file")
        return authority


def print_manifests(
    *,
    policy: PolicyFlags | None = None,
    deployment: DeploymentFlags | None = None,
    instead: InsteadFlags | None = None,
    output: Output = "yaml",
) -> int:
    """Print what a cluster needs: account and rights, policies, Deployment, disruption budget.

    For kubectl apply -f -. The files are checked first; without --config a configuration is made
    that enables all policies. The account may do what the scheduler
    asks for, and nothing else; the pods follow changes of the ConfigMaps without a restart.

    Parameters
    ----------
    output
        yaml, or json: a List. The same bytes for the same input.
    """
    options, instead = (deployment or DeploymentFlags()).options, instead or InsteadFlags()
    authority = instead.authority(options)
    if instead.dockerfile:
        sys.stdout.write(files("policy_sched.deploy").joinpath("Dockerfile").read_text("utf-8"))
    elif instead.rule_file:
        sys.stdout.write(deploy.as_yaml([deploy.alert_rules(options)]))
    elif instead.dashboard_file:
        sys.stdout.write(deploy.dashboard(options))
    else:
        crds = custom_resources(options, webhook=instead.webhook, authority=authority)
        deployed = _deployed(policy or PolicyFlags(), options)
        printed = list(crds if instead.crds else deployed)
        sys.stdout.write(deploy.as_json(printed) if output == "json" else deploy.as_yaml(printed))
    return OK


def _deployed(policy: PolicyFlags, options: deploy.Options) -> Iterator[dict[str, Any]]:
    """Yield the objects of a deployment; warnings about its files go to the standard error."""
    given = policy.files()
    options = replace(
        options, max_cost_limit=given.max_cost_limit, feature_gates=given.feature_gates
    )
    deployed = deploy.contents(options, policy.config, given.policies)
    write_diagnostics(deployed.warnings, sys.stderr)
    yield from manifests(options, deployed)
