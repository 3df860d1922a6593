"""Writes the Python text of a function from placed operations.

Theory of operation. Ops are emitted at their first use, into the block that code motion chose: as
an expression in place if they are used once, else as an assignment. A branch or a loop body that
turns out to hold statements becomes an `if` or a `for`; otherwise it stays an expression. A region
becomes a nested function, written by an emitter of its own.

Every loop leaves two names, the value (``v``) and the error (``e``). Errors of the stages of a
comprehension (filter, map, ...) come first, in order of the stages, then the error of the
reduction itself. `all` and `exists` absorb the errors of their own predicate, as in CEL.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Final

from policy_sched.language import ir
from policy_sched.language.ir import ops
from policy_sched.language.stdlib import BUILTINS, amount, is_sized
from policy_sched.language.values import limits

ColumnKey = tuple[str, ...]
#: What the factory of the generated functions is given besides the columns.
FACTORY_ARGUMENTS: Final = (
    "rt",
    "column",
    "find",
    "code",
    "texts",
    "taint_members",
    "port_members",
)


class ConstantPool:
    """Gives names to constants and columns, which are never pasted into a text.

    ``constants`` go into the text's globals (K0, K1, ...), ``columns`` are opened when the
    functions are bound to a table (C0, C1, ...).
    """

    def __init__(self) -> None:
        self.constants: dict[str, object] = {}
        self.columns: dict[ColumnKey, str] = {}
        self.helpers: list[str] = []
        """Lines of functions that others call, and of what these keep."""
        self.parts: dict[ir.Op, tuple[str, bool]] = {}
        """By op that is kept for an object, its function, and whether that counts steps."""
        self._names: dict[int, str] = {}

    def __getstate__(self) -> tuple[dict[str, object], dict[ColumnKey, str]]:
        return self.constants, self.columns

    def __setstate__(self, state: tuple[dict[str, object], dict[ColumnKey, str]]) -> None:
        self.constants, self.columns = state
        self.helpers, self.parts = [], {}  # they are in the text
        self._names = {id(value): name for name, value in self.constants.items()}

    def constant(self, value: object) -> str:
        """Return the name of a constant."""
        name = self._names.get(id(value))
        if name is None:
            name = self._names[id(value)] = f"K{len(self.constants)}"
            self.constants[name] = value
        return name

    def column(self, key: ColumnKey) -> str:
        """Return the name of a column of the node table."""
        return self.columns.setdefault(key, f"C{len(self.columns)}")

    def literal(self, value: object) -> str:
        """Return a text for a value: plain numbers as such, anything else by name."""
        if value is None or isinstance(value, bool):
            return repr(value)
        if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
            negative = value < 0 or (value == 0 and math.copysign(1.0, value) < 0)
            return f"({value!r})" if negative else repr(value)
        return self.constant(value)

    def data(self, op: ir.Op) -> str:
        """Return the text for ``{d}`` in the template of ``op``."""
        return self.column(op.data) if isinstance(op.data, tuple) else self.literal(op.data)

    def call(self, call: ir.Call, arguments: list[str], paired: bool, steps: str = "") -> str:
        """Return the text of a builtin's call; ``steps``: those that it takes of a loop."""
        guards, plain = arguments[: call.guards], arguments[call.guards :]
        default = self.literal(call.default)
        if paired:
            name = self.constant(call.function)
            text = f"safe({', '.join([name, default, str(call.site), *plain])})"
            default = f"({default}, 0)"
        elif call.function in INLINE:
            text = INLINE[call.function].format(*plain)
        else:
            text = f"{self.constant(call.function)}({', '.join(plain)})"
        if steps:
            text = f"({text} if {_within(steps)} else exceeded(left))"
        if guards:
            return f"({default} if {' or '.join(guards)} else {text})"
        return text


_NAME = re.compile(r"[A-Za-z_]\w*\Z|[0-9]+(\.[0-9]+)?\Z")
INDENT = "    "
_MAX_NESTING = 80
"""Parentheses in each other; Python compiles at most 200."""


#: Builtins that are written as an expression of Python.
INLINE: Final = {
    amount: "{0}.get({1}, 0)",
    BUILTINS["contains_string_string"].function: "({1} in {0})",
    BUILTINS["indexOf_string_string"].function: "{0}.find({1})",
}

