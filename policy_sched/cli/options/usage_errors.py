"""Wrong usage in the words that users of kubectl know, and where to read on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from cyclopts import App, Argument
from cyclopts.exceptions import (
    CycloptsError,
    MissingArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from policy_sched.cli.options.kube_scheduler_flags import unsupported
from policy_sched.errors import nearest


def usage_error_text(error: CycloptsError, verbs: Collection[str]) -> str:
    """Return the problems of a command line, and below it the help to read."""
    command = ("policy-sched", *(error.command_chain or ()))
    return f"policy-sched: {_what(error, verbs)}\n{_see(command)}"


def _what(error: CycloptsError, verbs: Collection[str]) -> str:
    if isinstance(error, UnknownCommandError):
        return _unknown_command((error.unused_tokens or [""])[0], verbs)
    if isinstance(error, UnknownOptionError):
        typed = error.token.keyword or error.token.value
        return _unknown_option(typed, error.argument_collection)
    if isinstance(error, UnusedCliTokensError):
        tokens = error.unused_tokens or []
        what = "argument" if len(tokens) == 1 else "arguments"
        return f"unexpected {what}: {' '.join(tokens)}{_repeated(error, tokens)}"
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        return _missing(error)
    text = str(error).rstrip(".")
    return f"{text[:1].lower()}{text[1:]}"


def unknown_option_text(typed: str, app: App, verb: str) -> str:
    """Return the same for an option that a verb does not have."""
    what = _unknown_option(typed, app[verb].assemble_argument_collection())
    return f"policy-sched: {what}\n{_see(('policy-sched', verb))}"


def _unknown_option(typed: str, arguments: Iterable[Argument]) -> str:
    if typed == "-":
        return "standard input (-) is not read here: name a file"
    names = [name for argument in arguments for name in argument.names if name.startswith("--")]
    why = unsupported().get(typed.partition("=")[0]) if "--leader-elect" in names else None
    if why is not None:
        return f"{typed.partition('=')[0]} is not supported: {why}"
    close = nearest(typed.partition("=")[0], names)
    return f"unknown option: {typed}" + (f"; did you mean {close}?" if close else "")


def _see(command: Iterable[str]) -> str:
    return f"See '{' '.join(command)} --help' for usage."


def _repeated(error: UnusedCliTokensError, tokens: Sequence[str]) -> str:
    """Return a hint if the surplus follows an option and its value, as if it took more."""
    given = list(error.root_input_tokens or ())
    at = given.index(tokens[0]) if tokens and tokens[0] in given else 0
    option = given[at - 2] if at >= 2 else ""
    return f"; for another value write {option} again" if option.startswith("--") else ""


#: What others call our verbs.
_ELSEWHERE: Final = {"lint": "check", "validate": "check", "format": "fmt", "describe": "explain"}


def _unknown_command(token: str, verbs: Collection[str]) -> str:
    if token.startswith("-"):
        return f"unknown option: {token}"
    close = _ELSEWHERE.get(token) or nearest(token, verbs)
    hint = f'; did you mean "{close}"?' if close else f"; there are {', '.join(sorted(verbs))}"
    return f'unknown command "{token}"{hint}'


def _missing(error: MissingArgumentError) -> str:
    assert error.argument is not None
    name = error.keyword or error.argument.name
    if not name.startswith("-"):
        return f"{name} is missing"
    given = error.keyword is not None or error.argument.tokens
    return f"{name} needs a value" if given else f"{name} is missing"
