"""What SECURITY.md claims and no other test holds: the numbers, and that no secret is shown."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import subprocess
import sys
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path

import pytest

from policy_sched.cli.app import VERBS
from policy_sched.cli.main import run
from policy_sched.client.kube.auth.credentials import Trust, tls_context
from policy_sched.client.kube.rest import client as api, decoding as lines, retry
from policy_sched.embedded.apiserver.endpoints import negotiation as bodies, webhooks
from policy_sched.embedded.apiserver.endpoints.server import BOUNDS
from policy_sched.embedded.apiserver.registry import errors as refusals
from policy_sched.embedded.apiserver.validation import fields
from policy_sched.http import connections
from policy_sched.instance.app import policy_status
from policy_sched.instance.http import (
    admission_reviews as reviews,
    delegated_auth as doorkeeper,
    listener as listening,
)
from policy_sched.language import diagnostics as codes
from policy_sched.policytest import scenario
from policy_sched.profiles.load import policy_object
from policy_sched.profiles.load.configuration import MAX_PROFILES
from policy_sched.profiles.load.document import MAX_DOCUMENTS
from policy_sched.profiles.load.policies import MAX_RULE_TEXT
from policy_sched.source import documents
from tests.accepting import stop_accepting

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
SECRET = "t0ken-d0-n0t-show"
ALIASES = "\n".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}, *a{i - 1}]" for i in range(1, 40))
BOMB = f"""\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {{name: Bomb}}
a0: &a0 [x, x, x]
{ALIASES}
"""


@pytest.mark.parametrize(
    "claim",
    [
        f"{documents.MAX_POLICY_BYTES >> 20} MiB, {MAX_DOCUMENTS} documents and",
        f"documents and {documents.MAX_VALUES:,} values a file",
        f"{documents.MAX_POLICY_BYTES >> 20} MiB and {documents.MAX_VALUES:,} values for tests",
        f"{scenario.MAX_POLICIES} policies and {scenario.MAX_WORK:,} steps times nodes a test",
        f"aliases and merge keys may make a document {documents.MAX_EXPANSION} times as large",
        f"{documents.MAX_DEPTH} levels; numbers of {documents.MAX_NUMBER} characters",
        f"characters; {MAX_PROFILES} profiles",
        f"the rules of a file have at most {MAX_RULE_TEXT >> 10} Ki characters",
        f"at most {codes.MAX_SOURCE_BYTES >> 10} KiB, {codes.MAX_NODES:,} parts",
        f"{codes.MAX_MACROS} macros {codes.MAX_MACRO_NESTING} deep",
        f"{codes.MAX_ELEMENTS:,} elements in the lists",
        f"types {codes.MAX_TYPE_DEPTH} deep",
        f"{codes.MAX_FIELDS:,} parameters, a function {codes.MAX_FUNCTION_PARAMS}",
        f"above {codes.MAX_RULE_COST} units a rule and {codes.MAX_PROFILE_COST:,} a profile",
        f"patterns of at most {codes.MAX_PATTERN_BYTES} bytes",
        f"{api.Settings().longest_response >> 20} MiB an answer",
        f"{lines.LONGEST >> 20} MiB a line of a watch",
        f"{api.ERROR_BYTES >> 20} MiB a refusal",
        f"({retry.QPS:.0f}, {retry.BURST})",
        f"bodies of {refusals.LIMIT >> 20} MiB (YAML {bodies.YAML_BYTES >> 10} KiB)",
        f"objects of 1.5 MiB and {bodies.VALUES:,} values",
        f"headers of {BOUNDS.header >> 10} KiB, {BOUNDS.connections:,} connections",
        f"{connections.HANDSHAKES} TLS handshakes",
        f"handshakes of at most {connections.HANDSHAKE_SECONDS:.0f} s at a time",
        f"says nothing for {BOUNDS.silent:.0f} s",
        f"{listening.MOST} connections, where idle and anonymous ones give way first",
        f"must come within {listening.KEPT:.0f} s, headers of {listening.LINE >> 10} KiB",
        f"remembered for {doorkeeper.TTL:.0f} s",
        f"at most {policy_object.MOST_OBJECTS:,} objects, {policy_object.MOST_BYTES >> 20} MiB",
        f"a status has {policy_status.MOST_PROBLEMS} problems and messages of",
        f"messages of {policy_object.LONGEST:,} characters",
        f"bodies of {reviews.MOST_BYTES >> 20} MiB, {reviews.WAITING} reviews at a time",
        f"with {reviews.LIMITS.processor_time} s of processor time and",
        f"processor time and {reviews.LIMITS.memory >> 20} MiB; the answer",
        f"{webhooks.MOST_BYTES >> 20} MiB an answer, at most {fields.LONGEST_WAIT} s; what",
    ],
)
def test_the_page_has_the_numbers_of_the_code(claim: str) -> None:
    """Bounds that are told are those that hold."""
    assert claim in PAGE


LIMITS = re.findall(
    r"^\| (.+) \| ([\d,]+)( [^|]+)? \| `([\w.]+)\.([A-Z_]+)` \| `(\S+)::(\w+)` \|$",
    PAGE,
    re.MULTILINE,
)
SCALES = {" KiB": 1 << 10, " MiB": 1 << 20, " s of virtual time": 10**9}


@pytest.mark.parametrize(("limit"), LIMITS, ids=[f"{one[3]}.{one[4]}" for one in LIMITS])
def test_each_limit_is_that_of_the_code_and_has_a_test(limit: tuple[str, ...]) -> None:
    """The table of limits could say anything: its numbers and the names of its tests are true."""
    _, number, unit, module, name, file, test = limit
    value = getattr(import_module(f"policy_sched.{module}"), name)
    assert int(number.replace(",", "")) * SCALES.get(unit, 1) == value
    text = (ROOT / "tests" / file).read_text(encoding="utf-8")
    assert re.search(rf"^ *(async )?def {test}\(", text, re.MULTILINE)


def test_every_row_of_the_limits_is_read() -> None:
    """A row of another form would not be compared."""
    table = PAGE.partition("## Limits")[2].partition("\n## ")[0]
    assert len(LIMITS) == sum(line.startswith("| ") for line in table.splitlines()) - 1


def test_a_bomb_of_aliases_is_refused_before_it_goes_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """3^40 values in 2 KiB: told with a place, wherever files are read."""
    bomb = tmp_path / "bomb.yaml"
    bomb.write_text(BOMB, encoding="utf-8")
    for verb in (["check"], ["manifests", "--policies"], ["diff", str(bomb)]):
        assert run([*verb, str(bomb)]) == 1
        shown = capsys.readouterr()
        assert f"{bomb}:" in shown.out + shown.err


def test_tags_that_make_objects_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """YAML is data: nothing of it is called."""
    trap = tmp_path / "trap.yaml"
    made = tmp_path / "made"
    trap.write_text(f'!!python/object/apply:os.system ["touch {made}"]\n', encoding="utf-8")
    assert run(["check", str(trap)]) == 1
    capsys.readouterr()
    assert not made.exists()


def test_servers_are_verified_by_default() -> None:
    """Certificate and name, with TLS 1.2 at least; only who says so goes without."""
    context = tls_context(Trust(), None)
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert tls_context(Trust(insecure=True), None).verify_mode is ssl.CERT_NONE


@pytest.mark.parametrize("verb", list(VERBS))
def test_help_shows_nothing_of_the_environment(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No default is taken from variables, the home directory, or the machine's name."""
    for name in ("KUBECONFIG", "POLICY_SCHED_TOKEN", "KUBERNETES_SERVICE_HOST", "HOME", "USER"):
        monkeypatch.setenv(name, SECRET)
    run([verb, "--help"])
    shown = capsys.readouterr()
    assert SECRET not in shown.out + shown.err
    assert not re.search(r"\[default: [^\]]*(token|password|secret)", shown.out, re.IGNORECASE)