#: Their array is one of quotients, not of the result.
_SHARES: Final = (ops.SHARE_SMALL, ops.SHARE_OF_REST_SMALL)
#: Ops whose text takes an array for its result as a last argument: the places of the arguments
#: whose array it may be.
OVERWRITES: Final = {
    **dict.fromkeys((ops.ADD, ops.SUB, ops.MUL, ops.FADD, ops.FSUB, ops.FMUL, ops.FDIV), (0, 1)),
    **dict.fromkeys((ops.SHIFT, *_SHARES), (0,)),
    **dict.fromkeys((ops.MIN, ops.MASKED_DEVIATION_OF_TWO), (1,)),
}
#: Texts for ops whose argument is surely an array, ``{t}``, which is overwritten.
IN_PLACE: Final = {
    ops.MIN: "fmin(same({0}, n), {1}, {t})",
    ops.SHARE_OF_REST_SMALL: (
        "maximum(true_divide({0}, {1}, {t}), same(0.0, n), out={t}).astype(int32)"
    ),
}
#: Ops that make a new array where one of their arguments is an array.
MAKES_ARRAY: Final = frozenset(
    {
        *OVERWRITES,
        ops.TO_DOUBLE,
        ops.TRUNCATE,
        ops.TRUNCATE_SMALL,
    }
)


