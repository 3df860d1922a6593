"""Kept files: what a pickle names."""

from __future__ import annotations

import pickle
from enum import Enum
from typing import Any

import pytest

from policy_sched.source import pickled, unpickled


class Color(Enum):
    """An enum that pickles itself as those of Python before 3.11.4 do."""

    RED = 1

    def __reduce_ex__(self, _protocol: Any) -> Any:
        """Name getattr."""
        return getattr, (type(self), self.name)


def only_color(module: str, name: str) -> bool:
    return (module, name) == (__name__, "Color")


def test_members_of_enums_are_their_values() -> None:
    """A reader allows their class, and no function that finds anything by its name."""
    content = {"color": [Color.RED], "other": 2}
    assert unpickled(pickled(content), only_color) == content
    with pytest.raises(pickle.UnpicklingError, match=r"builtins\.getattr is not expected here"):
        unpickled(pickle.dumps(content), only_color)


def test_what_cannot_be_pickled_is_an_error() -> None:
    """Rules with such a part are not kept."""
    with pytest.raises(pickle.PicklingError):
        pickled(lambda: None)
