"""The constants, functions and columns that a generated function reads by name."""

from __future__ import annotations

import math
from typing import Final

from policy_sched.language.ir import Call, Op

ColumnKey = tuple[str, ...]
#: What the factory of the generated functions is given besides the columns.
FACTORY_ARGUMENTS: Final = (
    "rt",
    "column",
    "find",
    "code",
    "texts",
    "taint_members",
    "port_members",
)


class ConstantPool:
    """Gives names to what a generated text refers to; nothing of it is ever pasted into the text.

    ``constants`` go into the text's globals (K0, K1, ...), ``columns`` are opened when the
    functions are bound to a table (C0, C1, ...).
    """

    def __init__(self) -> None:
        self.constants: dict[str, object] = {}
        self.columns: dict[ColumnKey, str] = {}
        self._names: dict[int, str] = {}

    def constant(self, value: object) -> str:
        """Return the name of a constant."""
        name = self._names.get(id(value))
        if name is None:
            name = self._names[id(value)] = f"K{len(self.constants)}"
            self.constants[name] = value
        return name

    def column(self, key: ColumnKey) -> str:
        """Return the name of a column of the node table."""
        return self.columns.setdefault(key, f"C{len(self.columns)}")

    def literal(self, value: object) -> str:
        """Return a text for a value: plain numbers as such, anything else by name."""
        if value is None or isinstance(value, bool):
            return repr(value)
        if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
            negative = value < 0 or (value == 0 and math.copysign(1.0, value) < 0)
            return f"({value!r})" if negative else repr(value)
        return self.constant(value)

    def data(self, op: Op) -> str:
        """Return the text for ``{d}`` in the template of ``op``."""
        return self.column(op.data) if isinstance(op.data, tuple) else self.literal(op.data)

    def call(self, call: Call, arguments: list[str], paired: bool, *, counted: bool = False) -> str:
        """Return the text of a generic call, guarded by its guards; ``counted``: see `work`."""
        guards, plain = arguments[: call.guards], arguments[call.guards :]
        name = self.constant(call.function)
        default = self.literal(call.default)
        if counted:
            plain.insert(0, name)
            name = "metered"
        if paired:
            text = f"safe({', '.join([name, default, str(call.site), *plain])})"
            default = f"({default}, 0)"
        else:
            text = f"{name}({', '.join(plain)})"
        if guards:
            return f"({default} if {' or '.join(guards)} else {text})"
        return text
