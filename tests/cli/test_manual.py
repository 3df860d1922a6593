"""The generated pages: printed from the tables, and complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.console import Console

from policy_sched.cli import manual
from policy_sched.cli.app import VERBS, app
from policy_sched.cli.main import run
from policy_sched.cluster.cache import Cache
from policy_sched.cluster.tables.node_table import NodeTable
from policy_sched.cluster.tables.pod_table import PodTable
from policy_sched.cluster.tables.schema import NODE_COLUMNS, POD_COLUMNS, Family
from policy_sched.framework.extension_points import POINTS
from policy_sched.language.diagnostics import codes
from policy_sched.language.stdlib.environment import policy_environment
from policy_sched.profiles.check.check import check_files
from tests.shown import ROOT, page

GUIDE = page("docs/policy-guide.md")


@pytest.mark.parametrize("name", manual.PAGES)
def test_the_committed_page_is_what_the_tables_print(name: str) -> None:
    """A change of a table needs the pages printed anew: python -m policy_sched.cli.manual docs."""
    text = page(f"docs/{name}")
    assert text == manual.generated(name, text)


def test_the_reference_names_everything() -> None:
    """Every verb, hook, code, field and signature is there."""
    assert [verb for verb in VERBS if f"### policy-sched {verb}\n" not in manual.commands()] == []
    text = manual.reference()
    environment = policy_environment()
    assert [name for name in POINTS if f"| `{name}(" not in manual.hooks()] == []
    names = [*codes(), *environment.macros]
    names += [name for record in environment.records.values() for name in record.fields]
    names += [overload.signature.replace("|", "\\|") for overload in environment.overloads]
    assert [name for name in names if name not in text] == []


@pytest.mark.parametrize("verb", VERBS)
def test_flags_are_written_as_the_verb_takes_them(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page had `--from-` of replay, `--settings` of sweep and `POLICIE...` of prove."""
    monkeypatch.setattr(app, "console", Console(width=400))  # one of before has another width
    assert run([*verb.split(), "--help"]) == 0
    shown = set(re.findall(r"[\w.-]+", capsys.readouterr().out))
    section = manual.commands().partition(f"### policy-sched {verb}\n")[2].partition("\n### ")[0]
    flags = re.findall(r"^\| `(.+?)` \|", section, re.MULTILINE)
    names = [name for flag in flags for name in flag.removesuffix("...").split(", ")]
    assert [name for name in names if name not in shown] == []


def test_every_metric_of_ours_is_in_the_documentation() -> None:
    """Metrics of a shadow, of an embedded cluster and of the event loop stood in no page."""
    sources = [
        *(ROOT / "policy_sched").rglob("*.py"),
        *(ROOT / "policy_sched").rglob("metrics.toml"),
    ]
    text = "".join(source.read_text("utf-8") for source in sources)
    names = set(re.findall(r'"(policy_sched_[a-z_]*[a-z])"', text))
    pages = page("docs/operating.md") + page("docs/shadow.md")
    assert len(names) > 15
    assert [name for name in sorted(names) if f"`{name}" not in pages] == []


def test_a_page_without_the_mark_is_refused() -> None:
    """Nothing that a person wrote is lost."""
    with pytest.raises(ValueError, match=r"cli\.md lacks the line"):
        manual.generated("cli.md", "# Command line\n")


def test_nothing_is_left_without_a_meaning() -> None:
    """Each row of the reference ends in a sentence, not in an empty cell."""
    text = manual.commands() + manual.reference()
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert [row for row in rows if row.endswith("|  |")] == []


@pytest.mark.parametrize(
    ("families", "table"),
    [(NODE_COLUMNS, NodeTable()), (POD_COLUMNS, Cache().pods)],
    ids=["nodes", "pods"],
)
def test_the_columns_of_examples_can_be_opened(
    families: dict[str, Family], table: NodeTable | PodTable
) -> None:
    """Each row's example is a key that the table knows."""
    for family in families.values():
        key = manual.column_example(family)
        assert f"`table.column({key}).values`" in manual.reference()
        assert table.column(key).values.dtype == family.dtype


def yaml_blocks() -> list[str]:
    """Return the YAML examples of the guide, without the files that show mistakes."""
    matches = re.findall(r"^```yaml\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    return [block for block in matches if not block.startswith("# example/broken")]


def test_the_examples_load_without_a_problem(tmp_path: Path) -> None:
    """What the guide shows can be copied: policies and the configuration that enables them."""
    blocks = yaml_blocks()
    assert len(blocks) >= 12
    versions = set[Path]()
    for number, block in enumerate(blocks):
        named = re.match(r"# example/(\S+)\n", block)
        name = named[1] if named else f"{number}.yaml"
        later = re.search(r"-(\d)\b", name)  # a later version of a policy of the same name
        folder = tmp_path / (later[1] if later else "1")
        folder.mkdir(exist_ok=True)
        versions.add(folder)
        (folder / name).write_text(block)
    assert [problem for folder in versions for problem in check_files([str(folder)])] == []
