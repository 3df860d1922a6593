"""Tests that the text of each mutant is there, and that its program is another."""

from __future__ import annotations

import ast

import pytest

from tests.mutants import MUTANTS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_the_text_of_a_mutant_occurs_once_and_its_program_is_another(mutant: Mutant) -> None:
    """A line was rewritten, its mutant stayed as it was, and a whole run ended at it."""
    before, after = mutant.texts()
    assert ast.dump(ast.parse(before)) != ast.dump(ast.parse(after))
