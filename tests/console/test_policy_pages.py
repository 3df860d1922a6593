"""The pages of policies: the loaded set, problems in place, the editor's endpoints, trials."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from policy_sched.cli.main import run
from policy_sched.console import FilesSource, RunningSource, serving, trials
from policy_sched.console.pages import policy_editor
from policy_sched.console.pages.page import Query, Results
from policy_sched.console.pages.policies import hits_sections, view
from policy_sched.profiles.reload import PolicyFiles
from policy_sched.web import Table, environment
from tests.console import clusters
from tests.console.browsing import EXAMPLE, ROOT, Browser, browsing, of_files, pages, plain
from tests.console.files import put
from tests.console.threaded import embedded
from tests.instance.app.test_cluster_instance import pod
from tests.profiles.policy_texts import keeping

HOSTILE = '<script>alert("x")</script>'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with one policy, in a repository."""
    text = (ROOT / "policies" / "gpu-bin-packing" / "policy.yaml").read_text()
    put(tmp_path / "mine" / "policy.yaml", text)
    return tmp_path / "mine"


def source_of(folder: Path) -> FilesSource:
    """Return the example cluster with the policies of a directory."""
    return of_files(policies=PolicyFiles(None, (str(folder),)))


def rendered(content: object) -> str:
    """Return sections as HTML."""
    template = environment("policy_sched.console").get_template("sections.html")
    return plain(template.render(sections=content))


def test_the_loaded_set_is_shown_with_its_hashes(folder: Path) -> None:
    """Generation, hashes of set, profile and policy, and the file's text are on the page."""
    source = source_of(folder)
    (page,) = pages(source, "/policies")
    current = source.store.current
    assert current.content_hash[:12] in page
    assert current.plans[0].content_hash[:12] in page
    assert current.plans[0].hashes["GpuBinPacking"].whole[:12] in page
    assert "keep pods without GPUs" in page
    assert "/policies/edit?file=" in page


def test_problems_of_a_broken_file_stand_at_their_place(folder: Path) -> None:
    """Line, caret and hint are those of check, and the line of the source is marked."""
    put(folder / "policy.yaml", keeping("Mine", 'node.nam == "<b>"'))
    source = source_of(folder)
    (page,) = pages(source, "/policies")
    (problem,) = source.store.status.problems
    assert problem.code in page
    assert "<mark>nam</mark>" in page
    assert "the default profile decides" in page
    (file,) = view(source, Query("/policies", {}), Results())["files"]
    assert list(file["source"].marks) == [problem.line]
    assert f"line={problem.line}" in page


def test_a_cluster_without_policies_invites_to_write_one() -> None:
    """The default profile alone is a set, too."""
    (page, editor) = pages(of_files(policies=PolicyFiles()), "/policies", "/policies/edit")
    assert "only the default profile decides" in page
    assert "Write a policy" in page
    assert '"path":"policy.yaml"' in editor.replace(" ", "")


def test_what_the_editor_asks_has_a_result(folder: Path) -> None:
    """Problems, completions, hovers and new files come as JSON."""
    text = keeping("Mine", "node.nam")

    async def act(browser: Browser) -> None:
        await browser.opened()
        question = {"path": "x.yaml", "text": text, "line": 0, "character": 0}
        status, body = await browser.post("/policies/editor", {**question, "asked": "check"})
        assert status == 200
        assert "nam" in json.loads(body)["problems"][0]["message"]
        for asked in ("complete", "hover"):
            status, body = await browser.post("/policies/editor", {**question, "asked": asked})
            assert status == 200
        status, body = await browser.post("/policies/new", {"name": "new.yaml"})
        made = json.loads(body)
        assert made["path"] == str(folder / "new.yaml")
        again = {**question, "asked": "check", "path": made["path"], "text": made["text"]}
        status, body = await browser.post("/policies/editor", again)
        assert json.loads(body) == {"problems": []}
        for name in ("../new.yaml", "policy.yaml", "x.txt", ""):
            status, body = await browser.post("/policies/new", {"name": name})
            assert status == 400

    browsing(source_of(folder), act)


def test_a_name_that_no_file_can_have_ends_no_process(folder: Path) -> None:
    """The answer was "the process ended with exit code 0"."""
    name = f"{'a' * 300}.yaml"

    async def act(browser: Browser) -> None:
        await browser.opened()
        question = {"asked": "check", "path": f"{name}/x", "text": keeping("Mine", "true")}
        answer = await browser.post("/policies/editor", question)
        assert answer == (503, "a file cannot be read: File name too long")
        status, _ = await browser.post("/policies/new", {"name": name})
        assert status == 400

    browsing(source_of(folder), act)


