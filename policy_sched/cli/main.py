"""The command ``policy-sched``: runs the verb, and turns errors into exit codes.

Exit codes: 0 done; 1 problems in the given files (or, where requested, a pod that was
not placed); 2 usage error, unreadable file or internal error; 3 only lints, where requested to be
fatal; 130 interrupted; 141 the reader closed the pipe.
``--version`` is printed before the command line's library is imported.
"""

from __future__ import annotations

import gc
import io
import os
import signal
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Final

from policy_sched import __version__
from policy_sched.cli.output.diagnostics import FAILED, UNUSABLE, write_diagnostics
from policy_sched.errors import PolicyError, PolicySchedError, one_line

GC_THRESHOLDS: Final = (500_000, 10, 100)
"""New objects, and collections of a younger generation, after which Python collects.

Modules, trees and objects of a cluster live as long as a command; Python's own thresholds spend a
tenth of its time on collections that find nothing. A start makes fewer objects than that.
"""
INTERRUPTED: Final = 130
UNREAD: Final = 141
"""The shell's numbers for SIGINT and SIGPIPE."""


def main() -> None:
    """Run the command line of this process and exit."""
    # No matrix is multiplied here, and each of NumPy's threads would cost 10 ms to start.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Looking for plugins of pydantic means reading what is said of every package that is installed.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    os.environ.setdefault("POLICY_SCHED_CACHE", _cache_directory())
    gc.set_threshold(*GC_THRESHOLDS)
    sys.excepthook = _report_internal_error
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names of files may be no UTF-8
            stream.reconfigure(errors="backslashreplace")
    if sys.argv[1:2] == ["run"]:
        # The start does what both signals request; their default would end the process.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        if sys.stdout.isatty():
            print("policy-sched is starting ...", end="\r", flush=True)  # imports take a second
    code = run(sys.argv[1:])
    # The end of Python would look for cycles among all objects twice, a quarter of a short command.
    gc.freeze()
    sys.exit(code)


def _cache_directory() -> str:
    """Return where compiled rules are kept: with the user's other caches; "" without a home."""
    home = os.environ.get("HOME", "")
    caches = os.environ.get("XDG_CACHE_HOME") or (home and os.path.join(home, ".cache"))
    return os.path.join(caches, "policy-sched") if os.path.isabs(caches) else ""


def _open_streams() -> None:
    """Put /dev/null where a standard stream is closed: no file is opened in its place then."""
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is not None:
            continue
        null = os.open(os.devnull, os.O_RDWR)
        if null != descriptor:
            os.dup2(null, descriptor)
            os.close(null)
        setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8"))


def _report_internal_error(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Exit with 2 after an internal error: 1 means that the files are wrong."""
    sys.__excepthook__(kind, error, trace)
    words = "this is a mistake of policy-sched itself; please report it with the lines above"
    print(f"policy-sched: {words}", file=sys.stderr, flush=True)
    os._exit(UNUSABLE)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    arguments = _as_options(arguments)
    if arguments == ["--version"]:
        print(__version__)
        return 0
    # imported here: the library costs 60 ms, which --version need not wait for
    from cyclopts.exceptions import CycloptsError  # noqa: PLC0415

    from policy_sched.cli.app import VERBS, app  # noqa: PLC0415
    from policy_sched.cli.input.paths import MisspeltOptionError  # noqa: PLC0415

    try:
        code = app(arguments)
        sys.stdout.flush()
    except PolicyError as error:
        write_diagnostics(error.diagnostics, sys.stderr)
        return FAILED
    except MisspeltOptionError as error:
        from policy_sched.cli.options.usage_errors import unknown_option_text  # noqa: PLC0415  needed only here

        print(unknown_option_text(str(error), app, arguments[0]), file=sys.stderr)
        return UNUSABLE
    except PolicySchedError as error:
        print(_on_lines(f"policy-sched: {error}"), file=sys.stderr)
        return UNUSABLE
    except CycloptsError as error:
        from policy_sched.cli.options.usage_errors import usage_error_text  # noqa: PLC0415  needed only here

        print(_on_lines(usage_error_text(error, VERBS)), file=sys.stderr)
        return UNUSABLE
    except BrokenPipeError:  # the reader has seen enough, as in `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
    except OSError as error:
        print(_on_lines(f"policy-sched: {_reason(error)}"), file=sys.stderr)
        return UNUSABLE
    except KeyboardInterrupt:
        return INTERRUPTED
    return code if isinstance(code, int) else 0


def _as_options(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with ``help VERB`` and ``version``, as kubectl has them, as options."""
    if arguments and arguments[0] == "help":
        return [*arguments[1:], "--help"]
    return ["--version"] if list(arguments) == ["version"] else list(arguments)


def _on_lines(text: str) -> str:
    return "\n".join(map(one_line, text.split("\n")))


def _reason(error: OSError) -> str:
    if error.filename is None:
        return error.strerror or str(error)
    return f"{error.filename}: {error.strerror}"
