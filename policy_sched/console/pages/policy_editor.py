"""The editor of policies and what it asks: checks, completions, trials, patches.

A trial shows the report of `diff` over the set in force and the edited one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from aiohttp.http_exceptions import PayloadEncodingError

from policy_sched.console import trials
from policy_sched.console.pages import page
from policy_sched.console.pages.page import linked
from policy_sched.console.pages.policies import EDIT, hits_sections, view as policies_view
from policy_sched.console.sources import ClusterSource
from policy_sched.diff import diff_page
from policy_sched.errors import Diagnostic, PolicySchedError
from policy_sched.profiles.reload import NoResultError
from policy_sched.source import MAX_POLICY_BYTES
from policy_sched.web import (
    Block,
    Column,
    DiagnosticView,
    Prose,
    Section,
    Source,
    Table,
    Text,
    Tone,
    Value,
    environment,
)

BODY_SECONDS: Final = 30.0
"""How long a browser may take to send a body."""
ASKED: Final[tuple[trials.Asked, ...]] = ("check", "complete", "hover")
NEW: Final = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: MyPolicy}
spec:
  filter:
  - expression: node.labels[?"example.com/reserved"].orValue("no") != "yes"
    message: node(s) were reserved
  score:
    expression: 100 - percent(node.podCount, 100)
"""
"""The text that a new file begins with."""


def view(source: ClusterSource, query: page.Query, results: page.Results) -> page.View:
    """Return the values of the page: the files with their texts, and which one is shown."""
    del results
    texts = trials.source_texts(source.store.files)
    files: list[dict[str, object]] = [
        {"path": text.path, "text": text.text} for text in texts if not text.problem
    ]
    if not texts:
        files = [{"path": trials.free_place(source.store.files), "text": NEW, "added": True}]
    return {
        "cluster": source.status.name,
        "new": not texts,
        "proves": find_spec("z3") is not None,
        "data": {
            "files": files,
            "file": query.get("file"),
            "line": query.number("line", 0),
        },
    }


def fragment(parts: list[Section]) -> web.Response:
    """Return sections as a part of a page."""
    template = environment("policy_sched.console").get_template("sections.html")
    return web.Response(text=template.render(sections=parts), content_type="text/html")


def refused(error: PolicySchedError) -> web.Response:
    """Return why there is no result, as a part of a page."""
    texts: list[Value] = [Text(str(error), tone="bad")]
    if isinstance(error, NoResultError):
        texts.append(Text("Try one seed, a shorter time or a part of the cluster.", tone="dim"))
    return fragment([Section("No result", [Prose(texts)])])


async def body(request: web.Request) -> dict[str, Any]:
    """Return the JSON object of a request. Raises HTTPException for anything else."""
    if request.method != "POST":
        raise web.HTTPMethodNotAllowed(request.method, ["POST"])
    try:
        sent = json.loads(await _sent(request))
    except UnicodeDecodeError:
        raise web.HTTPBadRequest(text="the body is not UTF-8") from None
    except (ValueError, RecursionError):
        raise web.HTTPBadRequest(text="the body is not JSON") from None
    if not isinstance(sent, dict):
        raise web.HTTPBadRequest(text="the body is not an object")
    return sent


async def _sent(request: web.Request) -> str:
    """Return the text of a body. Raises HTTPException for one that is not whole, or not UTF-8."""
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise web.HTTPUnsupportedMediaType(text="the body is compressed: send it as it is")
    if (request.charset or "utf-8").lower() not in ("utf-8", "us-ascii"):
        raise web.HTTPUnsupportedMediaType(text="the charset of the body is not UTF-8")
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return (await request.read()).decode()
    except TimeoutError:
        raise web.HTTPRequestTimeout(text=f"no body within {BODY_SECONDS:.0f} s") from None
    except web.HTTPRequestEntityTooLarge as error:
        text = f"the body is larger than {request.client_max_size >> 20} MiB"
        raise web.HTTPRequestEntityTooLarge(0, 0, text=text) from error
    except (ConnectionError, PayloadEncodingError, web.RequestPayloadError):
        raise web.HTTPBadRequest(text="the body ends early, or its chunks are none") from None


def _text(sent: Mapping[str, Any], name: str) -> str:
    value = sent.get(name, "")
    if not isinstance(value, str) or len(value) > MAX_POLICY_BYTES:
        raise web.HTTPBadRequest(text=f"{name} is not a text, or too long")
    return value


def _number(sent: Mapping[str, Any], name: str, default: int) -> int:
    value = sent.get(name, default)
    if not isinstance(value, int) or not 0 <= value < 1 << 30:
        raise web.HTTPBadRequest(text=f"{name} is not a number")
    return value


def _edits(source: ClusterSource, sent: Mapping[str, Any]) -> dict[str, str]:
    edits = sent.get("edits", {})
    if not isinstance(edits, dict) or not all(isinstance(text, str) for text in edits.values()):
        raise web.HTTPBadRequest(text="edits are not texts by path")
    try:
        return trials.checked_edits(source.store.files, edits)
    except PolicySchedError as error:
        raise web.HTTPBadRequest(text=str(error)) from None


async def ask(source: ClusterSource | None, request: web.Request) -> web.Response:
    """Return the result of a question of the editor: check, complete or hover."""
    del source
    sent = await body(request)
    asked = next((word for word in ASKED if word == sent.get("asked")), None)
    if asked is None:
        raise web.HTTPBadRequest(text=f"asked is one of {', '.join(ASKED)}")
    question = trials.EditorQuestion(
        asked,
        _text(sent, "path"),
        _text(sent, "text"),
        _number(sent, "line", 0),
        _number(sent, "character", 0),
    )
    try:
        return web.json_response(await request.app[trials.EDITOR_PROCESS].ask(question))
    except PolicySchedError as error:
        return web.Response(status=503, text=str(error))