def test_an_editor_without_files_has_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The editor had a text without a name, and "Try it" left it out."""
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "policy.yaml", "kind: Deployment")  # is another file's name
    source = clusters.of_objects([clusters.node("a"), clusters.node("b"), clusters.pod("p")])
    (page,) = pages(source, "/policies/edit")
    assert "this is a new one" in page
    (new,) = policy_editor.view(source, Query("/policies/edit", {}), Results())["data"]["files"]
    assert (new["path"], new["added"]) == ("policy-2.yaml", True)

    async def act(browser: Browser) -> None:
        await browser.opened()
        body = {"edits": {new["path"]: new["text"].replace("MyPolicy", "Mine")}, "seeds": 1}
        status, text = await browser.post("/policies/try", body)
        assert status == 200
        assert "Mine" in text
        status, text = await browser.post("/policies/patch", body)
        assert "+++ b/policy-2.yaml" in text

    browsing(source, act)


@pytest.mark.parametrize(
    "body",
    [
        [],
        {"asked": "run"},
        {"asked": "check", "text": 1},
        {"asked": "check", "text": "x", "line": -1},
        {"edits": {"/etc/passwd": "x"}},
        {"edits": {"x": 1}},
        {"edits": []},
        {"seeds": "many"},
    ],
)
def test_bad_questions_are_refused(folder: Path, body: object) -> None:
    """A question of a wrong form is 400, whatever it asks, and nothing is decided."""

    async def act(browser: Browser) -> None:
        await browser.opened()
        address = "/policies/editor" if "asked" in str(body) else "/policies/try"
        if body == []:
            address = "/policies/patch"
        status, text = await browser.post(address, body)
        assert status == 400, text

    browsing(source_of(folder), act)


def test_another_origin_asks_nothing(folder: Path) -> None:
    """POST needs the cookie and the console's own origin; GET is no way round."""
    asked = ("editor", "try", "prove", "patch", "new")
    paths = [f"/policies/{name}" for name in asked]

    async def act(browser: Browser) -> None:
        for path in paths:
            assert (await browser.post(path, {}))[0] == 403
        await browser.opened()
        for path in paths:
            assert (await browser.post(path, {}, Origin="http://evil.example"))[0] == 403
            assert (await browser.get(path))[0] == 405

    browsing(source_of(folder), act)


