"""Fused functions of a few rows: the filters of several policies, then their scores, row by row.

Theory of operation. The recorded graphs of the policies are built again by one builder, so that
equal operations are one and a column is read once for a row, whichever policies read it. Operations
are written where they are first needed: what only a later filter or a score needs is not computed
for a row that is rejected before. A rule that is not recorded is called in its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol, TypeAlias

from policy_sched.language.codegen.emitter import INDENT, Emitter
from policy_sched.language.codegen.module import Writer, bind_factory, compiled
from policy_sched.language.ir import Block, Builder, CodeMotion, Op, Recording, rebuilt
from policy_sched.language.runtime import Runtime


class RowRule(Protocol):
    """A filter or score of one row.

    ``holds`` and ``value`` are expressions over ``out``: what ``recording`` computes if it is a
    Recording, else what ``function`` returns.
    """

    @property
    def function(self) -> Callable[..., Any]:
        """Takes a pod, ``cycle`` and a row."""

    @property
    def cycle(self) -> object:
        """The second argument of the function."""

    @property
    def holds(self) -> str:
        """The test whether the row passes, or has a score."""

    @property
    def value(self) -> str:
        """The code of a row that does not pass, or the score."""

    @property
    def recording(self) -> object:
        """What the function computes; None: it is called."""

    @property
    def limited(self) -> Callable[[], AbstractContextManager[None]] | None:
        """The context in which the steps of several calls count together; None: none count."""


Filters: TypeAlias = Sequence[tuple[int, RowRule]]
"""Rules by the numbers with which they reject a row."""
_OUT: Final = re.compile(r"out\[(\d+)\]")
_ALWAYS: Final = "True"
_NO_CODE: Final = "-1"


def fuse_rows(
    filters: Filters, scores: Sequence[RowRule] | None, cycle: object, runtime: Runtime
) -> tuple[Any, Any, Any]:
    """Return functions that filter and score rows, that filter them, and that score them.

    ``scores``: None where rows are not scored; there is no function that scores them then.
    ``cycle`` is what recorded rules see of an attempt. `framework.Fusable.fused_rows` says what
    the functions take and return.
    """
    writer = Writer()
    writer.slots.constants["ctx"] = cycle
    scoring = list(scores or ())
    filtering = _Body(writer, [rule for _, rule in filters])
    filtering.filters(filters)
    lines = ["still, found = True, []", *filtering.over_rows("return None")]
    writer.add("rejections", "pod, rows, first", [*lines, "return () if still else found"])
    rating = _Body(writer, scoring)
    rating.scores(scoring, "return None")
    lines = ["scores = []", *rating.over_rows("return None")]
    writer.add("scores", "pod, rows", [*lines, "return scores"])
    if scores is None or filtering.limited or rating.limited:
        # Filters and scores have steps of their own.
        lines = ["return rejections(pod, rows, first), None"]
    else:
        both = _Body(writer, [*(rule for _, rule in filters), *scoring])
        both.filters(filters)
        both.scores(scoring, "failed = True", "continue")
        lines = ["still, found, failed, scores = True, [], False, []"]
        lines += both.over_rows("return None, None")
        lines.append("return () if still else found, None if failed else scores")
    writer.add("update", "pod, rows, first", lines)
    rejections, scored, update = bind_factory(compiled(writer.text()), writer.slots, runtime)
    return update, rejections, None if scores is None else scored


class _Body:
    """The body of a loop over rows; rules are written in the order in which they are given."""

    def __init__(self, writer: Writer, rules: Sequence[RowRule]) -> None:
        build = Builder()
        self._slots = writer.slots
        self._ops = {id(rule): _rebuilt(rule, build) for rule in rules}
        wanted = [op for own in self._ops.values() for op in own or ()]
        motion = CodeMotion(wanted, False, {}, writer.shapes)
        self._block = motion.body
        self._emitter = Emitter(motion, writer.slots, {})
        limited = next((rule.limited for rule in rules if rule.limited is not None), None)
        self.limited = "" if limited is None else writer.slots.constant(limited)

    def filters(self, filters: Filters) -> None:
        """Write filters; the first that rejects the row is noted."""
        self._block.lines.append("still = still and not first[row]")
        for number, rule in filters:
            holds, value = self._rule(rule)
            code = f"found.append(({number}, {value or _NO_CODE}))"
            self._otherwise(holds, ["still = False", code, "continue"])
        self._block.lines.append("found.append(None)")

    def scores(self, scores: Sequence[RowRule], *otherwise: str) -> None:
        """Write scores, and what is done if there is none."""
        values = []
        for place, rule in enumerate(scores):
            holds, value = self._rule(rule)
            self._otherwise(holds, otherwise)
            if rule.recording is None:  # the next one that is called overwrites what it returned
                self._block.lines.append(f"s{place} = {value}")
                value = f"s{place}"
            values.append(f"{value}, ")
        self._block.lines.append(f"scores.append(({''.join(values)}))")

    def over_rows(self, otherwise: str) -> list[str]:
        """Return the lines of the loop, and what is done if it fails."""
        loop = ["for row in rows:", *(INDENT + line for line in self._emitter.lines())]
        if self.limited:
            loop = [f"with {self.limited}():", *(INDENT + line for line in loop)]
        return ["try:", *(INDENT + line for line in loop), "except Exception:", INDENT + otherwise]

    def _rule(self, rule: RowRule) -> tuple[str, str]:
        """Write what a rule computes; return its test and its value."""
        ops, lines = self._ops[id(rule)], self._block.lines
        if ops is None:
            names = [self._slots.constant(one) for one in (rule.function, rule.cycle)]
            lines.append(f"out = {names[0]}(pod, {names[1]}, row)")
            return rule.holds, rule.value
        out = [self._emitter.named(op, self._block) for op in ops]
        holds, value = (_OUT.sub(lambda m: out[int(m[1])], s) for s in (rule.holds, rule.value))
        return holds, value

    def _otherwise(self, holds: str, lines: Sequence[str]) -> None:
        if holds != _ALWAYS:
            block = Block()
            block.lines = list(lines)
            self._block.lines += [f"if not ({holds}):", block]


def _rebuilt(rule: RowRule, build: Builder) -> list[Op] | None:
    recording = rule.recording
    return rebuilt(recording, build) if isinstance(recording, Recording) else None