ANSWERS = (
    b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/x\r\nContent-Length: 0\r\n\r\n",
    b"nonsense\r\n\r\n",
)


async def _refusing(play: Callable[[int], Awaitable[None]]) -> list[bytes]:
    """Serve a port with these answers in turn; return what was sent to it."""
    received: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read(1 << 16))
        writer.write(ANSWERS[len(received) % len(ANSWERS)])
        writer.close()

    listening = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with listening:
        await play(listening.sockets[0].getsockname()[1])
        await stop_accepting(listening)
    return received


def test_a_token_shows_in_no_log(tmp_path: Path) -> None:
    """The server is told, nobody else: neither when it refuses, redirects, nor talks nonsense."""
    printed: list[bytes] = []

    async def play(port: int) -> None:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "u", "user": {"token": SECRET}}],
        }
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(json.dumps(config), encoding="utf-8")
        words = ["run", "--kubeconfig", str(kubeconfig), "--secure-port", "0"]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "policy_sched",
            *words,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(60):
                while b"".join(printed).count(b" failed") < len(ANSWERS):
                    printed.append(await process.stdout.readline())
        finally:
            process.terminate()
            printed.append(await process.stdout.read())
            await process.wait()

    received = asyncio.run(_refusing(play))
    assert any(SECRET.encode() in one for one in received)
    assert SECRET.encode() not in b"".join(printed)
