"""The verb ``schema``: prints a JSON Schema for editors and validators."""

from __future__ import annotations

import sys
from typing import Literal

from policy_sched.cli.output.diagnostics import OK
from policy_sched.profiles.models import (
    CONFIGURATION_FILE,
    EXPERIMENT_FILE,
    POLICY_FILE,
    TEST_FILE,
    schemas_directory,
)

FILES = {
    "policy": POLICY_FILE,
    "configuration": CONFIGURATION_FILE,
    "test": TEST_FILE,
    "experiment": EXPERIMENT_FILE,
}


def schema(kind: Literal["policy", "configuration", "test", "experiment"] = "policy", /) -> int:
    """Print a JSON Schema (draft-07).

    Parameters
    ----------
    kind
        policy: Policy; configuration: KubeSchedulerConfiguration; test: PolicyTest;
        experiment: Experiment.
    """
    sys.stdout.write((schemas_directory() / FILES[kind]).read_text(encoding="utf-8"))
    return OK