class Emitter:
    """Writes one function's body; ``bound`` are ops that already have a text.

    ``in_place``: an array that is read once may be overwritten by what is made of it.
    """

    def __init__(
        self,
        placement: ir.CodeMotion,
        slots: ConstantPool,
        bound: Mapping[ir.Op, str],
        sub: tuple[ir.Shapes, str] | None = None,
        *,
        in_place: bool = False,
    ) -> None:
        self.placement = placement
        self.slots = slots
        self.prefix = sub[1] if sub else "v"
        self.in_place = in_place
        self.steps = 0
        self.refills = False
        self._bound = bound
        self._texts: dict[ir.Op, str] = dict(bound)

    def root(self, op: ir.Op) -> str:
        """Write ``op`` into the body and return its text (of a pair: both names)."""
        text = self.text(op, self.placement.body)
        return f"{text}v, {text}e" if op.rep[0] == "t" else text

    def guard(self, op: ir.Op, test: str, otherwise: str) -> None:
        """Write a statement that runs ``otherwise`` if ``test`` of ``op`` is false."""
        body = self.placement.body
        name = self.named(op, body)
        body.lines.append(f"if not {test.format(name)}: {otherwise}")

    def lines(self) -> list[str]:
        """Return the lines of the body."""
        return list(_flatten(self.placement.body))

    def text(self, op: ir.Op, scope: ir.Block) -> str:
        """Return the text of ``op`` for use in ``scope``."""
        written = self._texts.get(op)
        if written is not None:
            return written
        if self.placement.is_joint(op):
            self._write_joint()
            return self._texts[op]
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
        named = self.placement.uses[op] > 1 or home is not scope or _is_deep(text)
        if named and not _NAME.match(text):
            home.lines.append(f"{self._name(op)} = {text}")
            text = self._name(op)
        if named:
            self._texts[op] = text
        return text

    def named(self, op: ir.Op, scope: ir.Block) -> str:
        """Return a text of ``op`` that may be repeated: a name or a number."""
        text = self.text(op, scope)
        if not _NAME.match(text):
            name = f"{self._name(op)}n"
            scope.lines.append(f"{name} = {text}")
            return name
        return text

    def branch(self, op: ir.Op, number: int) -> ir.Block:
        """Return the scope of a branch or a loop body of ``op``."""
        return self.placement.branches[op, number]

    def _name(self, op: ir.Op) -> str:
        return f"{self.prefix}{op.serial}"

    def _is_statement(self, op: ir.Op) -> bool:
        if op.rep[0] == "t" or isinstance(op.data, ir.Loop | ir.PodCount | ir.ObjectPart):
            return True
        return self.placement.over_rows(op) and op in self.placement.regions

    def _statement(self, op: ir.Op, home: ir.Block) -> str:
        name = self._name(op)
        if op in self.placement.regions:
            self._write_region(op, name, home)
        elif isinstance(op.data, ir.PodCount):
            self._write_count(op, op.data, name, home)
        elif isinstance(op.data, ir.ObjectPart):
            self._write_part(op, op.data, name, home)
        elif isinstance(op.data, ir.Loop):
            loop_text(self, op, op.data, name, home)
        else:
            home.lines.append(f"{name}v, {name}e = {self._expression(op, home)}")
        return name

    def _expression(self, op: ir.Op, home: ir.Block) -> str:
        if self.placement.is_lazy(op):
            return self._lazy(op, home)
        over = self.placement.over_rows(op)
        template = op.kind.vector if over else op.kind.scalar
        sized = isinstance(op.data, ir.Call) and is_sized(op.data.function)
        counted = sized and home.in_loop
        repeats = counted or (op.kind.repeats_arguments and not over)
        take = self.named if repeats else self.text
        arguments = [take(a, home) for a in op.args]
        if isinstance(op.data, ir.Call):
            self.refills = self.refills or sized
            self.steps += counted
            steps = self._steps(op, arguments) if counted else ""
            return self.slots.call(op.data, arguments, op.rep[0] == "t", steps)
        if op.kind is ops.MASKED and all(a.kind is ops.CONST and a.data for a in op.args[::2]):
            return f"[{', '.join(arguments[1::2])}]"
        return self._over_rows(op, arguments) if over else self._fill(template, op, arguments)

    @staticmethod
    def _steps(op: ir.Op, arguments: list[str]) -> str:
        """Return the text for the steps that a call takes: those of what it reads, and one."""
        assert isinstance(op.data, ir.Call)
        constant_steps, lengths, others = 1, list[str](), list[str]()
        for arg, text in list(zip(op.args, arguments, strict=True))[op.data.guards :]:
            if arg.kind is ops.CONST:
                constant_steps += limits.weight(arg.data)
            elif arg.rep == "s":
                lengths.append(f"len({text})")
            elif arg.rep not in "bif":
                others.append(f" + weight({text})")
        texts = f" + ({' + '.join(lengths)} >> {limits.CHARACTERS})" if lengths else ""
        return f"{constant_steps}{texts}{''.join(others)}"

    def _over_rows(self, op: ir.Op, arguments: list[str]) -> str:
        """Return the text of an op over rows; its array may be that of an argument."""
        spare = self.in_place and next(
            (
                i
                for i in OVERWRITES.get(op.kind, ())
                if op.args[i].rep == ("f" if op.kind in _SHARES else op.rep)
                and not _NAME.match(arguments[i])
                and self._makes_array(op.args[i])
            ),
            None,
        )
        if spare is None or spare is False:
            return self._fill(op.kind.vector, op, arguments)
        name = f"t{op.serial}"
        arguments[spare] = f"({name} := {arguments[spare]})"
        text = IN_PLACE.get(op.kind)
        if text is not None and (op.kind is not ops.MIN or _is_positive(op.args[0])):
            return text.format(*arguments, t=name)
        return f"{self._fill(op.kind.vector, op, arguments)[:-1]}, {name})"

    def _makes_array(self, op: ir.Op) -> bool:
        """Return whether the text of an op surely makes an array that nothing else refers to."""
        return op.kind in MAKES_ARRAY and any(self._is_array(a) for a in op.args)

    def _is_array(self, op: ir.Op) -> bool:
        if op.rep not in ("i", "f") or not self.placement.over_rows(op):
            return False
        return op in self._bound or op.kind is ops.COLUMN or self._makes_array(op)

    def _fill(self, template: str, op: ir.Op, arguments: list[str]) -> str:
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

    def _lazy(self, op: ir.Op, home: ir.Block) -> str:
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

    def _write_count(self, op: ir.Op, counted: ir.PodCount, name: str, home: ir.Block) -> None:
        shapes = self.placement.shapes
        names = {a: f"a{a.serial}" for a in op.args} | {counted.param: f"p{counted.param.serial}"}
        inner = Emitter(
            ir.CodeMotion([counted.amount], False, names, shapes),
            self.slots,
            names,
            (shapes, f"{name}_"),
        )
        result = inner.root(counted.amount)
        self.steps += inner.steps
        self.refills = self.refills or inner.refills
        body = ir.Block()
        # The function is kept, and may run in another thread.
        own = ["left = remaining()"] if inner.steps else []
        body.lines = [*own, *inner.lines(), f"return {result}"]
        arguments = [names[counted.param], *(names[a] for a in op.args)]
        home.lines += [f"def {name}f({', '.join(arguments)}):", body]
        values = "".join(f"{self.text(a, home)}, " for a in op.args)
        condition = self.slots.constant(counted.condition)
        count = "rt.total_of_pods" if op.kind is ops.COUNT_ALL else "rt.counts.of"
        home.lines.append(f"{name} = {count}({condition}, {name}f, ({values}))")

    def _write_part(self, op: ir.Op, part: ir.ObjectPart, name: str, home: ir.Block) -> None:
        """Write a value that is made once for each version of an object."""
        known = self.slots.parts.get(op)
        if known is None:
            shapes, function = self.placement.shapes, f"o{op.serial}"
            names = {part.number: "number"}
            motion = ir.CodeMotion([part.value], False, names, shapes)
            inner = Emitter(motion, self.slots, names, (shapes, f"{function}_"))
            result = inner.root(part.value)
            counts = bool(inner.steps) or inner.refills
            own = [INDENT + "left = remaining()"] if inner.steps else []
            body = [*own, *(INDENT + line for line in inner.lines()), f"{INDENT}return {result}"]
            self.slots.helpers += [f"{function}_ = {{}}", f"def {function}(number):", *body]
            known = self.slots.parts[op] = function, counts
        function, counts = known
        self.refills = self.refills or counts
        identity = self.slots.constant(part.identity)
        target = f"{name}v, {name}e" if op.rep[0] == "t" else name
        number = self.text(op.args[0], home)
        home.lines.append(f"{target} = rt.of_object({identity}, {function}_, {function}, {number})")

    def _write_region(self, op: ir.Op, name: str, home: ir.Block) -> None:
        region = self.placement.regions[op]
        keyed = op.key is not None and op.key is not ir.MIXED
        lines, results, arguments = self._row_function(region, name, home)
        distinct = keyed and bool(region.by_row)
        body = ir.Block()
        if distinct and not lines:
            # One function for all values: a call for each would cost more than most bodies.
            body.lines = [f"return [{results[0]} for {arguments[0]} in values]"]
            home.lines += [f"def {name}f(values):", body]
        else:
            body.lines = [*lines, f"return {results[0]}"]
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
            call = f'rt.by_row_{how}("{rep}", {name}f, n{self._inputs(region, home)})'
        if home.in_loop:
            self.steps += 1
            home.lines.append("spend_of_total(n)")
        home.lines.append(f"{target} = {call}")

    def _write_joint(self) -> None:
        region, home = self.placement.joint, self.placement.body
        assert region is not None, "an op is computed by it"
        name = self._name(region.roots[0])
        lines, results, arguments = self._row_function(region, name, home)
        body = ir.Block()
        body.lines = [*lines, f"return ({', '.join(results)}, )"]
        home.lines += [f"def {name}f({', '.join(arguments)}):", body]
        self._texts |= {op: self._name(op) for op in region.roots}
        targets = ", ".join(self._texts[op] for op in region.roots)
        reps = "".join(op.rep for op in region.roots)
        inputs = self._inputs(region, home)
        home.lines.append(f'{targets}, = rt.by_row_all("{reps}", {name}f, n{inputs})')

    def _row_function(
        self, region: ir.Region, name: str, home: ir.Block
    ) -> tuple[list[str], list[str], list[str]]:
        """Return the lines of a region's function, its results, and the names of its arguments."""
        shapes = self.placement.shapes
        bound = {f: self.text(f, home) for f in region.fixed}
        names = {o: f"a{o.serial}" for o in region.by_row}
        placement = ir.CodeMotion(region.roots, False, [*bound, *names], shapes)
        inner = Emitter(placement, self.slots, bound | names, (shapes, f"{name}_"))
        results = [inner.root(op) for op in region.roots]
        self.steps += inner.steps
        self.refills = self.refills or inner.refills
        arguments = ["row"] if region.row else []
        arguments += [names[o] for o in region.by_row]
        return list(inner.lines()), results, arguments

    def _inputs(self, region: ir.Region, home: ir.Block) -> str:
        """Return the text of the inputs that vary by row, behind other arguments."""
        inputs = ", rt.row_numbers(rows)" if region.row else ""
        return inputs + "".join(f", {self.text(o, home)}" for o in region.by_row)


