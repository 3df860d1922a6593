"""What is asked of a deployment: names, image, replicas; and what no API server would take."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from policy_sched import __version__
from policy_sched.errors import PolicySchedError
from policy_sched.language.diagnostics import MAX_ANNOTATED_COST

NAME: Final = "policy-sched"
SYSTEM: Final = "kube-system"
APP: Final = "app.kubernetes.io/name"
IMAGE: Final = f"policy-sched:{__version__}"
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(
    r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)


@dataclass(frozen=True, slots=True)
class Options:
    """One deployment. ``shadow``: whose shadow it is, None for a scheduler that binds.

    ``tls_secret``: the Secret with the certificate of the endpoints, None to make one at the start.
    ``max_cost_limit``: the most that a policy's annotation may let its rules cost.
    """

    namespace: str = SYSTEM
    name: str = NAME
    image: str = IMAGE
    scheduler_name: str | None = None
    replicas: int | None = None
    shadow: str | None = None
    service_monitor: bool = False
    tls_secret: str | None = None
    max_cost_limit: int = MAX_ANNOTATED_COST

    @property
    def profile(self) -> str:
        """The schedulerName of a configuration that is made."""
        return self.scheduler_name or self.shadow or self.name

    def check(self) -> None:
        """Raise PolicySchedError for what no API server would take."""
        for option, value, rule in (
            ("--namespace", self.namespace, _LABEL),
            ("--name", self.name, _LABEL),
            ("--scheduler-name", self.scheduler_name, _SUBDOMAIN),
            ("--shadow", self.shadow, _SUBDOMAIN),
            ("--tls-secret", self.tls_secret, _SUBDOMAIN),
        ):
            if value is not None and not rule.fullmatch(value):
                raise PolicySchedError(f"{option} {value!r} is no name of Kubernetes")
        if not self.image or any(mark.isspace() for mark in self.image):
            raise PolicySchedError(f"--image {self.image!r} is no name of an image")
        if self.replicas is not None and self.replicas < 1:
            raise PolicySchedError("--replicas must be 1 at least")
        if self.shadow is not None and (self.replicas or 1) > 1:
            raise PolicySchedError("a shadow holds no lease: one replica is enough")
