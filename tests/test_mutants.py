"""Tests that the text of each mutant is there, and that its program is another."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from tests.mutants import MUTANTS, ROOT, Mutant


def test_every_mechanism_of_the_documentation_has_mutants() -> None:
    """A reader of the page found mechanisms without mutants, and mutants of none of them."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.split("| what is kept | where |")[1].split("\n\n")[0]
    rows = [line.split("|")[2].replace("`", "").split() for line in table.splitlines()[2:]]
    files = {mutant.file for mutant in MUTANTS}
    assert [row for row in rows if not any(file.startswith(tuple(row)) for file in files)] == []
    every = tuple(path for row in rows for path in row)
    assert [file for file in files if not file.startswith(every)] == []


def test_the_tests_that_mutants_name_exist() -> None:
    """Files of tests were renamed, and a whole run of mutants ended at the first of them."""
    named = {path for mutant in MUTANTS for path in mutant.tests}
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_the_text_of_a_mutant_occurs_once_and_its_program_is_another(mutant: Mutant) -> None:
    """A line was rewritten, its mutant stayed as it was, and a whole run ended at it."""
    before, after = mutant.texts()
    assert program(before) != ast.dump(ast.parse(after))


@cache
def program(text: str) -> str:
    """Return the program of a file, which many mutants are of."""
    return ast.dump(ast.parse(text))