def _flatten(scope: ir.Block) -> Iterator[str]:
    for line in scope.lines:
        if isinstance(line, ir.Block):
            yield from (INDENT + inner for inner in _flatten(line))
        else:
            yield line


#: Lists that objects of the API hold: a loop over one, with none inside, needs no counting.
_READ: Final = (ops.ATTR, ops.FIELD_OF_POD, ops.PODS_AT, ops.TAINTS, ops.PORTS, ops.OF_CTX)


def _names(loop: ir.Loop) -> str:
    if loop.index is None or loop.kind is ir.LoopKind.FOLD:
        return f"p{loop.param}"
    return f"p{loop.index}, p{loop.param}"


def loop_text(emitter: Emitter, op: ir.Op, loop: ir.Loop, name: str, home: ir.Block) -> None:
    """Write the loop ``op`` into ``home``; its value and error get the names ``name`` + v, e."""
    source = emitter.text(op.args[0], home)
    before = emitter.steps
    body = emitter.branch(op, 0)
    head = [f"{name}v = {loop.kind.start}", f"{name}e = 0"]
    over = emitter.placement.over_rows(op)
    for i in range(loop.errors):
        error = emitter.text(op.args[1 + i], body)
        head.append(f"{name}s{i} = 0")
        if over:
            body.lines.append(f"{name}s{i} = earlier({name}s{i}, {error})")
        else:
            body.lines.append(f"if not {name}s{i}: {name}s{i} = {error}")
    rest = op.args[1 + loop.errors :]
    if loop.kind is ir.LoopKind.FOLD:
        head[0] = f"p{loop.index} = {emitter.text(rest[-1], home)}"
        rest = rest[:-1]
    (_rows if over else _single)(emitter, op, loop, name, list(rest))
    inside = emitter.steps > before
    counts = over or home.in_loop or inside or op.args[0].kind not in _READ
    if counts:
        emitter.steps += 1
        home.lines.append(f"{name}l = {source}")
        source = f"{name}l"
        home.lines += _begun(source, over=over, nested=home.in_loop, inside=inside)
    if loop.index is not None and loop.kind is not ir.LoopKind.FOLD:
        source = f"enumerate({source})"
    home.lines += [*head, f"for {_names(loop)} in {source}:", body]
    if loop.kind is ir.LoopKind.FOLD:
        home.lines.append(f"{name}v = p{loop.index}")
    if inside and not home.in_loop:
        home.lines += ["left.total -= steps", "if left.total < 0: exhausted()"]
    tail = {ir.LoopKind.ALL: f"{name}v", ir.LoopKind.EXISTS: f"not {name}v"}.get(loop.kind)
    if tail and len(rest) - loop.masked > 1:
        if over:
            tail = f"{name}v" if loop.kind is ir.LoopKind.ALL else f"opposite({name}v)"
            home.lines.append(f"{name}e = chosen({tail}, {name}e, 0)")
        else:
            home.lines.append(f"if not ({tail}): {name}e = 0")
    for i in reversed(range(loop.errors)):
        stage = f"{name}s{i}"
        joined = f"earlier({stage}, {name}e)" if over else f"{stage} or {name}e"
        home.lines.append(f"{name}e = {joined}")


