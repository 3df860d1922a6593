"""Writes the Python text of a function from placed operations.

Theory of operation. Ops are emitted at their first use, into the block that
`placement` chose: as an expression in place if they are used once, else as an assignment. A
branch or a loop body that turns out to hold statements becomes an `if` or a `for`; otherwise it
stays an expression. A region becomes a nested function, written by an emitter of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from policy_sched.language.codegen.constant_pool import ConstantPool
from policy_sched.language.codegen.loops import loop_text
from policy_sched.language.ir import MIXED, Block, Call, CodeMotion, Loop, Op, PodCount, Shapes, ops
from policy_sched.language.stdlib import is_sized

_NAME = re.compile(r"[A-Za-z_]\w*\Z|[0-9]+\Z")
INDENT = "    "


class Emitter:
    """Writes one function's body; ``bound`` are ops that already have a text."""

    def __init__(
        self,
        placement: CodeMotion,
        slots: ConstantPool,
        bound: Mapping[Op, str],
        sub: tuple[Shapes, str] | None = None,
    ) -> None:
        self.placement = placement
        self.slots = slots
        self.prefix = sub[1] if sub else "v"
        self.steps = 0
        self.refills = False
        self._texts: dict[Op, str] = dict(bound)

    def root(self, op: Op) -> str:
        """Write ``op`` into the body and return its text (of a pair: both names)."""
        text = self.text(op, self.placement.body)
        return f"{text}v, {text}e" if op.rep[0] == "t" else text

    def guard(self, op: Op, test: str, otherwise: str) -> None:
        """Write that where ``test`` of ``op`` fails, ``otherwise`` is done."""
        body = self.placement.body
        name = self.named(op, body)
        body.lines.append(f"if not {test.format(name)}: {otherwise}")

    def lines(self) -> list[str]:
        """Return the lines of the body."""
        return list(_flatten(self.placement.body))

    def text(self, op: Op, scope: Block) -> str:
        """Return the text of ``op`` for use in ``scope``."""
        known = self._texts.get(op)
        if known is not None:
            return known
        if op.kind is ops.CONST:
            return self.slots.literal(op.data)
        if op.kind is ops.PARAM:
            return f"p{op.serial}"
        if op.kind in (ops.VAL, ops.ERR):
            return self.text(op.args[0], scope) + op.kind.name[0]
        home = self.placement.scope[op]
        if op.kind.is_name and not self.placement.over_rows(op):
            return self._expression(op, home)
        if self._is_statement(op):
            self._texts[op] = text = self._statement(op, home)
            return text
        text = self._expression(op, home)
        if (self.placement.uses[op] > 1 or home is not scope) and not _NAME.match(text):
            home.lines.append(f"{self._name(op)} = {text}")
            text = self._name(op)
        if self.placement.uses[op] > 1 or home is not scope:
            self._texts[op] = text
        return text

    def named(self, op: Op, scope: Block) -> str:
        """Return a text of ``op`` that may be repeated: a name or a whole number."""
        text = self.text(op, scope)
        if not _NAME.match(text):
            name = f"{self._name(op)}n"
            scope.lines.append(f"{name} = {text}")
            return name
        return text

    def branch(self, op: Op, number: int) -> Block:
        """Return the scope of a branch or a loop body of ``op``."""
        return self.placement.branches[op, number]

    def _name(self, op: Op) -> str:
        return f"{self.prefix}{op.serial}"

    def _is_statement(self, op: Op) -> bool:
        if op.rep[0] == "t" or isinstance(op.data, Loop | PodCount):
            return True
        return self.placement.over_rows(op) and op in self.placement.regions

    def _statement(self, op: Op, home: Block) -> str:
        name = self._name(op)
        if op in self.placement.regions:
            self._write_region(op, name, home)
        elif isinstance(op.data, PodCount):
            self._write_tally(op, op.data, name, home)
        elif isinstance(op.data, Loop):
            loop_text(self, op, op.data, name, home)
        else:
            home.lines.append(f"{name}v, {name}e = {self._expression(op, home)}")
        return name

    def _expression(self, op: Op, home: Block) -> str:
        if self.placement.is_lazy(op):
            return self._lazy(op, home)
        over = self.placement.over_rows(op)
        template = op.kind.vector if over else op.kind.scalar
        take = self.named if not over and op.kind.repeats_arguments else self.text
        arguments = [take(a, home) for a in op.args]
        if isinstance(op.data, Call):
            sized = is_sized(op.data.function)
            self.refills = self.refills or sized
            counted = sized and home.in_loop
            self.steps += counted
            return self.slots.call(op.data, arguments, op.rep[0] == "t", counted=counted)
        return self._fill(template, op, arguments)

    def _fill(self, template: str, op: Op, arguments: list[str]) -> str:
        def part(match: re.Match[str]) -> str:
            what = match[1]
            if what == "*":
                return ", ".join(arguments)
            if what == "d":
                return self.slots.data(op)
            if what == "s":
                return str(op.data)
            return arguments[int(what)]

        assert template, op
        return re.sub(r"\{(\*|\w)\}", part, template)

    def _lazy(self, op: Op, home: Block) -> str:
        test = self.text(op.args[0], home)
        branches = [self.branch(op, i) for i in range(1, len(op.args))]
        texts = [self.text(a, b) for a, b in zip(op.args[1:], branches, strict=True)]
        if not any(b.lines for b in branches):
            return self._fill(op.kind.scalar, op, [test, *texts])
        name = self._name(op)
        if op.kind is ops.WHERE:
            yes, no = branches[0], branches[1]
            yes.lines.append(f"{name} = {texts[0]}")
            no.lines.append(f"{name} = {texts[1]}")
            home.lines += [f"if {test}:", yes, "else:", no]
        else:
            (inside,) = branches
            decided = "False" if op.kind is ops.AND else "True"
            word = "if" if op.kind is ops.AND else "if not"
            inside.lines.append(f"{name} = {texts[0]}")
            home.lines += [f"{name} = {decided}", f"{word} {test}:", inside]
        return name

    def _write_tally(self, op: Op, counted: PodCount, name: str, home: Block) -> None:
        shapes = self.placement.shapes
        names = {a: f"a{a.serial}" for a in op.args} | {counted.param: f"p{counted.param.serial}"}
        inner = Emitter(
            CodeMotion([counted.test], False, names, shapes),
            self.slots,
            names,
            (shapes, f"{name}_"),
        )
        result = inner.root(counted.test)
        self.steps += inner.steps
        self.refills = self.refills or inner.refills
        body = Block()
        body.lines = [*inner.lines(), f"return {result}"]
        arguments = [names[counted.param], *(names[a] for a in op.args)]
        home.lines += [f"def {name}f({', '.join(arguments)}):", body]
        values = "".join(f"{self.text(a, home)}, " for a in op.args)
        condition = self.slots.constant(counted.condition)
        ask = "total" if op.kind is ops.COUNT_ALL else "of"
        home.lines.append(f"{name} = rt.tallies.{ask}({condition}, {name}f, ({values}))")

    def _write_region(self, op: Op, name: str, home: Block) -> None:
        region = self.placement.regions[op]
        keyed = op.key is not None and op.key is not MIXED
        bound = {f: self.text(f, home) for f in region.fixed}
        names = {o: f"a{o.serial}" for o in region.by_row}
        placement = CodeMotion([op], False, [*bound, *names], self.placement.shapes)
        inner = Emitter(placement, self.slots, bound | names, (self.placement.shapes, f"{name}_"))
        result = inner.root(op)
        self.steps += inner.steps
        self.refills = self.refills or inner.refills
        body = Block()
        arguments = ["row"] if region.row else []
        arguments += [names[o] for o in region.by_row]
        distinct = keyed and bool(region.by_row)
        lines = inner.lines()
        if distinct and not lines:
            # One function for all values: a call for each would cost more than most bodies.
            body.lines = [f"return [{result} for {arguments[0]} in values]"]
            home.lines += [f"def {name}f(values):", body]
        else:
            body.lines = [*lines, f"return {result}"]
            home.lines += [f"def {name}f({', '.join(arguments)}):", body]
            if distinct:
                home.lines.append(f"{name}f = each({name}f)")
        pair = op.rep[0] == "t"
        target = f"{name}v, {name}e" if pair else name
        how = "pair" if pair else "one"
        rep = op.rep[-1]
        if distinct:
            column = self.slots.data(region.by_row[0])
            call = f'rt.distinct_{how}("{rep}", {name}f, {column}, rows)'
        else:
            inputs = ", rt.row_numbers(rows)" if region.row else ""
            inputs += "".join(f", {self.text(o, home)}" for o in region.by_row)
            call = f'rt.by_row_{how}("{rep}", {name}f, n{inputs})'
        if home.in_loop:
            self.steps += 1
            home.lines.append("spend_of_total(n)")
        home.lines.append(f"{target} = {call}")


def _flatten(scope: Block) -> Iterator[str]:
    for line in scope.lines:
        if isinstance(line, Block):
            yield from (INDENT + inner for inner in _flatten(line))
        else:
            yield line
