"""Hypothesis' profiles: a run is like the last one, however slow the machine, unless asked.

The profile ``steady`` takes the first 30 of 100 examples, always the same ones: it draws no
constants of the program, which would depend on the modules that are imported by then.
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
from contextlib import suppress
from importlib import import_module

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import providers

# Hundreds of tests start a Python process: each would compile every module anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Commands that tests start keep nothing in the home directory, and compile shipped rules once for
# all workers, which have the environment of the process that starts them.
CACHE = None
if "PYTEST_XDIST_WORKER" not in os.environ:
    CACHE = os.environ["POLICY_SCHED_CACHE"] = tempfile.mkdtemp(prefix="policy-sched-tests-")
# jsonschema imports it where it is installed, which takes 1.3 s, for formats that nobody checks.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]

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
if settings().derandomize:
    providers._get_local_constants = lambda: providers._local_constants


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect without garbage collection, which leaves out what is there then, and is rare."""
    gc.disable()
    if session.config.args == session.config.getini("testpaths"):
        _import_from_elsewhere(session.config)
    result = yield
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()
    return result


def _import_from_elsewhere(config: pytest.Config) -> None:
    """Import the tests in another order in each worker: in one order, each would compile all."""
    worker = getattr(config, "workerinput", {"workerid": "gw0", "workercount": 1})
    files = sorted(config.rootpath.glob("tests/**/test_*.py"))
    first = len(files) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    for file in files[first:] + files[:first] if first else ():
        with suppress(Exception, pytest.skip.Exception):  # collection reports it
            import_module(".".join(file.relative_to(config.rootpath).with_suffix("").parts))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Return one more than the processors: what waits for a server or a clock leaves one idle."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ or not hasattr(os, "sched_getaffinity"):
        return None  # pytest-xdist decides
    return len(os.sched_getaffinity(0)) + 1


def pytest_unconfigure() -> None:
    """Remove what commands kept."""
    if CACHE is not None:
        shutil.rmtree(CACHE, ignore_errors=True)
