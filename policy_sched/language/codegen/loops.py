"""Writes loops over run-time lists: element by element, or, over rows, for all rows at once.

Every loop leaves two names, the value (``v``) and the error (``e``). Errors of the stages of a
comprehension (filter, map, ...) come first, in order of the stages, then the error of the
reduction itself. `all` and `exists` absorb the errors of their own predicate as CEL says.
"""

from __future__ import annotations

from typing import Final, Protocol

from policy_sched.language.ir import Block, CodeMotion, Loop, Op, ops

_START: Final = {
    "list": "[]",
    "dict": "{}",
    "all": "True",
    "exists": "False",
    "count": "0",
    "sum_int": "0",
    "sum_double": "0.0",
}


#: Lists that objects of the API hold: a loop over one, with none inside, needs no counting.
_READ: Final = (ops.ATTR, ops.FIELD_OF_POD, ops.PODS_AT, ops.TAINTS, ops.PORTS, ops.OF_CTX)


class Emitter(Protocol):
    """What writes everything else; see emit."""

    steps: int
    """How many times steps are counted in what was written so far."""

    @property
    def placement(self) -> CodeMotion:
        """Where everything is computed."""

    def text(self, op: Op, scope: Block) -> str:
        """Return the text of ``op`` for use in ``scope``."""

    def named(self, op: Op, scope: Block) -> str:
        """Return a text of ``op`` that may be repeated."""

    def branch(self, op: Op, number: int) -> Block:
        """Return the scope of a branch or a loop body of ``op``."""


def _names(loop: Loop) -> str:
    if loop.index is None:
        return f"p{loop.param}"
    return f"p{loop.index}, p{loop.param}"


def loop_text(emitter: Emitter, op: Op, loop: Loop, name: str, home: Block) -> None:
    """Write the loop ``op`` into ``home``; its value and error get the names ``name`` + v, e."""
    source = emitter.text(op.args[0], home)
    before = emitter.steps
    body = emitter.branch(op, 0)
    head = [f"{name}v = {_START[loop.kind]}", f"{name}e = 0"]
    over = emitter.placement.over_rows(op)
    for i in range(loop.errors):
        error = emitter.text(op.args[1 + i], body)
        head.append(f"{name}s{i} = 0")
        if over:
            body.lines.append(f"{name}s{i} = earlier({name}s{i}, {error})")
        else:
            body.lines.append(f"if not {name}s{i}: {name}s{i} = {error}")
    rest = op.args[1 + loop.errors :]
    (_rows if over else _single)(emitter, op, loop, name, list(rest))
    if over or home.in_loop or emitter.steps > before or op.args[0].kind not in _READ:
        emitter.steps += 1
        home.lines.append(f"{name}l = {source}")
        source = f"{name}l"
        home.lines.append(_counted(source, over=over, inside=home.in_loop))
    if loop.index is not None:
        source = f"enumerate({source})"
    home.lines += [*head, f"for {_names(loop)} in {source}:", body]
    tail = {"all": f"{name}v", "exists": f"not {name}v"}.get(loop.kind)
    if tail and len(rest) - loop.masked > 1:
        if over:
            tail = f"{name}v" if loop.kind == "all" else f"opposite({name}v)"
            home.lines.append(f"{name}e = chosen({tail}, {name}e, 0)")
        else:
            home.lines.append(f"if not ({tail}): {name}e = 0")
    for i in reversed(range(loop.errors)):
        stage = f"{name}s{i}"
        joined = f"earlier({stage}, {name}e)" if over else f"{stage} or {name}e"
        home.lines.append(f"{name}e = {joined}")


def _counted(source: str, *, over: bool, inside: bool) -> str:
    """Return the line that counts a loop's steps, see `work`."""
    if over:
        return f"{'spend' if inside else 'begin'}_rows({source}, n)"
    return f"spend(len({source}))" if inside else f"begin({source})"


def _single(emitter: Emitter, op: Op, loop: Loop, name: str, rest: list[Op]) -> None:
    body = emitter.branch(op, 0)
    inside = body
    if loop.masked:
        inside = emitter.branch(op, 1)
        body.lines += [f"if {emitter.text(rest.pop(0), body)}:", inside]
    value = emitter.text(rest[0], inside)
    lines = inside.lines
    match loop.kind:
        case "list":
            lines.append(f"{name}v.append({value})")
        case "dict":
            lines.append(f"{name}v[p{loop.index or loop.param}] = {value}")
        case "count":
            lines.append(f"{name}v += 1")
        case "sum_double":
            lines.append(f"{name}v += {value}")
        case "sum_int":
            lines.append(f"{name}v += {value}")
            if loop.site:
                lines.append(f"{name}v, {name}t = checked({name}v, {loop.site})")
                lines.append(f"if not {name}e: {name}e = {name}t")
        case "all" | "exists":
            decides = f"not {value}" if loop.kind == "all" else value
            if len(rest) > 1:
                error = emitter.named(rest[1], inside)
                lines.append(f"if {error}: {name}e = {name}e or {error}")
                lines.append(f"elif {decides}:")
            else:
                lines.append(f"if {decides}:")
            found = Block()
            found.lines.append(f"{name}v = {loop.kind == 'exists'}")
            if not loop.errors:
                found.lines.append("break")
            lines.append(found)


def _rows(emitter: Emitter, op: Op, loop: Loop, name: str, rest: list[Op]) -> None:
    body = emitter.branch(op, 0)
    mask = emitter.named(rest.pop(0), body) if loop.masked else ""
    value = emitter.named(rest[0], body)
    lines = body.lines
    match loop.kind:
        case "count":
            lines.append(f"{name}v = add({name}v, as_ints({mask or 'True'}))")
        case "sum_double" | "sum_int":
            zero = "0" if loop.kind == "sum_int" else "0.0"
            part = f"chosen({mask}, {value}, {zero})" if mask else value
            if loop.site:
                lines.append(f"{name}v, {name}t = add_checked({name}v, {part}, {loop.site})")
                lines.append(f"{name}e = earlier({name}e, {name}t)")
            else:
                lines.append(f"{name}v = add({name}v, {part})")
        case "all" | "exists":
            decides = f"opposite({value})" if loop.kind == "all" else value
            if mask:
                decides = f"both({mask}, {decides})"
            if len(rest) > 1:
                error = emitter.named(rest[1], body)
                own = f"chosen({mask}, {error}, 0)" if mask else error
                lines.append(f"{name}e = earlier({name}e, {own})")
                decides = f"both({decides}, ({error} == 0))"
            if loop.kind == "all":
                lines.append(f"{name}v = both({name}v, opposite({decides}))")
            else:
                lines.append(f"{name}v = either({name}v, {decides})")
