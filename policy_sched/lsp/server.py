"""The server: implements the Language Server Protocol on top of the other modules.

Positions of the protocol count UTF-16 units, unless the client negotiates another unit; all others
count characters. pygls converts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Lock
from typing import BinaryIO, Final, cast

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException, JsonRpcInternalError
from pygls.lsp.server import LanguageServer
from pygls.workspace import TextDocument
from pygls.workspace.position_codec import ServerTextPosition, ServerTextRange

from policy_sched import __version__
from policy_sched.errors import Diagnostic, Severity, one_line
from policy_sched.experiments import open_experiment_problems
from policy_sched.language import Entry
from policy_sched.lsp.cursor import definition
from policy_sched.lsp.frames import Frames
from policy_sched.lsp.suggestions import Fix, Kind, fixes, meaning, suggestions
from policy_sched.profiles.check import check_open
from policy_sched.profiles.format import format_file

_LOG: Final = logging.getLogger("policy_sched.lsp")
_SEVERITIES: Final = {
    Severity.ERROR: lsp.DiagnosticSeverity.Error,
    Severity.WARNING: lsp.DiagnosticSeverity.Warning,
    Severity.NOTE: lsp.DiagnosticSeverity.Information,
}
_KINDS: Final[dict[Kind, lsp.CompletionItemKind]] = {
    "variable": lsp.CompletionItemKind.Variable,
    "field": lsp.CompletionItemKind.Field,
    "method": lsp.CompletionItemKind.Method,
    "function": lsp.CompletionItemKind.Function,
    "module": lsp.CompletionItemKind.Module,
    "keyword": lsp.CompletionItemKind.Keyword,
    "property": lsp.CompletionItemKind.Property,
}


class Server(LanguageServer):
    """A server that records whether its client left in order."""

    def __init__(self) -> None:
        super().__init__("policy-sched", __version__)
        self.left_early = False
        """Whether an ``exit`` came without a ``shutdown`` before it."""
        self._shut_down = False
        # What it logs is a traceback for each odd message; mistakes of ours are reported below.
        logging.getLogger("pygls").setLevel(logging.CRITICAL + 1)

        @self.feature(lsp.SHUTDOWN)
        def shut_down(_params: None) -> None:
            self._shut_down = True

        @self.feature(lsp.EXIT)
        def exited(_params: None) -> None:
            self.left_early = not self._shut_down

    def serve(self, stdin: BinaryIO, stdout: BinaryIO, warn: Callable[[str], object]) -> None:
        """Serve one client; ``say`` tells the user why it ended early."""
        lock = Lock()

        def send(data: bytes) -> None:
            with lock:
                stdout.write(data)
                stdout.flush()

        self.start_io(cast("BinaryIO", Frames(stdin, self.protocol, send, warn)), stdout)

    def report_server_error(self, error: Exception, source: object) -> None:
        """Log a mistake of ours in a line; what a client did wrong it is told."""
        del source
        if isinstance(error, JsonRpcInternalError) or not isinstance(error, JsonRpcException):
            _LOG.error("Failed to serve the editor: %s", one_line(str(error)))

    def document(self, uri: str) -> TextDocument:
        """Return a document that is open; another one is empty, and no file of it is read."""
        open_document = self.workspace.text_documents.get(uri)
        return TextDocument(uri, "") if open_document is None else open_document


def make_server() -> Server:
    """Return a server with its features; `Server.serve` serves one client over stdio."""
    server = Server()
    _register_diagnostics(server)
    _register_lookups(server)
    _register_edits(server)
    return server


def _register_diagnostics(server: Server) -> None:
    """Register the publication of problems when a document is opened or changed."""

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        _publish(server, params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        _publish(server, params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))


def _register_lookups(server: Server) -> None:
    """Register completion, hover and definition."""

    @server.feature(
        lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=[".", '"'])
    )
    def complete(params: lsp.CompletionParams) -> list[lsp.CompletionItem]:
        document = server.document(params.text_document.uri)
        at = document.position_from_client_units(params.position)
        results = suggestions(_name(document), document.source, at.line, at.character)
        return [
            lsp.CompletionItem(
                label=suggestion.label,
                kind=_KINDS[suggestion.kind],
                detail=suggestion.entry.title,
                documentation=_markdown(suggestion.entry),
                sort_text=f"{rank:04d}",
            )
            for rank, suggestion in enumerate(results)
        ]

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hover(params: lsp.HoverParams) -> lsp.Hover | None:
        document = server.document(params.text_document.uri)
        at = document.position_from_client_units(params.position)
        entry = meaning(_name(document), document.source, at.line, at.character)
        return None if entry is None else lsp.Hover(_markdown(entry))

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def defined(params: lsp.DefinitionParams) -> lsp.Location | None:
        document = server.document(params.text_document.uri)
        at = document.position_from_client_units(params.position)
        results = definition(_name(document), document.source, at.line, at.character)
        if results is None:
            return None
        start, end = ServerTextPosition(*results[:2]), ServerTextPosition(*results[2:])
        location = document.range_to_client_units(ServerTextRange(start, end))
        return lsp.Location(params.text_document.uri, location)


def _register_edits(server: Server) -> None:
    """Register quick fixes and formatting."""

    @server.feature(
        lsp.TEXT_DOCUMENT_CODE_ACTION,
        lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix]),
    )
    def actions(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        document = server.document(params.text_document.uri)
        lines = params.range.start.line, params.range.end.line
        check = partial(
            check_open,
            _name(document),
            beside=_beside(document),
            experiments=open_experiment_problems,
        )
        fixes_found = fixes(document.source, *lines, check)
        return [_action(document, fix) for fix in fixes_found]

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def formatted(params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit] | None:
        document = server.document(params.text_document.uri)
        text, problems = format_file(_name(document), document.source)
        if problems or text == document.source:
            return None
        end = lsp.Position(len(document.lines), 0)
        return [lsp.TextEdit(lsp.Range(lsp.Position(0, 0), end), text)]


def _publish(server: Server, uri: str) -> None:
    """Publish all problems of a document's current text."""
    document = server.document(uri)
    name = _name(document)
    problems = check_open(name, document.source, _beside(document), open_experiment_problems)
    diagnostics = [_diagnostic(document, problem) for problem in problems]
    server.text_document_publish_diagnostics(
        lsp.PublishDiagnosticsParams(uri, diagnostics, document.version)
    )


