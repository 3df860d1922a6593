"""Texts by place: compiled again wherever the files are, and written nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

from policy_sched.profiles.reload import PolicyFiles, is_place

POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {{name: {name}}}
spec:
  {inputs}
  filter: [{{expression: "node.podCount < {most}", message: full}}]
"""
INPUTS = "inputs: [{name: q, apiVersion: example.com/v1, kind: Quota, schema: schemas/q.json}]"
SCHEMA = '{"type": "object", "properties": {"spec": {"type": "object"}}}'
CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: Own}, {name: Below}]}}}]
"""


def written(folder: Path) -> PolicyFiles:
    """Write a configuration, a directory, and a file that names a schema."""
    for name in ("below/deep", "own/schemas"):
        (folder / name).mkdir(parents=True)
    text = POLICY.format(name="Below", inputs="", most=9)
    (folder / "below" / "deep" / "p.yaml").write_text(text)
    (folder / "own" / "p.yaml").write_text(POLICY.format(name="Own", inputs=INPUTS, most=5))
    (folder / "own" / "schemas" / "q.json").write_text(SCHEMA)
    (folder / "config.yaml").write_text(CONFIG)
    paths = str(folder / "below"), str(folder / "own" / "p.yaml")
    return PolicyFiles(str(folder / "config.yaml"), paths, keeps_texts=True)


def test_texts_are_compiled_as_their_files_were(tmp_path: Path) -> None:
    """By a process that reads other files, or none."""
    compiled = written(tmp_path / "first").compile()
    assert not compiled.failed
    assert list(compiled.sources) == [
        "/config/config.yaml",
        "/0/deep/p.yaml",
        "/1-file/p.yaml",
        "/1-file/schemas/q.json",
    ]
    (tmp_path / "other.yaml").write_text(POLICY.format(name="Other", inputs="", most=1))
    for files in (
        PolicyFiles(),
        PolicyFiles(None, (str(tmp_path / "other.yaml"),)),
        PolicyFiles(str(tmp_path / "gone.yaml"), (str(tmp_path / "gone"),)),
    ):
        assert files.compile_texts(compiled.sources).content_hash == compiled.content_hash


def test_the_same_files_elsewhere_have_the_same_texts(tmp_path: Path) -> None:
    """A folder that is moved is no change."""
    first, second = (written(tmp_path / name).compile() for name in ("first", "second"))
    assert first.sources == second.sources


def test_a_name_that_is_no_text_has_a_place(tmp_path: Path) -> None:
    """A record is JSON, which has no such bytes."""
    name = os.fsdecode(b"p\xff.yaml")
    (tmp_path / name).write_text(POLICY.format(name="Odd", inputs="", most=3))
    compiled = PolicyFiles(None, (str(tmp_path),), keeps_texts=True).compile()
    assert [place.encode() for place in compiled.sources] == [b"/0/p\\xff.yaml"]
    assert PolicyFiles().compile_texts(compiled.sources).content_hash == compiled.content_hash


def test_no_text_is_written_outside_its_folder(tmp_path: Path) -> None:
    """A record comes from where others may write: it names no file of the machine."""
    text, up = POLICY.format(name="A", inputs="", most=1), "/.." * 20
    for name in (f"/0{up}{tmp_path}/x.yaml", f"{up}{tmp_path}/x.yaml", f"{tmp_path}/x.yaml"):
        assert not is_place(name)
        compiled = PolicyFiles().compile_texts({name: text})
        assert compiled.content_hash == PolicyFiles().compile().content_hash
    assert not list(tmp_path.iterdir())
