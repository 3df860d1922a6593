"""The verb ``schema``: prints a JSON Schema for editors and validators."""

from __future__ import annotations

import sys
from typing import Literal

from policy_sched.cli.output.diagnostics import OK
from policy_sched.profiles import models

FILES = {
    "policy": models.POLICY_FILE,
    "configuration": models.CONFIGURATION_FILE,
    "test": models.TEST_FILE,
    "experiment": models.EXPERIMENT_FILE,
}


def schema(kind: Literal["policy", "configuration", "test", "experiment"] = "policy", /) -> int:
    """Print a JSON Schema (draft-07).

    Parameters
    ----------
    kind
        policy: Policy; configuration: KubeSchedulerConfiguration; test: PolicyTest;
        experiment: Experiment.
    """
    sys.stdout.write((models.schemas_directory() / FILES[kind]).read_text(encoding="utf-8"))
    return OK
