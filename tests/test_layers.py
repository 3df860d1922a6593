"""The architecture as a test: who may import whom, and how long things may get."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "policy_sched"

LAYERS = (
    {"cli", "__main__"},
    {"apiserver", "simulate", "serve", "deploy", "lsp"},
    {"scheduler"},
    {"profiles"},
    {"plugins"},
    {"preemption"},
    {"framework", "language"},
    {"http"},
    {"queue", "cluster", "client"},
    {"model"},
    {"source"},
    {"errors"},
)
"""Top to bottom. Imports point down, and never sideways."""

PUBLIC = {"testing": {"model", "cluster", "source", "errors"}}
"""Modules that stand beside the layers, and what they may import."""

BANNED_NAMES = ("utils", "common", "core", "base", "manager", "helper", "helpers", "impl", "misc")
FILE_LINES = 600
FUNCTION_LINES = 60

SOURCES = sorted(PACKAGE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))


def tree(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def room(path: Path) -> str:
    """Return the room of a file: the folder, or the module at the top of the package."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and room of every import of our own package."""
    for node in ast.walk(tree(path)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            module = node.module or ""
            names = [f"{module}.{a.name}" for a in node.names] if "." not in module else [module]
        for name in names:
            first, _, rest = name.partition(".")
            if first == "policy_sched" and rest and not rest.startswith("__"):
                yield node.lineno, rest.partition(".")[0]


def allowed(importer: str) -> set[str]:
    """Return the rooms that a room may import."""
    if importer in PUBLIC:
        return PUBLIC[importer]
    level = next(i for i, layer in enumerate(LAYERS) if importer in layer)
    return {importer}.union(*LAYERS[level + 1 :])


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of a function without those of its docstring."""
    first = function.body[0]
    lines = [function.lineno, function.end_lineno, first.lineno, first.end_lineno]
    begin, end, doc, doc_end = (line or 0 for line in lines)
    return end - begin + 1 - (doc_end - doc + 1 if ast.get_docstring(function) else 0)


def identify(path: Path) -> str:
    """Name a test case after its file."""
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", [p for p in SOURCES if p.parent != PACKAGE], ids=identify)
def test_imports_point_down(path: Path) -> None:
    """A room imports itself and what lies below it, never what lies above or beside it."""
    permitted = allowed(room(path))
    wrong = [f"{path}:{line}: {r}" for line, r in imported_rooms(path) if r not in permitted]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["errors", "testing"])
def test_modules_at_the_top_of_the_package_keep_to_their_layer(name: str) -> None:
    """The modules that are no room import only what their layer permits."""
    permitted = allowed(name)
    wrong = [r for _, r in imported_rooms(PACKAGE / f"{name}.py") if r not in permitted]
    assert not wrong


def test_every_room_has_a_layer() -> None:
    """No room exists outside the plan."""
    known = set(PUBLIC).union(*LAYERS) | {"__init__"}
    assert {room(path) for path in SOURCES} <= known


@pytest.mark.parametrize("path", SOURCES, ids=identify)
def test_files_and_functions_stay_short(path: Path) -> None:
    """A file has at most 600 lines, a function 60 without its docstring."""
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines <= FILE_LINES, f"{lines} lines"
    functions = [
        node
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    long = [
        f"{node.name}: {length(node)} lines" for node in functions if length(node) > FUNCTION_LINES
    ]
    assert not long, ", ".join(long)


@pytest.mark.parametrize("path", SOURCES + TESTS, ids=identify)
def test_modules_say_what_they_are_for(path: Path) -> None:
    """The first statement of a module is its docstring."""
    if path.name == "__init__.py" and not path.read_text(encoding="utf-8"):
        assert path.is_relative_to(ROOT / "tests"), "an empty package"
        return
    first, *_ = (ast.get_docstring(tree(path)) or "").splitlines() or [""]
    assert first.endswith("."), f"no sentence: {first!r}"


@pytest.mark.parametrize("path", SOURCES, ids=identify)
def test_names_are_nouns_of_the_domain(path: Path) -> None:
    """No module or class is called after nothing in particular."""
    words = set(path.stem.split("_"))
    assert not words & set(BANNED_NAMES)
    classes = [node.name for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef)]
    vague = ("Manager", "Helper", "Utils", "Base", "Impl")
    assert not [name for name in classes if name.strip("_").endswith(vague)]


@pytest.mark.parametrize("path", TESTS, ids=identify)
def test_tests_promise_in_words_and_mock_nothing(path: Path) -> None:
    """Every test has a docstring, and mocks are for the tests of the command line alone."""
    module = tree(path)
    silent = [
        node.name
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]
    assert not silent, f"no promise: {', '.join(silent)}"
    if path.is_relative_to(ROOT / "tests" / "cli"):
        return
    imports = [node for node in ast.walk(module) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert not [node for node in imports if "unittest.mock" in ast.unparse(node)]
