"""Error messages for syntax errors: syntax of other languages first, then the expected tokens.

Theory of operation. Strings and comments are blanked, so that a pattern cannot match inside them.
Patterns of other languages are tried where the parser stopped (and, for the few that the grammar
reads differently, before it); if none matches, the message lists the expected tokens.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from policy_sched.language.diagnostics import Problem

_OPAQUE: Final = re.compile(
    r"[bB]?[rR](?:\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''|\"[^\"\r\n]*\"|'[^'\r\n]*')"
    r"|\"\"\"(?:\\[\s\S]|[^\\])*?\"\"\"|'''(?:\\[\s\S]|[^\\])*?'''"
    r"|\"(?:\\.|[^\"\\\r\n])*\"|'(?:\\.|[^'\\\r\n])*'|//[^\n]*"
)
_SUFFIXED: Final = re.compile(
    r"(?<![\w.])(?P<number>\d+(?:\.\d+)?|\.\d+)(?P<unit>[A-Za-z]+(?:\d+[A-Za-z]+)*)"
)
_WORD_BEFORE: Final = re.compile(r"([A-Za-z_]\w*)\s*$")
_WORD_AT: Final = re.compile(r"[A-Za-z_]\w*")
_OPERATOR_WORDS: Final = {"and": "&&", "or": "||", "not": "!", "is": "=="}
_QUANTITY_UNITS: Final = frozenset(
    {"n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}
)
_DURATION_UNITS: Final = frozenset({"ns", "us", "ms", "s", "m", "h"})
_CHARACTERS: Final = {
    "=": ("`=` is not an operator of rules", "write `==` to compare"),
    "&": ("`&` is not an operator of rules", "write `&&`"),
    "|": ("`|` is not an operator of rules", "write `||`"),
}
_OTHER_CHARACTERS: Final = {
    "#": "a comment begins with `//`",
    ";": "an expression has no statements; use `variables` for intermediate values",
    "$": "names have no `$`",
    "\u201c": 'write straight quotes: "..."',
    "\u201d": 'write straight quotes: "..."',
    "\u2018": "write straight quotes: '...'",
    "\u2019": "write straight quotes: '...'",
}
_SIGNS: Final = {"COLON": ":", "COMMA": ",", "RPAR": ")", "RSQB": "]", "RBRACE": "}"}


def blank(text: str) -> str:
    """Return ``text`` with strings and comments replaced by as many spaces."""
    return _OPAQUE.sub(lambda m: " " * len(m[0]), text)


def safe_navigation(text: str) -> list[Problem]:
    """Return a problem for every ``?.``, which is another language's spelling of ``.?``."""
    return [
        Problem(m.start(), m.end(), "PS002", "rules spell this `.?`", "write `.?` instead of `?.`")
        for m in re.finditer(r"\?\.(?!\d)", blank(text))
    ]


def explain(text: str, at: int, expected: Collection[str]) -> list[Problem]:
    """Return at least one problem for a text at whose offset ``at`` the parser stopped."""
    found = safe_navigation(text)
    if found:
        return found
    bare = blank(text)
    for look in (_unclosed, _character, _suffix, _operator_word, _if_call):
        problem = look(text, bare, at)
        if problem is not None:
            return [problem]
    return [_unexpected(text, bare, at, expected)]


def _unclosed(text: str, bare: str, at: int) -> Problem | None:
    """A quote that no other quote closes: the first that is left after blanking."""
    found = re.search(r"[\"']", bare)
    if found is None or found.start() > at + 1:
        return None
    start = found.start()
    apostrophe = start > 0 and text[start] == "'" and (text[start - 1].isalnum())
    if apostrophe and not re.search(r"(?<!\w)[rRbB]{1,2}$", text[:start]):
        return Problem(
            start,
            start + 1,
            "PS002",
            "this ' opens a string that is never closed",
            r"inside '...' write \', or put the text in double quotes",
        )
    return Problem(
        start, start + 1, "PS004", "this string is never closed", "close it on the same line"
    )