def _within(steps: str) -> str:
    """Return the test whether a loop may take some more steps, see values/limits.py."""
    return f"(steps := steps + {steps}) <= {limits.MAX_STEPS}"


def _begun(source: str, *, over: bool, nested: bool, inside: bool) -> list[str]:
    """Return the lines before a loop that count its steps.

    ``nested``: it is inside of another one; ``inside``: more is counted inside of it.
    """
    rows = [f"begin_rows({source}, n)"] if over else []
    if nested:
        return rows or [f"if not {_within(f'len({source})')}: exceeded(left)"]
    if not inside:
        return rows or [f"begin(left, {source})"]
    return [*rows, "steps = 0" if over else f"steps = len({source})"]


def _single(emitter: Emitter, op: ir.Op, loop: ir.Loop, name: str, rest: list[ir.Op]) -> None:
    body = emitter.branch(op, 0)
    inside = body
    if loop.masked:
        inside = emitter.branch(op, 1)
        body.lines += [f"if {emitter.text(rest.pop(0), body)}:", inside]
    value = emitter.text(rest[0], inside)
    lines = inside.lines
    match loop.kind:
        case ir.LoopKind.LIST | ir.LoopKind.EACH:
            lines.append(f"{name}v.append({value})")
        case ir.LoopKind.FOLD:
            if len(rest) > 1:
                lines.append(f"{name}e = {name}e or {emitter.text(rest[1], inside)}")
            lines.append(f"p{loop.index} = {value}")
        case ir.LoopKind.DICT:
            lines.append(f"{name}v[p{loop.index or loop.param}] = {value}")
        case ir.LoopKind.COUNT:
            lines.append(f"{name}v += 1")
        case ir.LoopKind.SUM_DOUBLE:
            lines.append(f"{name}v += {value}")
        case ir.LoopKind.SUM_INT:
            lines.append(f"{name}v += {value}")
            if loop.site:
                lines.append(f"{name}v, {name}t = checked({name}v, {loop.site})")
                lines.append(f"if not {name}e: {name}e = {name}t")
        case ir.LoopKind.ALL | ir.LoopKind.EXISTS:
            decides = f"not {value}" if loop.kind is ir.LoopKind.ALL else value
            if len(rest) > 1:
                error = emitter.named(rest[1], inside)
                lines.append(f"if {error}: {name}e = {name}e or {error}")
                lines.append(f"elif {decides}:")
            else:
                lines.append(f"if {decides}:")
            block = ir.Block()
            block.lines.append(f"{name}v = {loop.kind is ir.LoopKind.EXISTS}")
            if not loop.errors:
                block.lines.append("break")
            lines.append(block)


