"""What the fuzzer runs on its inputs, and what must hold of every run.

Nothing may raise: every mistake is a diagnostic and an exit code. No line of text output may begin
like a command to a CI service. Secrets of kubeconfigs are never repeated.
"""

from __future__ import annotations

import io
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from random import Random
from typing import Final

from policy_sched.cli.main import run
from policy_sched.client.kube.auth.kubeconfig import load
from policy_sched.client.kube.time.work_queue import Clocks
from policy_sched.errors import PolicyError, PolicySchedError
from policy_sched.experiments import read_sweep
from policy_sched.experiments.engine import Order, Work
from policy_sched.source.documents import MAX_POLICY_BYTES
from tests.experiments.examples import PODS
from tests.fuzz.worlds import GATES

ORDERS: Final = "1,2\n" + "".join(f"{i},{15 - i}\n" for i in range(16))
EXIT_CODES: Final = {0, 1, 2, 3}
COMMAND: Final = re.compile(r"^(::|##\[)", re.MULTILINE)
POLICY: Final = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: P}
spec: {score: {expression: "50"}}
"""


class BrokenRunError(AssertionError):
    """A run that did not end as every run must."""


@contextmanager
def _limited_digits() -> Iterator[None]:
    """Keep Python's own limit for texts of integers, which a test before may have changed."""
    before = sys.get_int_max_str_digits()
    yield
    if sys.get_int_max_str_digits() != before:
        raise BrokenRunError("the limit for digits of integers was changed")


def command(*arguments: str) -> str:
    """Run a command line in this process and return what it printed."""
    out, err = io.StringIO(), io.StringIO()
    with _limited_digits(), redirect_stdout(out), redirect_stderr(err):
        code = run(arguments)
    said = out.getvalue() + err.getvalue()
    if code not in EXIT_CODES:
        raise BrokenRunError(f"exit code {code}: {said[-2000:]}")
    if "Traceback (most recent call last)" in said:
        raise BrokenRunError(said[-4000:])
    if COMMAND.search(said):
        raise BrokenRunError(f"a line is a command to CI: {COMMAND.search(said)}")
    said.encode("utf-8")
    return said


def _write(path: Path, text: str) -> str:
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return str(path)


def _one_of(outputs: Sequence[str], text: str) -> str:
    """Return the output of a command for an input; half of an input's time is parsing arguments."""
    return outputs[len(text) % len(outputs)]


def policy(text: str, folder: Path) -> None:
    """Check, format, test and load a policy file."""
    path = _write(folder / "policy.yaml", text)
    command("check", path, "-o", _one_of(("text", "json", "junit", "tap", "sarif", "gitlab"), text))
    command("fmt", "--check", path)
    command("simulate", _write(folder / "one.yaml", ONE_POD), "--policies", path)


def scenario(text: str, folder: Path) -> None:
    """Check and run a PolicyTest beside a policy."""
    _write(folder / "policy.yaml", POLICY)
    path = _write(folder / "tests.yaml", text)
    command("check", path)
    command("test", path, "-o", _one_of(("text", "json", "junit", "tap"), text))


def manifest(text: str, folder: Path) -> None:
    """Simulate a manifest, and check a policy against it."""
    path = _write(folder / "manifest.yaml", text)
    command("simulate", path)
    command("simulate", path, "--timeline", "--until", "1h")
    command("check", _write(folder / "policy.yaml", POLICY), "--snapshot", path)


def kubeconfig(text: str, folder: Path) -> None:
    """Read a kubeconfig."""
    path = Path(_write(folder / "kubeconfig", text))
    kept = text.count("SECRET") == 1 and '"token": "SECRET"' in text  # a mutation may move it
    secret = "SECRET" if kept else "\0"
    try:
        load([path], Clocks(time.time_ns, time.monotonic_ns))
    except OSError:
        if path.stat().st_size <= MAX_POLICY_BYTES:
            raise
    except PolicyError as error:
        said = "\n".join(one.render() for one in error.diagnostics)
        if secret in said:
            raise BrokenRunError(f"a secret is repeated: {said}") from None
    except PolicySchedError as error:
        if secret in str(error):
            raise BrokenRunError(f"a secret is repeated: {error}") from None


def expression(text: str, folder: Path) -> None:
    """Evaluate an expression."""
    command("eval", "--", text) if text.startswith("-") else command("eval", text)
    _ = folder


def devices(text: str, folder: Path) -> None:
    """Decide pods with claims, and explain the first one."""
    path = _write(folder / "cluster.jsonl", text)
    if len(text) % 3:
        command("simulate", path, "-o", _one_of(("table", "json", "wide"), text))
    else:
        command("explain", "p0", "--cluster", path, "-o", _one_of(("text", "json"), text))


def group(text: str, folder: Path) -> None:
    """Decide pods of groups, with the feature gates of groups and without."""
    path = _write(folder / "cluster.jsonl", text)
    gates = ["--feature-gates", _one_of(GATES, text)]
    if len(text) % 4:
        command("simulate", path, *gates, "-o", _one_of(("table", "json"), text))
    else:
        command("simulate", path, *gates, "--timeline", "--until", "1h")


def experiment(text: str, folder: Path) -> None:
    """Check an experiment, and run the first of its runs if all are few."""
    (folder / "pods.csv").write_text(PODS, encoding="utf-8")
    (folder / "orders.csv").write_text(ORDERS, encoding="utf-8")
    path = _write(folder / "experiment.yaml", text)
    command("check", path)
    with _limited_digits():
        sweep, _ = read_sweep(path)
    if sweep is None:
        return
    work = Work(sweep.inputs, sweep.spec, sweep.variants)
    for task in sweep.tasks[:1]:
        work.run(Order(task.number, task.variant, task.seed))


def snapshot(text: str, folder: Path) -> None:
    """Take a snapshot of manifests, and read it, whole and damaged."""
    path = _write(folder / "cluster.json", text)
    kept = str(folder / "kept.jsonl.gz")
    names = ["--names", str(folder / "names.json")]
    hidden = ["--anonymize", *names] if len(text) % 2 else []
    said = command("snapshot", kept, "--cluster", path, *hidden)
    if not os.path.exists(kept):
        return
    if "Traceback" in said or os.stat(kept).st_mode & 0o077:
        raise BrokenRunError(f"a snapshot that others may read: {said}")
    command("check", _write(folder / "policy.yaml", POLICY), "--snapshot", kept)
    data = bytearray(Path(kept).read_bytes())
    random = Random(text)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(data) + 1)
        data[at : at + random.randrange(3)] = random.randbytes(random.randrange(3))
    Path(kept).write_bytes(data[: random.randrange(len(data) + 1) or None])
    command("simulate", kept)


ONE_POD: Final = """\
{apiVersion: v1, kind: Node, metadata: {name: n}, status: {allocatable: {cpu: 4, pods: 10}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c}]}}
"""
TARGETS: Final[dict[str, Callable[[str, Path], None]]] = {
    "policy": policy,
    "test": scenario,
    "manifest": manifest,
    "kubeconfig": kubeconfig,
    "expression": expression,
    "claim": devices,
    "slice": devices,
    "group": group,
    "experiment": experiment,
    "snapshot": snapshot,
}
