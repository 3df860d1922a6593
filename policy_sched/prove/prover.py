"""Decides claims: proven, refuted by a counterexample that the scheduler confirms, or unknown.

Theory of operation. Each claim is decided in a process with limits of time and memory, since a
solver may take any time. The process reads the policies itself, makes the terms of all of them,
and answers one claim after the other; what is sent is plain data.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from itertools import combinations, islice, tee
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from policy_sched.errors import Diagnostic, PolicyError, PolicySchedError, Severity, one_line
from policy_sched.language import check
from policy_sched.profiles.check import is_proof
from policy_sched.profiles.load import load_file, read_policies
from policy_sched.profiles.reload import LimitedProcess, NoResultError, ProcessLimits
from policy_sched.prove import examples
from policy_sched.prove.claims import Claim, claim_of_both, claims_of, comparisons
from policy_sched.prove.counterexample import Run, with_expectation
from policy_sched.prove.examples import Leaves, Sights, plainest
from policy_sched.prove.proofs import ProofClaims, proofs_in
from policy_sched.prove.rules import PolicyPrinter, PolicyTerms, read
from policy_sched.prove.solving import NEEDS_TIME, Answer, Question
from policy_sched.prove.terms import Double, Terms, conjunction, texts_in, unlike_numbers
from policy_sched.prove.world import World

PROVEN, BOUNDED, REFUTED, UNKNOWN = "proven", "proven up to", "refuted", "unknown"

#: Seconds that the solver has before examples are tried, and runs of the scheduler: of examples
#: that are made smaller, and of those that are tried.
_SHORT: Final = 0.5
_RUNS: Final = 40
_MOST_RUNS: Final = 300
#: Seconds of processor time beside the solver's: reading policies, running a counterexample.
_BESIDE: Final = 30
#: Claims for which it is worth to start another process.
_SHARE: Final = 20
#: Bytes that a process may take beyond those at its start.
_MEMORY: Final = 2 << 30


@dataclass(frozen=True, slots=True)
class Settings:
    """What claims are about, and how long a claim may take (seconds).

    ``bound``: elements that a list of the model has at most. ``new``: the policies with which
    those of ``paths`` are compared, if any. ``proof``: the file of a PolicyProof, whose claims
    are decided instead; ``number``: which one of the file it is.
    """

    paths: tuple[str, ...]
    bound: int
    timeout: float
    new: tuple[str, ...] = ()
    proof: str = ""
    number: int = 0


class Verdict(msgspec.Struct, frozen=True):
    """What is known of one claim, and where the rule stands that it is about.

    ``lists``: those that were looked at up to ``bound`` elements. ``test``: the PolicyTest that
    shows a counterexample, or that what is claimed happens. ``internal``: the scheduler disagrees
    with the solver about a pod and a node that can be written down.
    """

    claim: str
    file: str
    line: int
    column: int
    width: int
    source_line: str
    answer: str = UNKNOWN
    reason: str = ""
    lists: tuple[str, ...] = ()
    bound: int = 0
    test: dict[str, Any] | None = None
    internal: bool = False
    seconds: float = 0.0

    @property
    def fine(self) -> bool:
        """Whether the claim is proven, if only up to a bound."""
        return self.answer in (PROVEN, BOUNDED)

    def diagnostic(self) -> Diagnostic | None:
        """Return the verdict as a problem at its rule; None if it is proven."""
        if self.fine:
            return None
        code, severity = "PS901", Severity.ERROR
        if self.answer == UNKNOWN:
            code, severity = "PS902", Severity.WARNING
        message = f"{self.claim}: {self.answer}: {self.reason}"
        hint = ""
        if self.test is not None:
            hint = "policy-sched prove --write FILE writes a test that shows it"
        place = (self.file, self.line, self.column)
        return Diagnostic(*place, code, message, hint, "", severity, self.width, self.source_line)


class Prover:
    """The claims of some policies.

    What is claimed of one policy is asked over a model that has what this policy reads, and no
    more: its answer, and its time, are the same whatever is asked beside it.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.variables: list[check.Checked] = []
        """Those of all policies, which rules may read."""
        self._kept: dict[Any, Any] = {}
        self._files = {} if settings.new or settings.proof else _files_of(settings.paths)
        self.claims: list[Claim] = []
        self.worlds: list[World] = []
        """What each claim is about."""
        for world, claims in self._models():
            self.claims += claims
            self.worlds += [world] * (len(self.claims) - len(self.worlds))
            world.finish()

    def _models(self) -> Iterator[tuple[World, Iterable[Claim]]]:
        settings, world = self.settings, self._world()
        if settings.proof:
            proof = proofs_in(settings.proof)[settings.number]
            self._note_variables(proof.policies)
            yield world, ProofClaims(proof, world).claims()
            return
        policies = self._read(settings.paths)
        if settings.new:
            sides = policies, self._read(settings.new)
            old, new = ([_printed(p, world, rest=True) for p in side] for side in sides)
            yield world, comparisons(old, new, world.terms)
            return
        for policy in policies:
            own = self._world()
            yield own, claims_of(_printed(policy, own))
        for two in combinations([policy for policy in policies if policy.filter], 2):
            own = self._world()
            first, other = (_printed(policy, own) for policy in two)
            yield own, [claim_of_both(first, other)]

    def _world(self) -> World:
        return World(Terms(), self.settings.bound)

    def _read(self, paths: Sequence[str]) -> list[check.CheckedPolicy]:
        policies = read(paths)
        self._note_variables(policies)
        return policies

    def _note_variables(self, policies: Iterable[check.CheckedPolicy]) -> None:
        self.variables += [of for policy in policies for _, of in policy.variables]

    def blank(self, claim: Claim) -> Verdict:
        """Return a claim of which nothing is known."""
        span, text = claim.source.core.span, claim.source.text
        line, column, source_line = text.position(span.start)
        shown = text.text[span.start : span.end].partition("\n")[0]
        place = (text.file, line, column, max(1, len(shown)), source_line)
        return Verdict(claim.name, *place, bound=self.settings.bound)

    def verdict(self, number: int) -> Verdict:
        """Decide a claim."""
        started = time.perf_counter()
        verdict = _Decision(self, number).verdict()
        return msgspec.structs.replace(verdict, seconds=round(time.perf_counter() - started, 3))

    def sides(self, claim: Claim) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the files that decide a claim, and those with which they are compared.

        What is claimed of policies needs their own files alone.
        """
        files = [self._files.get(name) for name in claim.policies]
        own = tuple({file: None for file in files if file})
        return (own, ()) if all(files) else (self.settings.paths, self.settings.new)

    def kept(self, key: Any, tell: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        """Return what claims have in common from the beginning; it is computed once."""
        return copy(self._kept.setdefault(key, tee(tell(), 1)[0]))

    def question(self, number: int, condition: Any) -> Question:
        """Return whether a condition can hold where a claim is about."""
        varies = self.claims[number].varies
        varies = varies.value if isinstance(varies, Double) else varies
        return Question(self.worlds[number].facts, condition, varies)


class _Decision:
    """Decides one claim: what is cheap comes first."""

    def __init__(self, prover: Prover, number: int) -> None:
        claim = prover.claims[number]
        self._prover, self._number, self._claim = prover, number, claim
        self._blank, self._world = prover.blank(claim), prover.worlds[number]
        self._leaves, self._seconds = self._world.leaves, prover.settings.timeout
        self._sides = claim.sides or prover.sides(claim)

    def _said(self, answer: str, reason: str = "", **more: Any) -> Verdict:
        return msgspec.structs.replace(self._blank, answer=answer, reason=reason, **more)

    def verdict(self) -> Verdict:
        """Try what is cheap, ask the solver for a short time, try examples, ask it for longer."""
        claim, seconds = self._claim, self._seconds
        if claim.caution:
            return self._said(UNKNOWN, claim.caution)
        if claim.never and claim.term is False:
            return self._said(PROVEN)
        question = self._prover.question(self._number, claim.term)
        if not claim.never and claim.varies is None:
            own = question.own(self._leaves)
            plain = {key: plainest(leaf, key) for key, leaf in own.items()}
            verdict = self._shown(question, plain)
            if verdict.fine:
                return verdict
        shown = self._shown_by_test() if claim.varies is not None else None
        if shown is not None:
            return shown
        verdict = self._solved(min(_SHORT, seconds))
        if verdict.answer == UNKNOWN and not verdict.internal:
            shown = self._shown_by_test() or self._shown_by_cluster(question)
            if shown is not None:
                return shown
            if verdict.reason == NEEDS_TIME and seconds > _SHORT:
                verdict = self._solved(seconds)
        return verdict

    def _shown_by_test(self) -> Verdict | None:
        """Return the verdict that a test beside a policy brings; None if none shows anything."""
        claim = self._claim
        if claim.differ is not None:
            for name, old, new in examples.differences(self._sides, claim.plugin):
                if claim.differ(old, new):
                    return self._said(REFUTED, f"{claim.refuted}, as the test {name!r} shows")
        elif claim.sight != ("", ""):
            told = partial(examples.sights, self._sides[0], claim.policies)
            for name, sights in self._prover.kept(("tests", self._sides, claim.policies), told):
                if claim.shown_by(sights):
                    answer, why = (REFUTED, f"{claim.refuted}, ") if claim.never else (PROVEN, "")
                    return self._said(answer, f"{why}as the test {name!r} shows")
        return None

    def _solved(self, seconds: float) -> Verdict:
        """Return what the solver says within a time, confirmed by the scheduler."""
        claim = self._claim
        verdict = self._answered(claim.term, seconds)
        if claim.varies is None or verdict.test is None:
            return verdict
        if not _raws_of(verdict):
            return self._said(UNKNOWN, "the node has no score")
        first = _raws_of(verdict)[0]
        other = conjunction(claim.term, unlike_numbers(claim.varies, Fraction(first)))
        return self._answered(other, seconds, first)

    def _answered(self, condition: Any, seconds: float, against: float | None = None) -> Verdict:
        claim, leaves, texts = self._claim, self._leaves, texts_in([condition])
        question = self._prover.question(self._number, condition)
        answer = question.answer(leaves, texts, seconds, small=claim.never)
        if answer.values is None:
            return self._without_example(question, answer)
        verdict = self._shown(question, answer.values, against)
        if verdict.test is None and not claim.never:
            answer = question.answer(leaves, texts, seconds)
            if answer.values is not None:
                verdict = self._shown(question, answer.values, against)
        return verdict

    def _without_example(self, question: Question, answer: Answer) -> Verdict:
        unrolled, claim = self._world.unrolled, self._claim
        lists = tuple(name for name in unrolled if f"{name}.length" in question.constants)
        if answer.why:
            return self._said(UNKNOWN, answer.why)
        if claim.never:
            return self._said(BOUNDED if lists else PROVEN, lists=lists)
        if lists:
            words = f"no example with up to {self._blank.bound} elements of a list"
            return self._said(UNKNOWN, words, lists=lists)
        return self._said(REFUTED, claim.refuted)

    def _shown_by_cluster(self, question: Question) -> Verdict | None:
        """Return the verdict that a small random cluster brings; None if none does."""
        claim, sides = self._claim, self._sides

        def told() -> Iterator[tuple[Leaves, Sights]]:
            if claim.differ is not None:
                return ((v, {}) for v in examples.differing(claim.about, sides, self._leaves))
            names, full = claim.policies, claim.evicts
            return examples.clusters(sides[0], names, self._leaves, full=full)

        drawn = self._prover.kept((sides, claim.policies, claim.about, claim.evicts), told)
        shows = (v for v, sights in drawn if not any(claim.sight) or claim.shown_by(sights))
        for values in islice(shows, _MOST_RUNS):
            verdict = self._shown(question, values)
            if verdict.test is not None and claim.varies is None:
                return self._smaller(verdict, question, values)
            if verdict.test is not None and len(set(_raws_of(verdict))) > 1:
                return verdict
        return None

    def _smaller(self, verdict: Verdict, question: Question, values: Leaves) -> Verdict:
        """Return a verdict whose cluster is as small as the scheduler needs to confirm it."""
        left = _RUNS
        while left:
            for other in islice(examples.smaller(values), left):
                left -= 1
                shown = self._shown(question, other)
                if shown.test is not None and shown.answer == verdict.answer:
                    verdict, values = shown, other
                    break
            else:
                break
        return verdict

    def _shown(self, question: Question, values: Leaves, against: float | None = None) -> Verdict:
        """Return the verdict that values bring, once the scheduler confirms it.

        ``against``: a raw score that the node must not have.
        """
        claim, why = self._claim, ""
        asked = claim.policies, claim.plugin, claim.rule
        try:
            run = Run(values, self._sides, *asked, full=claim.evicts)
            said = claim.judge(run)
        except PolicySchedError as error:
            told = error.diagnostics[0].message if isinstance(error, PolicyError) else str(error)
            said, why = False, f"no test can show it: {one_line(told)}"
        if said and (against is None or against not in (run.seen.raw or {}).values()):
            test = with_expectation(run.test, run.seen, claim.plugin, final=claim.final)
            words = said if isinstance(said, str) else claim.refuted if claim.never else ""
            return self._said(REFUTED if claim.never else PROVEN, words, test=test)
        resting = self._resting_on(question)
        if resting:
            return self._said(UNKNOWN, f"no example was confirmed{resting}")
        wrong = why or "the scheduler does not do what the solver says"
        return self._said(UNKNOWN, wrong, internal=not why)

    def _resting_on(self, question: Question) -> str:
        """Return what a claim depends on that has no exact term, with the lines."""
        stated = self._world.terms.notes
        notes = {note for name, note in stated.items() if name in question.constants}
        if not notes:
            return ""
        named = sorted(f"{note}{self._line(note)}" for note in notes)
        return f"; there is no exact encoding of {', '.join(named)}"

    def _line(self, note: str) -> str:
        """Return where the rules of a claim, or variables that they may read, call a function."""
        for rule in self._claim.rules:
            for source in (rule.source, *self._prover.variables):
                for part in check.walk(source.core):
                    overload = getattr(part, "overload", "") or getattr(part, "name", "")
                    if str(overload).partition("_")[0] == note:
                        line, _, _ = source.text.position(part.span.start)
                        file = source.text.file
                        place = "line " if file == self._blank.file else f"{file}:"
                        return f" ({place}{line})"
        return ""


def _files_of(paths: Sequence[str]) -> dict[str, str]:
    """Return the files of policies, by name, that may be named: nothing else is in them."""
    files = {policy.name: policy.place.name for policy in read_policies(paths)[0]}
    alone = {
        file
        for file in {*files.values()}
        if not any(problem.severity is Severity.ERROR for problem in read_policies([file])[1])
    }
    return {name: file for name, file in files.items() if file in alone}


def _printed(policy: check.CheckedPolicy, world: World, *, rest: bool = False) -> PolicyTerms:
    return PolicyPrinter(policy, world).terms(rest=rest)


def _raws_of(verdict: Verdict) -> list[float]:
    """Return the raw scores of the nodes of a verdict's test."""
    assert verdict.test is not None
    return list(verdict.test["expect"][0].get("raw", {}).values())