def _character(text: str, bare: str, at: int) -> Problem | None:
    here = bare[at : at + 1]
    if here in _CHARACTERS:
        message, hint = _CHARACTERS[here]
        return Problem(at, at + 1, "PS002", message, hint)
    if here in _OTHER_CHARACTERS:
        return Problem(at, at + 1, "PS001", f"unexpected `{text[at]}`", _OTHER_CHARACTERS[here])
    if bare[at - 1 : at + 1] == "<>":
        return Problem(at - 1, at + 1, "PS002", "`<>` is not an operator of rules", "write `!=`")
    return None


def _suffix(_text: str, bare: str, at: int) -> Problem | None:
    """A number with a unit glued to it, ending or beginning where the parser stopped."""
    for found in _SUFFIXED.finditer(bare):
        if found.start() <= at <= found.end() and found["unit"].lower() not in ("u", "x"):
            written, unit = found[0], found["unit"]
            calls = []
            if unit in _QUANTITY_UNITS:
                calls.append(f'quantity("{written}")')
            if unit in _DURATION_UNITS or re.fullmatch(r"[a-z]+\d+[a-z]+.*", unit):
                calls.append(f'duration("{written}")')
            hint = f"write {' or '.join(calls)}" if calls else "quote a text"
            return Problem(found.start(), found.end(), "PS002", f"{written} is not a number", hint)
    return None


def _operator_word(text: str, bare: str, at: int) -> Problem | None:
    here = _WORD_AT.match(bare, at)
    before = _WORD_BEFORE.search(bare, 0, at)
    for found, start in (
        (here and here[0], at),
        (before and before[1], before.start(1) if before else 0),
    ):
        if found and found.lower() in _OPERATOR_WORDS:
            operator = _OPERATOR_WORDS[found.lower()]
            return Problem(
                start,
                start + len(found),
                "PS002",
                f"`{text[start : start + len(found)]}` is not an operator of rules",
                f"write `{operator}`",
            )
    return None


def _if_call(_text: str, bare: str, at: int) -> Problem | None:
    found = re.search(r"(?<![\w.])if\b", bare[: at + 2])
    if found is None:
        return None
    return if_problem(found.start())


def if_problem(start: int) -> Problem:
    """Return the problem for the word ``if`` at ``start``."""
    return Problem(
        start,
        start + 2,
        "PS002",
        "rules have no `if`",
        "write `condition ? value : otherwise`",
    )


def _unexpected(text: str, bare: str, at: int, expected: Collection[str]) -> Problem:
    end_of_text = not bare[at:].strip() and not text[at:].strip()
    opened = _innermost_open(bare[:at])
    words = _words(expected)
    hint = ""
    if end_of_text:
        at = len(text.rstrip())
        message = f"the expression ends too early; expected {words}" if words else "unexpected end"
        if not text.strip():
            message = "the expression is empty"
        if opened is not None:
            hint = f"the `{bare[opened]}` at character {opened + 1} is not closed"
        return Problem(max(0, at - 1), max(at, 1 if text else 0), "PS001", message, hint)
    token = re.match(r"\w+|\S", text[at:])
    found = token[0] if token else text[at : at + 1]
    if re.match(r"\d+\.(?!\d)", text[max(0, at - 20) :]) and found == ".":
        hint = "write a digit after the point, as in `1.0`"
    message = f"unexpected `{found}`" + (f"; expected {words}" if words else "")
    return Problem(at, at + len(found), "PS001", message, hint)


def _innermost_open(bare: str) -> int | None:
    """Return the offset of the innermost bracket that is open at the end of ``bare``."""
    stack: list[int] = []
    for at, char in enumerate(bare):
        if char in "([{":
            stack.append(at)
        elif char in ")]}" and stack:
            stack.pop()
    return stack[-1] if stack else None


def _words(expected: Collection[str]) -> str:
    """Put the parser's expected tokens into words."""
    if "INT" in expected:
        parts = ["a value"]
    elif "PLUS" in expected:
        parts = ["an operator"]
    elif "NAME" in expected:
        parts = ["a name"]
    else:
        parts = []
    parts += [f"`{sign}`" for token, sign in _SIGNS.items() if token in expected]
    if len(parts) > 1:
        return ", ".join(parts[:-1]) + " or " + parts[-1]
    return "".join(parts)