def _rows(emitter: Emitter, op: ir.Op, loop: ir.Loop, name: str, rest: list[ir.Op]) -> None:
    body = emitter.branch(op, 0)
    mask = emitter.named(rest.pop(0), body) if loop.masked else ""
    value = emitter.named(rest[0], body)
    lines = body.lines
    match loop.kind:
        case ir.LoopKind.EACH:
            lines.append(f"{name}v.append({value})")
        case ir.LoopKind.COUNT:
            lines.append(f"{name}v = add({name}v, as_ints({mask or 'True'}))")
        case ir.LoopKind.SUM_DOUBLE | ir.LoopKind.SUM_INT:
            zero = "0" if loop.kind is ir.LoopKind.SUM_INT else "0.0"
            part = f"chosen({mask}, {value}, {zero})" if mask else value
            if loop.site:
                lines.append(f"{name}v, {name}t = add_checked({name}v, {part}, {loop.site})")
                lines.append(f"{name}e = earlier({name}e, {name}t)")
            else:
                lines.append(f"{name}v = add({name}v, {part})")
        case ir.LoopKind.ALL | ir.LoopKind.EXISTS:
            decides = f"opposite({value})" if loop.kind is ir.LoopKind.ALL else value
            if mask:
                decides = f"both({mask}, {decides})"
            if len(rest) > 1:
                error = emitter.named(rest[1], body)
                own = f"chosen({mask}, {error}, 0)" if mask else error
                lines.append(f"{name}e = earlier({name}e, {own})")
                decides = f"both({decides}, ({error} == 0))"
            if loop.kind is ir.LoopKind.ALL:
                lines.append(f"{name}v = both({name}v, opposite({decides}))")
            else:
                lines.append(f"{name}v = either({name}v, {decides})")


def _is_positive(op: ir.Op) -> bool:
    """Return whether an op is a constant above 0: of it and NaN, `fmin` is it, as the rules say."""
    return op.kind is ops.CONST and isinstance(op.data, float) and op.data > 0


def _is_deep(text: str) -> bool:
    """Return whether a text nests so many parentheses that its parts need names."""
    if text.count("(") < _MAX_NESTING:
        return False
    depth = deepest = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        deepest = max(deepest, depth)
    return deepest >= _MAX_NESTING
