"""Decides claims: proven, refuted by a counterexample that the scheduler confirms, or unknown.

Theory of operation. Each claim is decided in a process with limits of time and memory, since a
solver may take any time. The process reads the policies itself, makes the terms of all of them,
and answers one claim after the other; what is sent is plain data.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from itertools import islice
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from policy_sched.errors import Diagnostic, PolicySchedError, Severity
from policy_sched.language import check
from policy_sched.policytest import ExpectedOutcome
from policy_sched.profiles.check import is_proof
from policy_sched.profiles.load import load_file
from policy_sched.profiles.reload import LimitedProcess, NoResultError, ProcessLimits
from policy_sched.prove import counterexample, tested
from policy_sched.prove.claims import Claim, claims_of, comparisons, differs
from policy_sched.prove.clusters import differing, smaller
from policy_sched.prove.counterexample import bound_says
from policy_sched.prove.proofs import ProofClaims
from policy_sched.prove.reading import proofs_in, read
from policy_sched.prove.rules import PolicyPrinter, PolicyTerms
from policy_sched.prove.samples import Leaves, plainest, samples
from policy_sched.prove.solving import NEEDS_TIME, Answer, Question
from policy_sched.prove.terms import Double, Terms, conjunction, texts_in
from policy_sched.prove.tested import Kept
from policy_sched.prove.world import World

PROVEN, BOUNDED, REFUTED, UNKNOWN = "proven", "proven up to", "refuted", "unknown"

#: Seconds that the solver has before examples are tried, and examples that the scheduler runs.
_SHORT: Final = 0.5
_RUNS: Final = 40
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
    with the solver.
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
    """The claims of some policies, over one model."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._terms = Terms()
        self.world = World(self._terms, settings.bound)
        self._tests: dict[str, Kept[tuple[str, ExpectedOutcome]]] = {}
        self._variables: list[tuple[Any, Any]] = []
        self._clusters: dict[Any, Kept[Leaves]] = {}
        self.claims = list(self._claims())
        self.world.finish()
        self._facts = self._terms.facts()

    def _claims(self) -> Iterator[Claim]:
        settings = self._settings
        if settings.proof:
            proof = proofs_in(settings.proof)[settings.number]
            self._variables += [core for policy in proof.policies for core in _shared(policy)]
            return ProofClaims(proof, self.world).claims()
        policies = self._policies(settings.paths)
        if settings.new:
            return comparisons(policies, self._policies(settings.new), self._terms)
        return claims_of(policies)

    def _policies(self, paths: Sequence[str]) -> list[PolicyTerms]:
        checked = read(paths)
        self._variables += [core for policy in checked for core in _shared(policy)]
        rest = bool(self._settings.new)
        return [PolicyPrinter(policy, self.world).terms(rest=rest) for policy in checked]

    def blank(self, claim: Claim) -> Verdict:
        """Return a claim of which nothing is known."""
        line, column, source_line = claim.text.position(claim.span[0])
        shown = claim.text.text[claim.span[0] : claim.span[1]].partition("\n")[0]
        place = (claim.text.file, line, column, max(1, len(shown)), source_line)
        return Verdict(claim.name, *place, bound=self._settings.bound)

    def verdict(self, number: int) -> Verdict:
        """Decide a claim."""
        claim, started = self.claims[number], time.perf_counter()
        verdict = self._decided(claim, self.blank(claim))
        return msgspec.structs.replace(verdict, seconds=round(time.perf_counter() - started, 3))

    def _decided(self, claim: Claim, blank: Verdict) -> Verdict:
        """Try what is cheap, ask the solver for a short time, try examples, ask it for longer."""
        if claim.caution:
            return msgspec.structs.replace(blank, reason=claim.caution)
        seconds = self._settings.timeout
        question = self._question(claim, claim.term, shown=True)
        if not claim.never and claim.varies is None:
            own = question.own(self.world.leaves)
            plain = {key: plainest(leaf, key) for key, leaf in own.items()}
            if question.fits(own, plain):
                verdict = self._shown(claim, blank, question, plain)
                if verdict.fine:
                    return verdict
        shown = claim.varies is not None and self._shown_by_test(claim, blank)
        if shown:
            return shown
        verdict, start = self._solved(claim, blank, min(_SHORT, seconds))
        if verdict.answer == UNKNOWN and not verdict.internal:
            found = self._shown_by_test(claim, blank)
            found = found or self._tried(claim, blank, question, start)
            found = found or self._differing(claim, blank, question)
            if found is not None:
                return found
            if verdict.reason == NEEDS_TIME and seconds > _SHORT:
                verdict, _ = self._solved(claim, blank, seconds)
        return verdict

    def _shown_by_test(self, claim: Claim, blank: Verdict) -> Verdict | None:
        """Return the verdict that a test beside a policy brings; None if none shows anything."""
        replace = msgspec.structs.replace
        if claim.differ is not None:
            sides = claim.sides or (self._settings.paths, self._settings.new)
            policy = next(iter((*claim.policies, *claim.rivals)))
            for name, old, new in tested.differences(sides, policy, claim.plugin):
                if claim.differ(old, new):
                    reason = f"{claim.refuted}, as the test {name!r} shows"
                    return replace(blank, answer=REFUTED, reason=reason)
            return None
        name = self._test_that_shows(claim)
        words = f"as the test {name!r} shows"
        return replace(blank, answer=PROVEN, reason=words) if name else None

    def _test_that_shows(self, claim: Claim) -> str:
        """Return the test beside a policy that shows what is claimed to happen, "" for none."""
        (plugin, *_) = claim.policies or ("",)
        if claim.tested is None:
            return ""
        if claim.plugin not in self._tests:
            told = tested.outcomes(self._settings.paths, plugin, claim.plugin)
            self._tests[claim.plugin] = Kept(told)
        return next((name for name, seen in self._tests[claim.plugin] if claim.tested(seen)), "")

    def _solved(self, claim: Claim, blank: Verdict, seconds: float) -> tuple[Verdict, Leaves]:
        """Return what the solver says within a time, confirmed by the scheduler, and values."""
        verdict, start = self._answered(claim, blank, claim.term, seconds)
        if claim.varies is None or verdict.test is None:
            return verdict, start
        first = _raw_of(verdict)
        if first is None:
            return msgspec.structs.replace(blank, reason="the node has no score"), start
        other = conjunction(claim.term, differs(claim.varies, first))
        return self._answered(claim, blank, other, seconds, first)[0], start

    def _answered(
        self,
        claim: Claim,
        blank: Verdict,
        condition: Any,
        seconds: float,
        against: float | None = None,
    ) -> tuple[Verdict, Leaves]:
        question, leaves = self._question(claim, condition), self.world.leaves
        texts, shown = texts_in([condition]), self._question(claim, condition, shown=True)
        narrows = len(shown.stated) > len(question.stated)
        answer = question.answer(leaves, texts, seconds, small=claim.never and not narrows)
        if narrows and not answer.impossible:
            narrow = shown.answer(leaves, texts, seconds, small=claim.never)
            answer = answer if narrow.found is None else narrow
        if answer.found is None:
            return self._without_example(claim, blank, question, answer), {}
        verdict = self._shown(claim, blank, question, answer.found, against)
        if verdict.test is None and not claim.never:
            answer = shown.answer(leaves, texts, seconds)
            if answer.found is not None:
                verdict = self._shown(claim, blank, question, answer.found, against)
        return verdict, answer.found or {}

    def _question(self, claim: Claim, condition: Any, *, shown: bool = False) -> Question:
        """Return whether a condition can hold; ``shown``: in an example."""
        number = claim.varies.value if isinstance(claim.varies, Double) else claim.varies
        facts = [*self._facts, *(self._terms.preferred() if shown else ())]
        return Question(facts, condition, number)

    def _without_example(
        self, claim: Claim, blank: Verdict, question: Question, answer: Answer
    ) -> Verdict:
        replace = msgspec.structs.replace
        lists = tuple(
            name for name in self.world.unrolled if f"{name}.length" in question.constants
        )
        if answer.why:
            return replace(blank, reason=answer.why)
        if claim.never:
            return replace(blank, answer=BOUNDED if lists else PROVEN, lists=lists)
        if lists:
            words = f"no example with up to {self._settings.bound} elements of a list"
            return replace(blank, reason=words, lists=lists)
        return replace(blank, answer=REFUTED, reason=claim.refuted)

    def _tried(
        self, claim: Claim, blank: Verdict, question: Question, start: Leaves
    ) -> Verdict | None:
        """Return the verdict that one of some pods and nodes brings; None if none does."""
        first = None
        exact = not self._resting_on(claim, question)
        drawn = samples(question, self.world.leaves, start, exact=exact)
        for values in islice(drawn, _RUNS):
            verdict = self._shown(claim, blank, question, values, first)
            if verdict.test is None:
                continue
            if claim.varies is None or first is not None:
                return self._plainer(claim, verdict, question, values, first)
            first = _raw_of(verdict)
        return None

    def _differing(self, claim: Claim, blank: Verdict, question: Question) -> Verdict | None:
        """Return the verdict that a cluster brings on which versions differ; None if none does."""
        name = next(iter((*claim.policies, *claim.rivals)))
        if claim.differ is None or claim.says:
            return None
        sides = claim.sides or (self._settings.paths, self._settings.new)
        if (sides, name) not in self._clusters:
            told = differing(name, [read(paths) for paths in sides], self.world.leaves)
            self._clusters[sides, name] = Kept(told)
        for values in islice(self._clusters[sides, name], _RUNS):
            verdict = self._shown(claim, blank, question, values)
            if verdict.test is not None:
                return self._smaller(claim, verdict, question, values)
        return None

    def _smaller(
        self, claim: Claim, verdict: Verdict, question: Question, values: Leaves
    ) -> Verdict:
        """Return a verdict whose cluster is as small as the scheduler needs to confirm it."""
        left = _RUNS
        while left:
            for other in islice(smaller(values), left):
                left -= 1
                shown = self._shown(claim, verdict, question, other)
                if shown.test is not None and shown.answer == verdict.answer:
                    verdict, values = shown, other
                    break
            else:
                break
        return verdict

    def _plainer(
        self, claim: Claim, verdict: Verdict, question: Question, values: Leaves, against: Any
    ) -> Verdict:
        """Return a verdict whose example has as little as the scheduler needs to confirm it."""
        own = {key: leaf for key, leaf in self.world.leaves.items() if key in values}
        for key, leaf in own.items():
            changed = {**values, key: plainest(leaf, key)}
            if changed != values and question.fits(own, changed):
                other = self._shown(claim, verdict, question, changed, against)
                if other.test is not None and other.answer == verdict.answer and not other.internal:
                    verdict, values = other, changed
        return verdict

    def _shown(
        self,
        claim: Claim,
        blank: Verdict,
        question: Question,
        found: Leaves,
        against: float | None = None,
    ) -> Verdict:
        """Return the verdict that values bring, once the scheduler confirms it.

        ``against``: a raw score that the node must not have.
        """
        replace = msgspec.structs.replace
        why = "the scheduler does not do what the solver says"
        old, new = claim.sides or (self._settings.paths, self._settings.new)

        def run(
            names: tuple[str, ...],
            plugin: str,
            changed: bool,
            paths: tuple[str, ...] = old,
            full: bool = False,
        ) -> tuple[dict[str, Any], ExpectedOutcome]:
            leaves = counterexample.changed(found) if changed else found
            return _run(counterexample.Values(leaves), paths, names, plugin, claim.rule, full)

        try:
            test, seen = run(claim.policies, claim.plugin, False, full=claim.evicts)
            reason = self._refutation(claim, run, (test, seen), new)
        except PolicySchedError as error:
            reason, why = None, str(error)
        if reason is not None and (against is None or against not in (seen.raw or {}).values()):
            shown = counterexample.with_expectation(test, seen, claim.plugin, final=claim.final)
            answered = REFUTED if claim.never else PROVEN
            return replace(blank, answer=answered, reason=reason, test=shown)
        blank = replace(blank, answer=UNKNOWN, test=None)
        resting = self._resting_on(claim, question)
        if resting:
            return replace(blank, reason=f"no example was confirmed{resting}")
        return replace(blank, reason=why, internal=True)

    @staticmethod
    def _refutation(
        claim: Claim, run: Any, ran: tuple[Any, ExpectedOutcome], new: tuple[str, ...]
    ) -> str | None:
        """Return what the scheduler confirms of what the solver found, "" for an example."""
        test, seen = ran
        if claim.differ is not None:
            other, rival = run(claim.rivals, claim.plugin, False, new)
            if claim.says:
                pairs = ((test, claim.policies), (other, claim.rivals))
                said = [bound_says(of, "".join(names))[claim.says] for of, names in pairs]
                before, now = ("yes" if one else "no" for one in said)
                return f"{claim.refuted}: {before} before, {now} now" if before != now else None
            if not claim.differ(seen, rival):
                return None
            both = f"{_shown_outcome(seen, claim)} before, {_shown_outcome(rival, claim)} now"
            return f"{claim.refuted}: {both}"
        confirmed = claim.confirm(seen) if claim.judge is None else claim.judge(run)
        if not confirmed:
            return None
        return claim.refuted if claim.never else ""

    def _resting_on(self, claim: Claim, question: Question) -> str:
        """Return what a claim depends on that has no exact term, with the lines."""
        notes = {n for name, n in self._terms.notes.items() if name in question.constants}
        if not notes:
            return ""
        named = sorted(f"{note}{self._line(claim, note)}" for note in notes)
        return f"; there is no exact encoding of {', '.join(named)}"

    def _line(self, claim: Claim, note: str) -> str:
        """Return where the rules of a claim, or variables that they may read, call a function."""
        for rule in claim.rules:
            core, text = rule.core, rule.text
            for of_core, of_text in [(core, text), *self._variables]:
                for part in [] if of_core is None else check.walk(of_core):
                    overload = getattr(part, "overload", "") or getattr(part, "name", "")
                    if str(overload).partition("_")[0] == note:
                        line, _, _ = of_text.position(part.span.start)
                        return f" (line {line})"
        return ""