@cache
def _prover(settings: Settings) -> Prover:
    return Prover(settings)


def answered(asked: tuple[Settings, int]) -> Verdict | list[Verdict]:
    """Return the verdict on a claim by its number; all claims, undecided, for -1."""
    settings, number = asked
    prover = _prover(settings)
    if number < 0:
        return [prover.blank(claim) for claim in prover.claims]
    return prover.verdict(number)


def prove(
    parts: Sequence[Settings],
    jobs: int,
    advance: Callable[[int], None],
    limits: ProcessLimits | None = None,
) -> list[Verdict]:
    """Decide the claims of all parts, ``jobs`` at a time; ``advance`` is called after each one.

    ``limits``: of one claim, instead of those that follow from the time of the solver. Raises
    NoResultError where the claims of a part cannot be made within the limits.
    """
    longest = max(int(settings.timeout) for settings in parts)
    limits = ProcessLimits(longest * 2 + _BESIDE, _MEMORY) if limits is None else limits
    with ExitStack() as stack:
        idle = [stack.enter_context(_process(limits))]
        blanks = [_blanks(idle[0], settings) for settings in parts]
        questions = [
            (settings, number, blank)
            for settings, of_part in zip(parts, blanks, strict=True)
            for number, blank in enumerate(of_part)
        ]
        more = range(min(jobs, len(questions) // _SHARE) - 1)
        idle += [stack.enter_context(_process(limits)) for _ in more]
        return _all_decided(idle, questions, advance)


def _process(limits: ProcessLimits) -> LimitedProcess[Any, Any]:
    return LimitedProcess(answered, limits, forks=True)


def _blanks(process: LimitedProcess[Any, Any], settings: Settings) -> list[Verdict]:
    process.begin((settings, -1))
    blanks: list[Verdict] = process.result()
    return blanks


def _all_decided(
    processes: Sequence[LimitedProcess[Any, Any]],
    questions: Sequence[tuple[Settings, int, Verdict]],
    advance: Callable[[int], None],
) -> list[Verdict]:
    """Return the verdicts on all questions, one at a time of each process."""
    verdicts = {i: question[2] for i, question in enumerate(questions)}
    waiting, idle = deque(enumerate(questions)), list(processes)
    asked: dict[int, tuple[LimitedProcess[Any, Any], int]] = {}
    while waiting or asked:
        while waiting and idle:
            process, (place, (settings, number, _)) = idle.pop(), waiting.popleft()
            process.begin((settings, number))
            asked[process.fileno()] = process, place
        for ready in wait(asked.keys()):
            process, place = asked.pop(cast("int", ready))
            try:
                verdicts[place] = process.result()
            except NoResultError as error:
                verdicts[place] = msgspec.structs.replace(verdicts[place], reason=str(error))
            advance(1)
            idle.append(process)
    return [verdicts[i] for i in range(len(questions))]


def parts_of(
    paths: Sequence[str], new: Sequence[str], bound: int, timeout: float
) -> list[Settings]:
    """Return what is to be proved: policies, and the PolicyProofs among the files of ``paths``.

    Of a directory these are the files named claims.yaml. Raises PolicyError with the errors of
    all policies and claims.
    """
    proofs = [file for path in paths for file in _proof_files(path)]
    policies = tuple(path for path in paths if path not in proofs)
    parts = []
    if policies:
        read(policies)
        read(new)
        parts.append(Settings(policies, bound, timeout, tuple(new)))
    for file in () if new else proofs:
        for number, proof in enumerate(proofs_in(file)):
            parts.append(Settings(proof.paths, bound, timeout, (), file, number))
    return parts


def _proof_files(path: str) -> list[str]:
    if Path(path).is_dir():
        return [str(file) for file in sorted(Path(path).rglob(CLAIMS_FILE))]
    documents = load_file(Path(path)).documents
    return [path] if any(is_proof(document.marked) for document in documents) else []


CLAIMS_FILE: Final = "claims.yaml"
"""What files with claims are called in a directory."""
