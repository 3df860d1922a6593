"""The operations: one row of ops.toml per kind, with everything that the compiler knows of it.

``{0}``, ``{1}`` stand for arguments, ``{*}`` for all of them, ``{d}`` for the name of the constant
that holds the op's data, ``{s}`` for the data itself, such as an error site. Names in the texts are
those that runtime/ defines.

Every text is total: it raises for no argument, and under an error or in a branch that is not taken
it yields some value of the right type. Ints wrap there, and a division by zero warns of nothing
(the caller sets `numpy.errstate`). In a vector text an argument is an array or one number for all.
"""

from __future__ import annotations

import re
import tomllib
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

#: Units of an operation on arrays that is one pass over them.
ONE_PASS: Final = 0.25


class Trend(Enum):
    """How a value changes as its arguments increase; see dependencies.py."""

    UNKNOWN = auto()
    SAME = auto()
    """It increases with every argument."""
    OPPOSITE = auto()
    """It decreases with its argument."""
    DIFFERENCE = auto()
    """It increases with the first argument and decreases with the second."""
    LESS = auto()
    """It decreases with the first argument and increases with the second."""
    SCALED = auto()
    """It is a multiple, or a fraction, of one argument if the other is a constant."""
    SHARE = auto()
    """It increases with the first argument if the second stays the same."""
    CHOICE = auto()
    """It changes as the second and third argument do if the first stays the same."""
    COLUMN = auto()
    """It changes as the column of the node table does that it reads."""
    GROWS = auto()
    """It increases as pods are added to the node."""


class LoopKind(Enum):
    """What a loop makes of its values: the text that it starts from, and whether it runs over rows.

    A loop over rows takes its list from outside of the node and computes its body for all rows.
    """

    LIST = "list", "[]", False
    DICT = "dict", "{}", False
    ALL = "all", "True", True
    EXISTS = "exists", "False", True
    COUNT = "count", "0", True
    SUM_INT = "sum_int", "0", True
    SUM_DOUBLE = "sum_double", "0.0", True
    FOLD = "fold", "None", False
    """The last value of an accumulator, whose variable is in the place of the index. What it is
    at first is the last argument."""
    EACH = "each", "[]", True
    """A list of the values over rows, one for each element."""

    def __init__(self, _name: str, start: str, over_rows: bool) -> None:
        self.start = start
        self.over_rows = over_rows


class OpKind(msgspec.Struct, frozen=True, eq=False):
    """A kind of operation; compared by identity.

    ``scalar`` is its Python text for one row, ``vector`` its NumPy text for many, "" if it has
    none. ``price`` is in units of `cost`, per node; ``per_argument`` multiplies it. ``free`` ops
    cost nothing. Of ``lazy`` ops the later arguments are computed only if the first one needs them.
    ``elementwise`` vector texts take arrays of any shape. ``by_row`` ops are read by the number of
    the row, ``columns`` hold a column of the node table, or its family, as data.
    ``pod_invariant`` is whether the value stays the same from pod to pod if the arguments do and
    the row has not changed. ``node_field`` is what it reads of a node besides columns. ``smt`` is
    the text of its term for a solver; without one, ``opaque`` says what it depends on.
    """

    name: str
    scalar: str = ""
    vector: str = ""
    trend: Trend = Trend.UNKNOWN
    price: float = ONE_PASS
    per_argument: bool = False
    free: bool = False
    lazy: bool = False
    elementwise: bool = False
    by_row: bool = False
    columns: bool = False
    pod_invariant: bool = True
    node_field: str = ""
    smt: str = ""
    opaque: str = ""

    @property
    def is_name(self) -> bool:
        """Whether the scalar text is a plain name, which may be written again and again."""
        return bool(self.scalar) and "{" not in self.scalar

    @property
    def repeats_arguments(self) -> bool:
        """Whether an argument occurs twice in the scalar text, so that it has to be a name."""
        places: list[str] = re.findall(r"\{(\d)\}", self.scalar)
        return len(places) > len(set(places))

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        """Pickle as the constant of this module that has the kind's name."""
        return self.name.upper()


def _read() -> dict[str, OpKind]:
    rows = tomllib.loads(Path(__file__).with_name("ops.toml").read_text(encoding="utf-8"))
    kinds = {}
    for name, row in rows.items():
        if row.get("elementwise"):
            row.setdefault("vector", row["scalar"])
        trend = Trend[row.pop("trend", "unknown").upper()]
        kinds[name] = OpKind(name, trend=trend, **row)
    return kinds


KINDS: Final = _read()
#: Every kind is a constant of this module: `ops.ADD` is the row "add".
globals().update({name.upper(): kind for name, kind in KINDS.items()})

if TYPE_CHECKING:

    def __getattr__(name: str) -> OpKind: ...
