"""Objects as tables, which kubectl prints; columns.yaml has the columns by kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec

from policy_sched.client.apimachinery import parsed
from policy_sched.embedded.apiserver.printers import cells, jsonpath
from policy_sched.embedded.schema import CustomVersion
from policy_sched.manifests import Plain
from policy_sched.source import yaml_values

_ZEROS: Final = {"string": "", "integer": 0, "boolean": False, "date": None}


class PrinterColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One column: its definition, and what fills it."""

    name: str
    type: str = "string"
    path: str = ""
    form: str = msgspec.field(default="", name="as")
    since: str = ""
    until: str = ""
    count: str = ""
    cell: str = ""
    of: str = ""
    default: Any = None
    wide: bool = False

    def definition(self) -> Plain:
        """Return the column as the API describes it."""
        return {
            "name": self.name,
            "type": self.type,
            "format": "name" if self.name == "Name" and not self.wide else "",
            "description": "",
            "priority": int(self.wide),
        }

    def value(self, data: Plain, now: int) -> Any:
        """Return the cell of an object."""
        if self.cell:
            function: Callable[..., Any] = getattr(cells, self.cell)
            return function(data, self.of) if self.of else function(data)
        if self.since:
            return self._time(data, now)
        if self.count:
            return len(_value_at(data, self.count) or ())
        cell = _first(data, self.path)
        if self.form:
            return cells.FORMS[self.form](cell)
        if isinstance(cell, list):
            cell = ",".join(str(item) for item in cell if item is not None)
        if cell is None or cell == "":
            return _ZEROS[self.type] if self.default is None else self.default
        return str(cell) if self.type == "string" else cell

    def _time(self, data: Plain, now: int) -> str:
        since, until = _first(data, self.since), _first(data, self.until)
        if not since and self.default is not None:
            return str(self.default)
        return cells.ago(since, parsed(until) if until else now)


def _first(data: Plain, paths: str) -> Any:
    """Return the value of the first of several paths that has one."""
    values = (_value_at(data, path) for path in paths.split("|") if path)
    return next((value for value in values if value not in (None, "", [])), None)


def _value_at(data: Any, path: str) -> Any:
    """Return the value of a path, None if it is not there; a list if the path has a ``*``."""
    step, _, rest = path.partition(".")
    if not step or data is None:
        return data
    if step.startswith("["):
        field, _, value = step[1:-1].partition("=")
        return _value_at(next((item for item in data if item.get(field) == value), None), rest)
    if step != "*":
        return _value_at(data.get(step), rest)
    inner = [_value_at(item, rest) for item in data]
    return [x for item in inner for x in item] if "*" in rest else inner


NAME: Final = PrinterColumn("Name", path="metadata.name")
AGE: Final = PrinterColumn("Age", since="metadata.creationTimestamp")
OTHER: Final = (NAME, PrinterColumn("Created At", type="date", path="metadata.creationTimestamp"))


@cache
def tables() -> Mapping[str, tuple[PrinterColumn, ...]]:
    """Return the columns by kind."""
    text = Path(__file__).with_name("columns.yaml").read_text(encoding="utf-8")
    shared = {"Name": NAME, "Age": AGE}
    return {
        kind: tuple(
            shared[column] if isinstance(column, str) else msgspec.convert(column, PrinterColumn)
            for column in columns
        )
        for kind, columns in yaml_values(text)[0].items()
    }


class CustomColumn(msgspec.Struct, frozen=True, rename="camel"):
    """A column that a CustomResourceDefinition names, by its path."""

    name: str
    type: str
    json_path: str
    format: str = ""
    description: str = ""
    priority: int = 0

    def definition(self) -> Plain:
        """Return the column as the API describes it."""
        described = {"name": self.name, "type": self.type, "format": self.format}
        return {**described, "description": self.description, "priority": self.priority}

    def value(self, data: Plain, now: int) -> Any:
        """Return the cell of an object, None if there is nothing that suits the type."""
        try:
            value = next(iter(jsonpath.values_at(self.json_path, data)), None)
        except ValueError:
            return None
        match self.type, value:
            case _, None:
                return None
            case "string", str():
                return value
            case "string", _:
                return msgspec.json.encode(value, order="sorted").decode()
            case "date", str():
                return cells.ago(value, now)
            case "boolean", bool():
                return value
            case (("integer" | "number"), (int() | float())) if not isinstance(value, bool):
                return int(value) if self.type == "integer" else value
        return None


_CUSTOM_AGE: Final = CustomColumn("Age", "date", ".metadata.creationTimestamp")


@lru_cache(maxsize=256)
def _custom_columns(custom: CustomVersion) -> tuple[PrinterColumn | CustomColumn, ...]:
    given = tuple(msgspec.convert(column, CustomColumn) for column in custom.columns)
    return (NAME, *(given or (_CUSTOM_AGE,)))


def _columns(kind: str, custom: CustomVersion | None) -> tuple[PrinterColumn | CustomColumn, ...]:
    return tables().get(kind, OTHER) if custom is None else _custom_columns(custom)


def row(
    kind: str, data: Plain, now: int, included: str, custom: CustomVersion | None = None
) -> Plain:
    """Return the row of an object. ``included``: None, Metadata or Object goes with it."""
    shown: Plain = {"cells": _cells(_columns(kind, custom), data, now)}
    if included == "Object":
        shown["object"] = data
    elif included != "None":
        shown["object"] = metadata(data)
    return shown


def _cells(columns: tuple[PrinterColumn | CustomColumn, ...], data: Plain, now: int) -> list[Any]:
    """Return an object's cells; of one that is not shaped like its kind only the name."""
    try:
        return [column.value(data, now) for column in columns]
    except (TypeError, ValueError, AttributeError, LookupError):
        return [NAME.value(data, now), *["<invalid>"] * (len(columns) - 1)]


def metadata(data: Plain) -> Plain:
    """Return an object's metadata alone."""
    head = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    return {**head, "metadata": data["metadata"]}


def definitions(kind: str, custom: CustomVersion | None = None) -> list[Plain]:
    """Return the columns of a kind."""
    return [column.definition() for column in _columns(kind, custom)]
