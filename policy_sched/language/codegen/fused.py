"""Fused programs: the rules of a profile's policies that read no more than a row, as one.

Theory of operation. The recorded graphs of the policies are built again by one builder, so that
equal operations are one, and what does not read the pod is kept in one set of materialized columns:
each is computed once for a changed row, whichever policies read it. A program has functions of all
rows, one for filters and one for scores, as scores are computed for rows that the filters leave; a
function of a few rows, which filters and then scores row by row; and one that returns the first
rejection of a row. Their values are those of the policies' own programs. Where numbers are too
great for the functions of all rows they return None, and the policies run one by one.

Not every policy has to do with every pod, so each rule has an argument that says whether it takes
part; nothing of a rule that does not is computed. In the function of a few rows operations are
written where they are first needed: what only a later filter or a score needs is not computed for a
row that is rejected before. Plugins that are not part of the program are called between its rules,
in the order of the profile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from policy_sched.language import ir
from policy_sched.language.codegen import module
from policy_sched.language.codegen.emitter import INDENT, ConstantPool, Emitter
from policy_sched.language.ir import ops
from policy_sched.language.runtime import MaterializedColumns, Runtime

_CONDITIONS: Final = frozenset((ops.AND, ops.OR, ops.NOT))


class RuleRoots(msgspec.Struct, frozen=True):
    """A rule of a filter, or a score: the places of its value and its error among the roots.

    ``error``: None if it cannot fail. ``passes``: whether a row passes on which it fails.
    """

    value: int
    error: int | None = None
    passes: bool = False


class FusedRule(msgspec.Struct, frozen=True):
    """The filter or the score of a policy, which a program has in it."""

    policy: str
    recording: ir.Recording
    tests: tuple[RuleRoots, ...]

    @property
    def over_all_rows(self) -> bool:
        """Whether it costs nothing to compute it for all rows at once."""
        return self.recording.arrays


class FusedFunctions(msgspec.Struct, frozen=True):
    """The functions of a fused program over the node table.

    ``filters(*flags, pod, ctx, rows, n, *columns)`` and ``scores`` return for each rule that can be
    computed over all rows the values of its roots, None where its flag is false; None alone if
    numbers are too great. ``kept`` are the columns.

    ``update(ctx, *numbers, *called, *flags, more, order, pod, rows, first)`` returns rejections
    and scores of rows. ``numbers``: of each filter, the number with which it rejects a row, None
    where it takes no part. ``called``: by gap between filters, pairs of a number and a function of
    pod and row. ``flags``: whether each score is computed. ``more``: functions of pod and row that
    score, too. ``order``: brings the scores of a row into another order; None: as they are, those
    of ``more`` last; False: rows are not scored. A rejection is (number, code); there are none at
    all where ``first`` is 0 for each row, and they all pass; both are None where a rule raises, and
    scores are where one of them fails.
    """

    filters: module.RowFunction
    scores: module.RowFunction
    update: module.RowFunction
    kept: MaterializedColumns


class FusedProgram(msgspec.Struct, frozen=True):
    """The code of the functions, before a table is known.

    ``filters``, ``scores``: the policies in it, in the order of the profile.
    ``filters_of_all_rows``, ``scores_of_all_rows``: those in the functions of all rows.
    ``places``: by plugin that is called between filters, in which of ``gaps`` groups.
    """

    filters: tuple[str, ...]
    scores: tuple[str, ...]
    filters_of_all_rows: tuple[str, ...]
    scores_of_all_rows: tuple[str, ...]
    places: dict[str, int]
    gaps: int
    code: bytes
    slots: ConstantPool
    row_code: bytes
    row_slots: ConstantPool
    static: module.Columns
    dynamic: module.Columns
    compares: bool
    """Whether the filters of all rows compute nothing that NumPy could warn of."""

    def bind(self, runtime: Runtime) -> FusedFunctions:
        """Return the functions over the node table."""
        filters, scores, *rest, update = module.bind_factory(self.code, self.slots, runtime)
        quiet = np.errstate(all="ignore")
        filters, scores = filters if self.compares else quiet(filters), quiet(scores)
        kept = module.materialized(runtime.table.table, self.static, self.dynamic, rest)
        return FusedFunctions(filters, scores, update, kept)

    def bind_row(self, runtime: Runtime) -> module.RowFunction:
        """Return the function of one row over a table, or over a view of it.

        ``rejection(ctx, *numbers, *called, pod, row)`` returns (number, code) or None.
        """
        rejection: module.RowFunction = module.bind_factory(self.row_code, self.row_slots, runtime)
        return rejection


def fuse(
    filters: Sequence[FusedRule], scores: Sequence[FusedRule], places: Mapping[str, int]
) -> FusedProgram:
    """Return the program of some filters and scores.

    ``places``: by plugin that is called between filters, after how many of them.
    """
    all_filters = [rule for rule in filters if rule.over_all_rows]
    all_scores = [rule for rule in scores if rule.over_all_rows]
    writer = module.Writer(in_place=True)
    static, dynamic, compares = _over_all_rows(writer, all_filters, all_scores)
    row_writer = module.Writer()
    gaps = sorted(set(places.values()))
    _RowBody(row_writer, filters, (), gaps).write_rejection()
    _RowBody(writer, filters, scores, gaps).write_update()
    return FusedProgram(
        tuple([rule.policy for rule in filters]),
        tuple([rule.policy for rule in scores]),
        tuple([rule.policy for rule in all_filters]),
        tuple([rule.policy for rule in all_scores]),
        {plugin: gaps.index(place) for plugin, place in places.items()},
        len(gaps),
        module.compiled(writer.text()),
        writer.slots,
        module.compiled(row_writer.text()),
        row_writer.slots,
        static,
        dynamic,
        compares,
    )


def _over_all_rows(
    writer: module.Writer, filters: Sequence[FusedRule], scores: Sequence[FusedRule]
) -> tuple[module.Columns, module.Columns, bool]:
    """Write the functions of all rows; return the kept columns, and what `compares` says."""
    build = ir.Builder()
    each = [ir.rebuilt(rule.recording, build) for rule in (*filters, *scores)]
    counted = ir.CountPass([op for roots in each for op in roots], build).roots
    invariance = ir.PodInvariance()
    rearranged = ir.Reassociation(counted, build, invariance)
    invariants = ir.find_pod_invariants(rearranged.roots, writer.shapes, invariance)
    kept = {op: f"d{op.serial}" for op in (*invariants.static, *invariants.dynamic)}
    within = f"-{ir.POD_LIMIT} < {{}} < {ir.POD_LIMIT}"
    guards = [(op, within, "return None") for op in rearranged.guards]
    left = iter(rearranged.roots)
    own = [[next(left) for _ in roots] for roots in each]
    compares = all(_compares(op, kept) for roots in own[: len(filters)] for op in roots)
    for name, rules in (("filters", own[: len(filters)]), ("scores", own[len(filters) :])):
        flags, results = ([f"{letter}{i}" for i in range(len(rules))] for letter in "fr")
        body = [f"{' = '.join(results)} = None"] if results else []
        for flag, result, roots in zip(flags, results, rules, strict=True):
            needed = ir.reached(roots)
            checked = [guard for guard in guards if guard[0] in needed]
            lines, values = writer.lines(roots, kept, checked, rows=True)
            lines.append(f"{result} = ({''.join(v + ', ' for v in values)})")
            body += [f"if {flag}:", *(INDENT + line for line in lines)]
        body.append(f"return ({''.join(f'{result}, ' for result in results)})")
        writer.add(name, ", ".join([*flags, module.OVER_ROWS, *kept.values()]), body)
    static, dynamic = writer.kept(invariants, rearranged.limits)
    return static, dynamic, compares


def _compares(op: ir.Op, kept: Mapping[ir.Op, str]) -> bool:
    """Return whether an op is a condition on ints, on columns that are kept, and on the pod."""
    if op in kept or op.level is ir.Level.SCALAR:
        return True
    conditions = op.kind in _CONDITIONS
    return op.kind is ops.FITS or (conditions and all(_compares(a, kept) for a in op.args))


class _RowBody:
    """What is computed for one row: the codes of filters, and scores."""

    def __init__(
        self,
        writer: module.Writer,
        filters: Sequence[FusedRule],
        scores: Sequence[FusedRule],
        gaps: Sequence[int],
    ) -> None:
        self._writer = writer
        self._gaps = gaps
        build = ir.Builder()
        codes = [_code(rule, build) for rule in filters]
        both = ir.ObjectParts(build).of([*codes, *(_score(rule, build) for rule in scores)])
        self._codes = [
            _optional(f"a{i} is not None", op, build) for i, op in enumerate(both[: len(codes)])
        ]
        self._scores = [_optional(f"b{i}", op, build) for i, op in enumerate(both[len(codes) :])]
        self._fails = any(test.error is not None for rule in scores for test in rule.tests)
        rules = [*self._codes, *self._scores]
        flags = {op.args[0]: str(op.args[0].data) for op in rules}
        motion = ir.CodeMotion(rules, False, flags, writer.shapes)
        self._block = motion.body
        self._emitter = Emitter(motion, writer.slots, flags)
        numbers = [f"a{i}" for i in range(len(filters))]
        self._arguments = ["ctx", *numbers, *(f"o{k}" for k in range(len(gaps)))]

    def write_rejection(self) -> None:
        """Write the function of one row."""
        self._filter("return {}")
        lines = [*self._emitter.lines(), "return None"]
        self._writer.add("rejection", ", ".join([*self._arguments, "pod", "row"]), lines)

    def write_update(self) -> None:
        """Write the function of a few rows."""
        lines = self._block.lines
        lines.append("still = still and not first[row]")
        self._filter("still = False", "found.append({})", "continue")
        lines += ["found.append(None)", "if failed: continue", "own = []"]
        for op in self._scores:
            self._if_active(op, "own.append({})")
        lines += [
            "if more: own += [score(pod, row) for score in more]",
            *(["if None in own: failed = True"] if self._fails else []),
            "scores.append(own if order is None else order(own))",
        ]
        flags = [f"b{i}" for i in range(len(self._scores))]
        given = [*self._arguments, *flags, "more", "order", "pod", "rows", "first"]
        body = [
            "still, found, failed, scores = True, [], order is False, []",
            "try:",
            f"{INDENT}for row in rows:",
            *(2 * INDENT + line for line in self._emitter.lines()),
            "except Exception: return None, None",
            "return () if still else found, None if failed else scores",
        ]
        self._writer.add("update", ", ".join(given), body)

    def _filter(self, *rejects: str) -> None:
        """Write the filters; ``rejects``: what follows a rejection, which stands for {}."""
        for i, op in enumerate([*self._codes, None]):
            if i in self._gaps:
                called = f"o{self._gaps.index(i)}"
                ends = _block("hit = at, own", "break")
                calls = _block("own = reject(pod, row)", "if own:", ends)
                tries = ("hit = None", f"for at, reject in {called}:", calls)
                ends = _block(*(line.format("hit") for line in rejects))
                self._block.lines += [f"if {called}:", _block(*tries, "if hit:", ends)]
            if op is not None:
                ends = _block(*(line.format(f"(a{i}, {{0}})") for line in rejects))
                self._if_active(op, "if {0}:", ends)

    def _if_active(self, op: ir.Op, *lines: str | ir.Block) -> None:
        """Write what an active rule computes, and what is done with it, which stands for {0}."""
        flag, computed, _ = op.args
        inside = self._emitter.branch(op, 1)
        value = self._emitter.named(computed, inside)
        inside.lines += [_filled(line, value) for line in lines]
        self._block.lines += [f"if {flag.data}:", inside]


def _block(*lines: str | ir.Block) -> ir.Block:
    block = ir.Block()
    block.lines = list(lines)
    return block


def _filled(line: str | ir.Block, value: str) -> str | ir.Block:
    if isinstance(line, str):
        return line.format(value)
    return _block(*(_filled(part, value) for part in line.lines))


def _optional(flag: str, computed: ir.Op, build: ir.Builder) -> ir.Op:
    """Return an op in a branch of its own: nothing of it is computed where a flag is false."""
    other = build.const(0, computed.rep)
    test = build.op(ops.PARAM, rep="b", data=flag)
    return build.op(ops.WHERE, test, computed, other, rep=computed.rep)


def _score(rule: FusedRule, build: ir.Builder) -> ir.Op:
    """Return a score, None where it fails."""
    roots, (test,) = ir.rebuilt(rule.recording, build), rule.tests
    value = roots[test.value]
    if test.error is None:
        return value
    sound = build.op(ops.NO_ERROR, roots[test.error], rep="b")
    return build.op(ops.WHERE, sound, value, build.const(None, value.rep), rep=value.rep)


def _code(rule: FusedRule, build: ir.Builder) -> ir.Op:
    """Return the code of a filter: 0 if each test holds, else that of the first that does not.

    2 * i + 1 was rejected by test i, 2 * i + 2 met an error in it.
    """
    roots = ir.rebuilt(rule.recording, build)
    code = build.const(0, "i")
    for i, test in reversed(list(enumerate(rule.tests))):
        holds, rejected = roots[test.value], build.const(2 * i + 1, "i")
        if test.error is not None:
            error = roots[test.error]
            if test.passes:
                failed = build.op(ops.FAILED, error, rep="b")
                holds = build.op(ops.OR, failed, holds, rep="b")
            else:
                sound = build.op(ops.NO_ERROR, error, rep="b")
                holds = build.op(ops.AND, sound, holds, rep="b")
                wrong = build.const(2 * i + 2, "i")
                rejected = build.op(ops.WHERE, sound, rejected, wrong, rep="i")
        code = build.op(ops.WHERE, holds, code, rejected, rep="i")
    return code
