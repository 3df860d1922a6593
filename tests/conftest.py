"""Hypothesis' profiles: a run is like the last one, however slow the machine, unless asked.

``--hypothesis-profile=others`` takes other examples, ``--hypothesis-seed`` says which, and
``--hypothesis-profile=deep`` many of them. Bytecode is kept, whatever the environment says.
"""

from __future__ import annotations

import gc
import os
import sys

from hypothesis import HealthCheck, settings

# Hundreds of tests start a Python process: each would compile every module anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Commands that tests start keep nothing in the home directory.
os.environ["POLICY_SCHED_CACHE"] = ""

settings.register_profile(
    "steady",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("others", settings.get_profile("steady"), derandomize=False)
settings.register_profile("deep", settings.get_profile("others"), max_examples=3000)
if settings.get_current_profile_name() in {"default", "ci"}:
    settings.load_profile("steady")


def pytest_collection_finish() -> None:
    """Take modules, tests and strategies out of garbage collection, which looks at them often.

    A full collection then takes a tenth of the time.
    """
    gc.collect()
    gc.freeze()