def test_a_trial_shows_the_numbers_of_diff(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The sentence, the moves and the measures of the page are those that diff prints."""
    old = (folder / "policy.yaml").read_text()
    new = old.replace("podsWithoutGpu: Avoid", "podsWithoutGpu: Forbid")
    put(tmp_path / "new" / "policy.yaml", new)
    cluster = str(EXAMPLE / "manifests")
    run(["diff", str(folder), str(tmp_path / "new"), "--cluster", cluster, "-o", "json"])
    printed = json.loads(capsys.readouterr().out)["placements"]

    async def act(browser: Browser) -> str:
        await browser.opened()
        body = {"edits": {str(folder / "policy.yaml"): new}, "seeds": 1}
        status, text = await browser.post("/policies/try", body)
        assert status == 200, text
        return text

    page = browsing(source_of(folder), act)
    assert f"{printed['moved']} move" in page
    assert f"{printed['unschedulable']} become unschedulable" in page
    for move in printed["moves"]:
        assert move["pod"] in page
    for measure in ("pods placed", "nodes in use", "mean score of the chosen nodes"):
        assert measure in page


def test_a_trial_of_a_broken_text_shows_carets(folder: Path) -> None:
    """Errors come with line, caret and a link to their place; nothing is decided."""
    path = str(folder / "policy.yaml")

    async def act(browser: Browser) -> str:
        await browser.opened()
        body = {"edits": {path: keeping("Mine", "node.nam")}, "file": path}
        status, text = await browser.post("/policies/try", body)
        assert status == 200
        return text

    page = browsing(source_of(folder), act)
    assert "<mark>nam</mark>" in page
    assert re.search(r'href="/policies/edit\?file=[^"]+line=\d+"', page)
    assert "Which pods move" not in page


def test_the_patch_is_one_that_git_takes(folder: Path, tmp_path: Path) -> None:
    """The download applies in the repository that the files are in."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    path = folder / "policy.yaml"
    new = path.read_text().replace("Avoid #", "Forbid #")

    async def act(browser: Browser) -> str:
        await browser.opened()
        status, text = await browser.post("/policies/patch", {"edits": {str(path): new}})
        assert status == 200
        return text

    (tmp_path / "edit.patch").write_bytes(browsing(source_of(folder), act).encode())
    subprocess.run(["git", "apply", "edit.patch"], cwd=tmp_path, check=True)
    assert path.read_text() == new


def test_ties_are_set_apart(tmp_path: Path) -> None:
    """Moves that only the random choice makes have a table of their own."""
    put(tmp_path / "mine.yaml", keeping("Mine", 'node.name != "n0"'))
    files = PolicyFiles(None, (str(tmp_path / "mine.yaml"),))
    nodes = "".join(NODE.replace("NAME", f"n{i}") for i in range(4))
    pods = "".join(POD.replace("NAME", f"p{i}") for i in range(8))
    put(tmp_path / "cluster.yaml", nodes + pods)
    source = of_files([tmp_path / "cluster.yaml"], files)
    edits = {str(tmp_path / "mine.yaml"): keeping("Mine", "true")}
    trial = trials.TrialQuestion(files, edits, trials.packed(source.objects())).result()
    tables = {table.caption: table for table in _tables(trial)}
    apart = next(
        table for name, table in tables.items() if name.startswith("Pods that move by chance")
    )
    others = next(table for name, table in tables.items() if name.startswith("Pods that change"))
    assert trial.diff is not None
    causes = trial.diff.placements.causes  # type: ignore[union-attr]
    assert len(apart.rows) == causes["tie"] > 0
    assert len(others.rows) == causes["policy"] + causes["follows"] > 0
    assert [str(row[0].href) for row in apart.rows] == [  # type: ignore[union-attr]
        f"/pods/default/{str(row[0].text).partition('/')[2]}"  # type: ignore[union-attr]
        for row in apart.rows
    ]


NODE = (
    "apiVersion: v1\nkind: Node\nmetadata: {name: NAME}\n"
    "status: {allocatable: {cpu: '4', memory: 8Gi, pods: '20'}}\n---\n"
)
POD = (
    "apiVersion: v1\nkind: Pod\nmetadata: {name: NAME, namespace: default}\n"
    "spec: {containers: [{name: c, resources: {requests: {cpu: 100m}}}]}\n---\n"
)


def _tables(trial: trials.PolicyTrial) -> Iterator[Table]:
    for section in policy_editor.sections(trial, "/policies/edit?"):
        yield from (block for block in section.blocks if isinstance(block, Table))


def test_several_seeds_say_what_is_noise(folder: Path) -> None:
    """With seeds the measures have intervals, and a verdict where there is one."""
    source = source_of(folder)
    files = source.store.files
    edits = {str(folder / "policy.yaml"): (folder / "policy.yaml").read_text() + "# same\n"}
    question = trials.TrialQuestion(files, edits, trials.packed(source.objects()), seeds=(0, 1, 2))
    text = rendered(policy_editor.sections(question.result(), "/policies/edit?"))
    assert "95 % interval" in text
    assert "3 seeds" in text


def test_a_cluster_without_pending_pods_says_so(folder: Path, tmp_path: Path) -> None:
    """The page explains why nothing moves."""
    put(tmp_path / "nodes.yaml", NODE.replace("NAME", "n0"))
    source = of_files([tmp_path / "nodes.yaml"], PolicyFiles(None, (str(folder),)))
    question = trials.TrialQuestion(source.store.files, {}, trials.packed(source.objects()))
    text = rendered(policy_editor.sections(question.result(), "/policies/edit?"))
    assert "no pending pods" in text


def test_hits_name_each_rule_and_hostile_names_only_appear() -> None:
    """Rules are listed below their policy, and markup in names is text."""
    from policy_sched.simulate import AppliedPolicy, RuleHits  # noqa: PLC0415

    policy = AppliedPolicy(HOSTILE, "p", 1, 2, 3, None, 4, 1, HOSTILE, (RuleHits(HOSTILE, 5, 6),))
    text = rendered(hits_sections(trials.Hits(2, 4, (policy,))))
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_the_hits_of_the_set_in_force_are_fetched(folder: Path) -> None:
    """The fragment has the policy and its rule."""
    (text,) = pages(source_of(folder), "/policies/hits")
    assert "GpuBinPacking.filter[0]" in text
    assert "<html" not in text


def test_a_running_scheduler_is_tried_without_effects() -> None:
    """An edit decides the pods of a running instance in another process; its set stays."""

    async def act() -> None:
        source = embedded()
        assert isinstance(source, RunningSource)
        source.instance.cluster.apply(pod("waits", cpu="900"))  # type: ignore[attr-defined]
        before = source.store.current
        async with serving(source) as server, session() as opener:
            browser = await Browser(server, opener).opened()
            while not source.waiting():
                await asyncio.sleep(0.01)
            _, text = await browser.post("/policies/new", {"name": "new.yaml"})
            made = json.loads(text)
            body = {"edits": {made["path"]: made["text"]}, "seeds": 1}
            status, text = await browser.post("/policies/try", body)
            assert status == 200
            assert "1 pod on 2 nodes: 0 move" in text
            assert "MyPolicy" in text
            assert not Path(made["path"]).exists()
        assert source.store.current is before

    asyncio.run(act())


def session() -> aiohttp.ClientSession:
    """Return a client that keeps cookies of loopback."""
    return aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))
