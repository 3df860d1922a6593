"""The verb `snapshot`: files, pseudonyms, and mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from policy_sched.cli.main import run

CLUSTER = str(Path(__file__).parents[2] / "policies" / "example-cluster" / "manifests")


def placements(path: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    """Return what `simulate` decides."""
    assert run(["simulate", path, "--output", "jsonl"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def taken(folder: Path, *arguments: str, name: str = "c.jsonl.gz") -> str:
    """Take a snapshot of the example cluster; return its path."""
    path = str(folder / name)
    assert run(["snapshot", path, "--cluster", CLUSTER, *arguments]) == 0
    return path


def test_manifests_in_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The decisions are the same, and so are the bytes of two snapshots."""
    path = taken(tmp_path)
    shown = capsys.readouterr().out
    assert shown.startswith(f"{path}: 6 nodes, 13 pods (8 pending), 0 other objects, ")
    assert placements(path, capsys) == placements(CLUSTER, capsys)
    other = taken(tmp_path, name="d.jsonl.gz")
    assert Path(other).read_bytes() == Path(path).read_bytes()


def test_pseudonyms_are_stable_for_a_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same key gives the same bytes, another one others; the names can be kept apart."""
    (tmp_path / "key").write_text("a secret of 16 bytes or more\n")
    options = ["--anonymize", "--key", str(tmp_path / "key")]
    names = tmp_path / "names.json"
    names.touch(0o644)  # it kept that mode, and all users could read the names
    path = taken(tmp_path, *options, "--names", str(names))
    again = taken(tmp_path, *options, name="d.jsonl.gz")
    assert Path(path).read_bytes() == Path(again).read_bytes()
    other = taken(tmp_path, "--anonymize", name="e.jsonl.gz")
    assert Path(other).read_bytes() != Path(path).read_bytes()
    capsys.readouterr()
    real = json.loads(names.read_text())
    assert names.stat().st_mode & 0o777 == 0o600
    items = [
        {
            "pod": "/".join(real[part] for part in placement["pod"].split("/")),
            "node": placement["node"] and real[placement["node"]],
        }
        for placement in placements(path, capsys)
    ]
    wanted = [
        {"pod": placement["pod"], "node": placement["node"]}
        for placement in placements(CLUSTER, capsys)
    ]
    assert items == wanted


def test_a_snapshot_can_be_anonymized_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file is a cluster like any other; what policies mention is kept."""
    path = taken(tmp_path)
    second = str(tmp_path / "d.jsonl.gz")
    options = ["--anonymize", "--keep", "shop", "--keep", "general-*"]
    assert run(["snapshot", second, "--cluster", path, *options]) == 0
    capsys.readouterr()
    pods = placements(second, capsys)
    assert any(item["pod"].startswith("shop/") for item in pods)
    assert not any("web-1" in item["pod"] for item in pods)


def test_every_verb_takes_it_as_a_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Verbs that need a cluster read the file; simulate has clusters as arguments."""
    path = taken(tmp_path)
    policies = str(Path(CLUSTER).parents[1])
    for arguments in (
        ["check", f"{policies}/gang"],
        ["eval", "node.labels.size()"],
        ["diff", f"{policies}/default", f"{policies}/gang"],
        ["explain", "shop/web-1"],
        ["fit", f"{CLUSTER}/pending.yaml"],
    ):
        assert run([*arguments, "--cluster", path]) in (0, 1), arguments
        assert "unknown option" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["c.jsonl.gz"], "snapshot needs either --cluster or --kubeconfig"),
        (
            ["c.jsonl.gz", "--cluster", CLUSTER, "--kubeconfig", "x"],
            "snapshot needs either --cluster or --kubeconfig",
        ),
        (["c.yaml", "--cluster", CLUSTER], "c.yaml: the name of a snapshot ends in .jsonl.gz"),
        (
            ["no/c.jsonl.gz", "--cluster", CLUSTER],
            "no/c.jsonl.gz: there is no directory no",
        ),
        (
            ["c.jsonl.gz", "--cluster", CLUSTER, "--key", "k", "--keep", "a"],
            "--key, --keep: only with --anonymize",
        ),
        (
            ["c.jsonl.gz", "--cluster", CLUSTER, "--anonymize", "--key", "short"],
            "short: a key has at least 16 bytes, this one 3",
        ),
        (
            ["c.jsonl.gz", "--cluster", CLUSTER, "--anonymize", "--names", "gone/names.json"],
            "gone/names.json: there is no directory gone",
        ),
        (["c.jsonl.gz", "--cluster", "gone"], "gone: No such file or directory"),
        (["c.jsonl.gz", "--kubeconfig", "gone"], "gone"),
    ],
)
def test_snapshot_names_mistakes_and_writes_nothing(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each mistake has its message, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    Path("short").write_text("abc")
    assert run(["snapshot", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["short"]


def test_record_asks_early_where_names_can_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are written at the end: a day was recorded whose pseudonyms nobody could read."""
    names = tmp_path / "gone" / "names.json"
    assert run(["record", str(tmp_path / "traffic"), "--anonymize", "--names", str(names)]) == 2
    assert f"{names}: there is no directory {names.parent}" in capsys.readouterr().err
    assert not (tmp_path / "traffic").exists()
