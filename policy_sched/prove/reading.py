"""Reads the policies and the documents of claims that are to be proved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from policy_sched.errors import Diagnostic, PolicyError, Severity
from policy_sched.language import check, problems_of
from policy_sched.profiles.check import CheckedProof, check_proof, is_proof
from policy_sched.profiles.load import load_file, policy_source, read_policies


def read(paths: Sequence[str]) -> list[check.CheckedPolicy]:
    """Return the policies of files. Raises PolicyError with the errors of all of them."""
    policies, problems = read_policies(paths)
    checked: list[check.CheckedPolicy] = []
    for policy in policies:
        found, wrong = check.check_policy(policy_source(policy))
        problems += wrong
        if found is not None and policy.sound:
            problems += problems_of(found)
            checked.append(found)
    errors = [problem for problem in problems if problem.severity is Severity.ERROR]
    if errors:
        raise PolicyError(sorted(set(errors)))
    return checked


def proofs_in(path: str) -> list[CheckedProof]:
    """Return the PolicyProofs of a file. Raises PolicyError with the errors of all of them."""
    file = load_file(Path(path))
    found: list[CheckedProof] = []
    problems: list[Diagnostic] = list(file.problems)
    for document in file.documents:
        if is_proof(document.marked):
            proof, wrong = check_proof(document.marked)
            problems += wrong
            found += [] if proof is None else [proof]
    errors = [problem for problem in problems if problem.severity is Severity.ERROR]
    if errors:
        raise PolicyError(sorted(set(errors)))
    return found