async def new_file(source: ClusterSource | None, request: web.Request) -> web.Response:
    """Return where a new file would be, and what it begins with."""
    assert source is not None, "the page needs a cluster"
    sent = await body(request)
    try:
        path = trials.path_of_new_file(source.store.files, _text(sent, "name"))
    except PolicySchedError as error:
        return web.Response(status=400, text=str(error))
    edited = sent.get("known")
    if Path(path).exists() or (isinstance(edited, list) and path in edited):
        return web.Response(status=400, text=f"{path} exists already")
    return web.json_response({"path": path, "text": NEW})


async def attempt(source: ClusterSource | None, request: web.Request) -> web.Response:
    """Decide with the edited policies beside those in force, and return what differs."""
    assert source is not None, "the page needs a cluster"
    sent = await body(request)
    edits = _edits(source, sent)
    seeds = min(max(1, _number(sent, "seeds", 1)), trials.MOST_SEEDS)
    store = source.store
    question = trials.TrialQuestion(
        store.files,
        edits,
        await trials.cluster_of(source, request.app),
        store.current.plans,
        tuple(range(seeds)),
        trials.now_of(source),
    )
    try:
        trial = await request.app[trials.TRIAL_PROCESS].ask(question)
    except PolicySchedError as error:
        return refused(error)
    return fragment(sections(trial, page.address(EDIT, file=_text(sent, "file"))))


async def prove(source: ClusterSource | None, request: web.Request) -> web.Response:
    """Ask what holds of the edited policies, and return the answers."""
    assert source is not None, "the page needs a cluster"
    sent = await body(request)
    question = trials.ProofQuestion(source.store.files, _edits(source, sent))
    try:
        proofs = await request.app[trials.TRIAL_PROCESS].ask(question)
    except PolicySchedError as error:
        return refused(error)
    return fragment(proof_sections(proofs, page.address(EDIT, file=_text(sent, "file"))))


async def download(source: ClusterSource | None, request: web.Request) -> web.Response:
    """Return the edits as a patch."""
    assert source is not None, "the page needs a cluster"
    sent = await body(request)
    text = trials.patch(source.store.files, _edits(source, sent))
    headers = {"Content-Disposition": 'attachment; filename="policies.patch"'}
    return web.Response(
        body=text.encode("utf-8", "surrogatepass"), content_type="text/x-patch", headers=headers
    )


async def hits(source: ClusterSource | None, request: web.Request) -> web.Response:
    """Return what each policy and rule in force applies to."""
    assert source is not None, "the page needs a cluster"
    objects = await trials.cluster_of(source, request.app)
    question = trials.HitsQuestion(source.store.current.plans, objects, now=trials.now_of(source))
    try:
        return fragment(hits_sections(await request.app[trials.TRIAL_PROCESS].ask(question)))
    except PolicySchedError as error:
        return refused(error)


POLICIES: Final = page.Page(
    "/policies",
    "Policies",
    "policies.html",
    policies_view,
    section="/policies",
    actions={"/policies/hits": hits},
)
EDITOR: Final = page.Page(
    EDIT,
    "",
    "edit.html",
    view,
    section="/policies",
    actions={
        "/policies/editor": ask,
        "/policies/new": new_file,
        "/policies/try": attempt,
        "/policies/prove": prove,
        "/policies/patch": download,
    },
)


def _shown(problems: Sequence[Diagnostic], href: str) -> list[Block]:
    return [DiagnosticView.of(problem, f"{href}&line={problem.line}") for problem in problems]


_TONES: Final[dict[str, Tone]] = {"refuted": "bad", "unknown": "warn"}


def proof_sections(proofs: trials.Proofs, href: str) -> list[Section]:
    """Return what is known of each claim, and the pods and nodes that refute claims."""
    if proofs.problems:
        text = "The edited policies or claims have errors, so nothing was asked."
        shown = _shown(proofs.problems, href)
        return [Section("Problems", [Prose([Text(text, tone="bad")]), *shown])]
    rows: list[Sequence[Value]] = [
        [answer.claim, answer.place, Text(answer.words, tone=_TONES.get(answer.answer, "good"))]
        for answer in proofs.answers
    ]
    columns = [Column("Claim"), Column("Line"), Column("Answer", wide=True)]
    blocks: list[Block] = [Table("What holds for every pod and node", columns, rows)]
    blocks += [
        Source(f"Refutes: {answer.claim}", answer.refutation, numbered=False)
        for answer in proofs.answers
        if answer.refutation
    ]
    return [Section("Proofs", [Prose([proofs.summary]), *blocks])]


def sections(trial: trials.PolicyTrial, href: str) -> list[Section]:
    """Return the result of a trial; ``href``: the address of the editor, for problems."""
    problems = _shown(trial.problems, href)
    if trial.diff is None:
        text = "The edited policies have errors, so nothing was decided."
        return [Section("Problems", [Prose([Text(text, tone="bad")]), *problems])]
    page = diff_page(trial.diff)
    texts: list[Value] = [page.lead]
    if not trial.pending:
        text = "The cluster has no pending pods: there is nothing to decide, with either set."
        texts.append(Text(text, tone="warn"))
    texts.append(
        Text("OLD is the set in force, NEW the edited one; nothing is applied.", tone="dim")
    )
    texts += [
        Text(remark.replace("--seeds 10", "Trying 10 seeds"), tone="dim")
        for remark in page.remarks
        if not remark.startswith(("OLD: ", "NEW: "))  # both have one configuration
    ]
    facts: list[Block] = [] if page.facts is None else [page.facts]
    warnings = [Section("Warnings", problems)] if problems else []
    return [Section("Result", [Prose(texts), *facts]), *linked(page.sections), *warnings]
