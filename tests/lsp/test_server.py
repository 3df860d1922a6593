"""The language server, driven by a real client over stdio."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pygls")

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

TEXT = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: P}
spec:
  filter:
  - expression: '"😀" == node.nmae  ||  node.unschedulable'
    message: why
"""
BOUND = 120.0
"""Seconds after which a test gives up; nothing takes that long."""
Use = Callable[["Editor"], Coroutine[None, None, None]]


class Editor:
    """A client with one open file; published diagnostics are kept."""

    def __init__(self, client: LanguageClient, uri: str) -> None:
        self.client = client
        self.uri = uri
        self.published: asyncio.Queue[lsp.PublishDiagnosticsParams] = asyncio.Queue()

    async def open(self, text: str) -> list[lsp.Diagnostic]:
        """Open the file; return its problems."""
        document = lsp.TextDocumentItem(self.uri, "yaml", 1, text)
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(document))
        return await self._problems()

    async def type(self, line: int, start: int, end: int, text: str) -> list[lsp.Diagnostic]:
        """Replace a part of a line; return the problems then."""
        span = lsp.Range(lsp.Position(line, start), lsp.Position(line, end))
        change = lsp.TextDocumentContentChangePartial(range=span, text=text)
        document = lsp.VersionedTextDocumentIdentifier(version=2, uri=self.uri)
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(document, [change]))
        return await self._problems()

    async def _problems(self) -> list[lsp.Diagnostic]:
        element = await asyncio.wait_for(self.published.get(), BOUND)
        assert element.uri == self.uri
        return list(element.diagnostics)


class Server:
    """One server for all tests of the module, and the client that it serves."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._client = LanguageClient("editor", "1")
        self._editors: dict[str, Editor] = {}

        @self._client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def published(params: lsp.PublishDiagnosticsParams) -> None:
            self._editors[params.uri].published.put_nowait(params)

    async def start(self) -> None:
        """Start the server and initialize it."""
        await self._client.start_io(sys.executable, "-m", "policy_sched", "lsp")
        root = lsp.InitializeParams(capabilities=lsp.ClientCapabilities())
        await self._client.initialize_async(root)
        self._client.initialized(lsp.InitializedParams())

    async def stop(self) -> None:
        """Shut down in order."""
        await self._client.shutdown_async(None)
        self._client.exit(None)
        await self._client.stop()

    def edit(self, folder: Path, use: Use) -> None:
        """Run the requests of an editor with a file of its own."""
        uri = (folder / "policy.yaml").as_uri()
        editor = self._editors[uri] = Editor(self._client, uri)
        self._runner.run(use(editor))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Start a server; stop it after the last test."""
    with asyncio.Runner() as runner:
        item = Server(runner)
        runner.run(item.start())
        yield item
        runner.run(item.stop())


def test_problems_are_published_with_code_hint_and_range(server: Server, tmp_path: Path) -> None:
    """With code, hint and a place in UTF-16 units; they go when they are mended."""

    async def use(editor: Editor) -> None:
        (problem,) = await editor.open(TEXT)
        assert (problem.code, problem.severity) == ("PS102", lsp.DiagnosticSeverity.Error)
        assert "name" in problem.message
        line = TEXT.splitlines()[5]
        column = line.index("nmae") + 1  # the emoji is one character and two units
        assert (problem.range.start.line, problem.range.start.character) == (5, column)
        assert problem.range.end.character == column + 4
        assert await editor.type(5, column, column + 4, "name") == []
        assert [item.code for item in await editor.type(2, 0, 5, "\t[")] == ["PS701"]

    server.edit(tmp_path, use)


def test_completion_hover_and_formatting(server: Server, tmp_path: Path) -> None:
    """Fields after a dot, the description of one, and the formatted file."""

    async def use(editor: Editor) -> None:
        await editor.open(TEXT.replace("nmae", "name"))
        document = lsp.TextDocumentIdentifier(editor.uri)
        line = TEXT.splitlines()[5]
        behind = lsp.Position(5, line.index("node.nmae") + 1 + len("node."))
        completion = await editor.client.text_document_completion_async(
            lsp.CompletionParams(document, behind)
        )
        assert isinstance(completion, list)
        free = next(item for item in completion if item.label == "free")
        assert (free.detail, free.kind) == ("Node.free: resources", lsp.CompletionItemKind.Field)
        on_name = lsp.Position(5, line.index("node.nmae") + 1 + len("node.n"))
        hover = await editor.client.text_document_hover_async(lsp.HoverParams(document, on_name))
        assert hover is not None
        assert isinstance(hover.contents, lsp.MarkupContent)
        assert "Node.name: string" in hover.contents.value
        edits = await editor.client.text_document_formatting_async(
            lsp.DocumentFormattingParams(document, lsp.FormattingOptions(2, True))
        )
        assert edits is not None
        (edit,) = edits
        assert "'\"😀\" == node.name || node.unschedulable'" in edit.new_text
        assert (edit.range.start.line, edit.range.end.line) == (0, len(TEXT.splitlines()))

    server.edit(tmp_path, use)