def _beside(document: TextDocument) -> list[str]:
    """Return the directory of a document's file, if it has one."""
    folder = Path(_name(document)).parent
    return [str(folder)] if folder.is_dir() else []


def _action(document: TextDocument, fix: Fix) -> lsp.CodeAction:
    problem = _diagnostic(document, fix.problem)
    edit = lsp.TextEdit(problem.range, fix.new_text)
    return lsp.CodeAction(
        title=fix.title,
        kind=lsp.CodeActionKind.QuickFix,
        diagnostics=[problem],
        edit=lsp.WorkspaceEdit(changes={document.uri: [edit]}),
        is_preferred=True,
    )


def _name(document: TextDocument) -> str:
    return document.path or document.uri


def _diagnostic(document: TextDocument, problem: Diagnostic) -> lsp.Diagnostic:
    start = ServerTextPosition(problem.line - 1, problem.column - 1)
    end = ServerTextPosition(problem.line - 1, problem.column - 1 + problem.width)
    return lsp.Diagnostic(
        range=document.range_to_client_units(ServerTextRange(start, end)),
        message="\n".join(
            part for part in (problem.message, problem.context, problem.hint) if part
        ),
        severity=_SEVERITIES[problem.severity],
        code=problem.code,
        source="policy-sched",
    )


def _markdown(entry: Entry) -> lsp.MarkupContent:
    parts = [f"```\n{entry.title}\n```", f"*{entry.kind}*", entry.text]
    parts += [f"```\n{entry.example}\n```"] if entry.example else []
    value = "\n\n".join(part for part in parts if part)
    return lsp.MarkupContent(lsp.MarkupKind.Markdown, value)
