"""Hypothesis' profiles: a run is like the last one, however slow the machine, unless asked.

The profile ``steady`` takes the first 30 of 100 examples, always the same ones.
``--hypothesis-profile=others`` takes all of them, each time other ones; ``--hypothesis-seed`` says
which, and ``--hypothesis-profile=deep`` takes 30 times as many. With ``mutants`` the first example
that fails ends a property: no smaller one is looked for. Bytecode is kept, whatever the environment
says. With ``-n auto`` there is one process of tests more than there are processors.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, Phase, settings

# Hundreds of tests start a Python process: each would compile every module anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Commands that tests start keep nothing in the home directory, and compile shipped rules once.
CACHE = tempfile.mkdtemp(prefix="policy-sched-tests-")
os.environ["POLICY_SCHED_CACHE"] = CACHE

settings.register_profile(
    "steady",
    max_examples=30,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile(
    "others", settings.get_profile("steady"), max_examples=100, derandomize=False
)
settings.register_profile(
    "mutants", settings.get_profile("steady"), phases=[Phase.explicit, Phase.generate]
)
settings.register_profile("deep", settings.get_profile("others"), max_examples=3000)
if settings.get_current_profile_name() in {"default", "ci"}:
    settings.load_profile("steady")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without garbage collection, which leaves out what is there then, and is rare."""
    gc.disable()
    result = yield
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()
    return result


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Return one more than the processors: what waits for a server or a clock leaves one idle."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ or not hasattr(os, "sched_getaffinity"):
        return None  # pytest-xdist decides
    return len(os.sched_getaffinity(0)) + 1


def pytest_unconfigure() -> None:
    """Remove what commands kept."""
    shutil.rmtree(CACHE, ignore_errors=True)