def _run(
    values: counterexample.Values,
    paths: tuple[str, ...],
    names: tuple[str, ...],
    plugin: str,
    rule: str,
    full: bool,
) -> tuple[dict[str, Any], ExpectedOutcome]:
    """Return the test of values with some policies enabled, and what the scheduler does."""
    folder = Path(paths[0])
    folder = folder if folder.is_dir() else folder.parent
    test = counterexample.document(values, paths, names, full=full)
    seen = counterexample.outcome(test, folder, plugin if plugin in names else "", paths, rule)
    return test, seen


def _raw_of(verdict: Verdict) -> int | float | None:
    """Return the raw score of the node of a verdict's test."""
    assert verdict.test is not None
    scores = verdict.test["expect"][0].get("raw", {})
    return next(iter(scores.values()), None)


def _shown_outcome(seen: ExpectedOutcome, claim: Claim) -> str:
    """Return what became of the pod or the node, in a few words."""
    if seen.pre_enqueue is not None:
        return f"it is held back ({'; '.join(map(str, seen.pre_enqueue.reasons or ()))})"
    if seen.feasible:
        scores = [str(score) for score in (seen.raw or {}).values()]
        if claim.final:
            scores = [
                str((of.plugins or {}).get(claim.plugin)) for of in (seen.scores or {}).values()
            ]
        return f"it passes with score {scores[0]}" if scores else "it passes"
    reasons = [str(r) for why in (seen.rejected or {}).values() for r in why.reasons or ()]
    return f"it is rejected ({'; '.join(reasons)})" if reasons else "the pod is rejected"


def _shared(policy: check.CheckedPolicy) -> Iterator[tuple[Any, Any]]:
    """Yield the variables of a policy, which its rules may read."""
    for _, variable in policy.variables:
        yield variable.core, variable.text


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
        idle = [_process(limits)]
        stack.callback(_end, idle)
        blanks = [_answer(idle[0], settings) for settings in parts]
        questions = [
            (settings, number, blank)
            for settings, of_part in zip(parts, blanks, strict=True)
            for number, blank in enumerate(of_part)
        ]
        idle += [_process(limits) for _ in range(min(jobs, len(questions) // _SHARE) - 1)]
        return _all_decided(idle, questions, advance)


def _process(limits: ProcessLimits) -> LimitedProcess[Any, Any]:
    return LimitedProcess(answered, limits, forks=True)


def _end(processes: Sequence[LimitedProcess[Any, Any]]) -> None:
    for process in processes:
        process.__exit__()


def _answer(process: LimitedProcess[Any, Any], settings: Settings) -> list[Verdict]:
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
