"""The manual: its reference is printed from the tables, and says something of everything."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from policy_sched.cli import manual
from policy_sched.cli.main import VERBS
from policy_sched.cluster.cache import Cache
from policy_sched.cluster.columns import NODE_COLUMNS, POD_COLUMNS, Family
from policy_sched.cluster.node_table import NodeTable
from policy_sched.cluster.pod_table import PodTable
from policy_sched.framework.points import POINTS
from policy_sched.language.codes import CODES
from policy_sched.language.environment import RECORDS
from policy_sched.language.functions import spellings
from policy_sched.profiles.check import check_files

MANUAL = Path(__file__).parents[2] / "policies" / "README.md"


def test_the_committed_manual_is_what_the_tables_print() -> None:
    """Whoever changes a table prints the manual anew: python -m policy_sched.cli.manual."""
    text = MANUAL.read_text(encoding="utf-8")
    assert text == manual.with_reference(text)


def test_the_reference_names_everything() -> None:
    """Every verb, hook, code, field and signature is there."""
    text = manual.reference()
    names = [*VERBS, *POINTS, *CODES]
    names += [name for record in RECORDS.values() for name in record.fields]
    names += [overload.signature.replace("|", "\\|") for overload in spellings()]
    assert [name for name in names if name not in text] == []


def test_a_manual_without_the_mark_is_refused() -> None:
    """Nothing that a person wrote is lost."""
    with pytest.raises(ValueError, match="lacks the line"):
        manual.with_reference("# Policies\n")


def test_nothing_is_left_without_a_meaning() -> None:
    """Each row of the reference ends in a sentence, not in an empty cell."""
    rows = [line for line in manual.reference().splitlines() if line.startswith("| `")]
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
    """Return the YAML examples of the manual, those of the first hour aside: mistakes are in it."""
    _, _, text = MANUAL.read_text(encoding="utf-8").partition("## How to write one")
    return re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_examples_load_without_a_problem(tmp_path: Path) -> None:
    """What the manual shows can be copied: policies and the configuration that enables them."""
    blocks = yaml_blocks()
    assert len(blocks) >= 3
    for number, block in enumerate(blocks):
        (tmp_path / f"{number}.yaml").write_text(block)
    assert check_files([str(tmp_path)]) == []