def test_definitions_and_quick_fixes(server: Server, tmp_path: Path) -> None:
    """From a parameter to its definition, and a fix of the underlined text."""
    text = TEXT.replace("spec:\n", "spec:\n  params: {most: 9}\n")
    text = text.replace("node.unschedulable'", "node.podCount > params.most'")

    async def use(editor: Editor) -> None:
        await editor.open(text)
        document = lsp.TextDocumentIdentifier(editor.uri)
        line = text.splitlines()[6]
        on_most = lsp.Position(6, line.index("most") + 2)  # the emoji is two units
        location = await editor.client.text_document_definition_async(
            lsp.DefinitionParams(document, on_most)
        )
        assert isinstance(location, lsp.Location)
        assert (location.uri, location.range.start) == (editor.uri, lsp.Position(4, 11))
        assert location.range.end.character == 15
        here = lsp.Range(lsp.Position(6, 0), lsp.Position(6, 0))
        actions = await editor.client.text_document_code_action_async(
            lsp.CodeActionParams(document, here, lsp.CodeActionContext([]))
        )
        assert actions is not None
        (fix,) = actions
        assert isinstance(fix, lsp.CodeAction)
        assert (fix.title, fix.kind) == ("Write name", lsp.CodeActionKind.QuickFix)
        assert fix.edit is not None
        assert fix.edit.changes is not None
        (edit,) = fix.edit.changes[editor.uri]
        start, end = edit.range.start.character, edit.range.end.character
        assert await editor.type(6, start, end, edit.new_text) == []
        nowhere = lsp.DefinitionParams(document, lsp.Position(0, 3))
        assert await editor.client.text_document_definition_async(nowhere) is None

    server.edit(tmp_path, use)


def test_a_configuration_knows_the_policies_beside_it(server: Server, tmp_path: Path) -> None:
    """Policies that a profile enables are read from the files of its folder."""
    (tmp_path / "p.yaml").write_text(TEXT.replace("nmae", "name"), encoding="utf-8")
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": "P"}, {"name": "Q"}]}}}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", **profile}],
    }

    async def use(editor: Editor) -> None:
        (problem,) = await editor.open(json.dumps(config))
        assert '"Q"' in problem.message

    server.edit(tmp_path, use)


def test_tests_of_policies_are_looked_at_too(server: Server, tmp_path: Path) -> None:
    """A misspelt key of a PolicyTest, with a suggestion."""
    text = (
        "apiVersion: policysched.dev/v1alpha1\nkind: PolicyTest\nname: x\n"
        "objects: [{node: n1, cpuu: 3}, {pod: old, node: n1, priority: high}]\n"
        "pending: [a]\nexpect: [{pod: a, choosen: n1}]\n"
    )

    async def use(editor: Editor) -> None:
        file = await editor.open(text)
        assert [(item.range.start.line, item.code) for item in file] == [
            (3, "PS702"),
            (3, "PS703"),
            (5, "PS702"),
        ]
        assert "did you mean 'chosen'?" in file[2].message

    server.edit(tmp_path, use)


def message(**fields: object) -> bytes:
    """Return a message as it is on the wire."""
    body = json.dumps({"jsonrpc": "2.0", **fields}).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


@pytest.mark.parametrize(("shutdown", "code"), [(True, 0), (False, 1)])
def test_exit_ends_the_server_without_a_traceback(shutdown: bool, code: int) -> None:
    """`exit` closed standard output, and the flush after it failed with a traceback and code 2."""
    capabilities = {"processId": None, "rootUri": None, "capabilities": {}}
    sent = message(id=1, method="initialize", params=capabilities)
    sent += message(id=2, method="shutdown") if shutdown else b""
    ended = subprocess.run(
        [sys.executable, "-m", "policy_sched", "lsp"],
        input=sent + message(method="exit"),
        capture_output=True,
        check=False,
        timeout=BOUND,
    )
    assert ended.returncode == code
    assert b"Traceback" not in ended.stderr
    assert b"mistake" not in ended.stderr
