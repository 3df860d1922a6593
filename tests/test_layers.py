"""The architecture as a test: layers, public surfaces, and how long functions may get."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "policy_sched"

LAYERS = (
    "__main__",
    "cli",
    "console",
    "bench lsp deploy snapshot",
    "prove",
    "replay",
    "diff policytest",
    "experiments",
    "simulate",
    "instance",
    "explain fit",
    "scheduler",
    "rollout",
    "profiles",
    "plugins",
    "preemption",
    "embedded",
    "framework language",
    "http",
    "queue cluster client recording",
    "manifests",
    "model",
    "source",
    "web",
    "errors lru report thresholds",
)
"""Packages, top to bottom. Imports point down, and never sideways."""

INSIDE = {
    "cli": (".", "options", "input", "output"),
    "client": ("kube", "apimachinery", "."),
    "console": (".", "pages", "trials", "sources"),
    "client/kube": (".", "leaderelection", "cache events", "rest", "auth", "time"),
    "cluster": (".", "debug overlay", "counts", "tables"),
    "embedded": ("apiserver", ".", "controllers", "store", "admission", "schema"),
    "embedded/apiserver": (
        ".", "endpoints", "security", "request managedfields validation", "registry protobuf",
        "printers",
    ),
    "framework": ("evaluate", "runtime", "."),
    "instance": ("http shadow", "app", "observability"),
    "language": (
        ".", "codegen lint", "lower", "cel", "check ir", "stdlib", "runtime syntax",
        "values", "diagnostics",
    ),
    "plugins": (
        "rules", ".",
        "dynamicresources extenders interpodaffinity podtopologyspread volumes",
    ),
    "profiles": ("format", "reload", "check", "build", "resolve", "load", "validate", "models"),
    "scheduler": ("setup", "."),
}  # fmt: skip
"""Sub-packages of a package, top to bottom; "." stands for the package's own modules."""

LAZY = {"cli", "cli/input", "cli/options", "cli/output", "bench", "lsp"}
"""Packages whose modules are imported one by one, so that a verb imports only what it needs."""

PUBLIC = {"testing": {"model", "cluster", "source", "errors"}}
"""Modules that stand beside the layers, and what they may import."""

WRITERS = {
    "source/writing.py": "the one place",
    "embedded/store/sqlite.py": "a database, and a number beside it, change where they are",
    "instance/observability/rotated_log.py": "a log grows at its end",
    "recording/segments.py": "as above; the file is a new one",
    "instance/http/listener.py": "OpenSSL reads keys from files: a private one, deleted at once",
    "client/kube/auth/credentials.py": "as above",
    "plugins/extenders/http_extender.py": "as above, in a private directory",
    "cli/options/embedded_api.py": "as above, in a private directory",
    "experiments/engine.py": "what workers read, in a private directory",
    "console/trials/edits.py": "copies that a trial reads, in a private directory",
    "cli/main.py": "/dev/null for closed streams",
    "profiles/reload/limited_process.py": "/dev/null",
    **dict.fromkeys(
        ("bench/api_processes.py", "bench/api_server_process.py",
         "bench/check.py", "bench/inputs.py", "bench/reload.py", "bench/snapshot.py"),
        "what is measured, in a private directory",
    ),
}  # fmt: skip
"""Files that write files other than by `source.write_file`, and why."""
_WRITING = {
    "write_text", "write_bytes", "mkstemp", "NamedTemporaryFile", "replace", "rename", "touch",
    "copy", "copyfile", "copy2", "move", "symlink", "link", "symlink_to",
}  # fmt: skip
_FLAGS = {"O_WRONLY", "O_RDWR", "O_CREAT", "O_APPEND", "O_TRUNC"}

BANNED_NAMES = ("utils", "common", "core", "base", "manager", "helper", "helpers", "impl", "misc")
LONGEST = 60

SOURCES = sorted(PACKAGE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))


@dataclass(frozen=True)
class Import:
    """An import of our own code: the line, the imported module's path, and the names."""

    line: int
    module: tuple[str, ...]
    names: tuple[str, ...]


def tree(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@dataclass(frozen=True)
class Facts:
    """What the tests read of a file.

    ``needed``: imports while it is imported itself; ``written``: lines that write files; ``mocks``:
    imports of `unittest.mock`.
    """

    docstring: str
    imports: tuple[Import, ...]
    needed: frozenset[tuple[str, ...]]
    written: tuple[int, ...]
    classes: tuple[str, ...]
    variables: frozenset[str]
    functions: tuple[tuple[str, int], ...]
    silent: tuple[str, ...]
    mocks: tuple[str, ...]


def facts(path: Path, root: Path = PACKAGE) -> Facts:
    """Return what a file has, of the package in ``root`` or of the tests."""
    return read_once(path, root)


@cache
def read_once(path: Path, root: Path) -> Facts:
    """Read a file: a cache takes an argument that is left out for another one."""
    module = tree(path)
    nodes = list(ast.walk(module))
    functions = [n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    imported = [
        f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    ]
    ours = nodes if path.is_relative_to(root) else []
    return Facts(
        ast.get_docstring(module) or "",
        tuple(imports(root, ours)),
        frozenset(one.module for one in imports(root, at_once(module) if ours else [])),
        tuple(writes(ours)),
        tuple(node.name for node in nodes if isinstance(node, ast.ClassDef)),
        frozenset(variables(nodes)),
        tuple((node.name, length(node)) for node in functions),
        tuple(n.name for n in functions if is_test(n) and not ast.get_docstring(n)),
        tuple(name for name in imported if name.startswith("unittest.mock")),
    )


def variables(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the names that are given to values: of variables, parameters and fields."""
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def is_test(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether pytest runs a function."""
    return isinstance(node, ast.FunctionDef) and node.name.startswith("test_")


def imports(root: Path, nodes: Sequence[ast.AST]) -> Iterator[Import]:
    """Yield every import of our own code, those for type checkers and in functions too.

    Of a module that is imported itself the names are the attributes that the file reads.
    """
    read = defaultdict[str, set[str]](set)
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            read[node.value.id].add(node.attr)
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                first, *rest = alias.name.split(".")
                if first == "policy_sched" and rest:
                    yield Import(node.lineno, tuple(rest), ())
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import"
            first, *rest = (node.module or "").split(".")
            if first != "policy_sched":
                continue
            names = []
            for alias in node.names:
                module = root.joinpath(*rest, alias.name)
                if alias.name in surface(root, "/".join(rest)):
                    names.append(alias.name)
                elif module.is_dir() or module.with_suffix(".py").is_file():
                    attributes = sorted(read[alias.asname or alias.name])
                    yield Import(node.lineno, (*rest, alias.name), tuple(attributes))
                elif rest or not alias.name.startswith("__"):
                    names.append(alias.name)
            if names:
                yield Import(node.lineno, tuple(rest) or (names[0],), tuple(names))


def unit(root: Path, parts: tuple[str, ...]) -> str:
    """Return the innermost package that a module is in, as in ``language/check``."""
    depth = 0
    while depth < len(parts) and root.joinpath(*parts[: depth + 1]).is_dir():
        depth += 1
    return "/".join(parts[:depth]) or parts[0]


def own_unit(root: Path, path: Path) -> str:
    """Return the package that a file is in; a module at the top stands for itself."""
    parts = path.relative_to(root).with_suffix("").parts
    return "/".join(parts[:-1]) or parts[0]


def level(order: tuple[str, ...], name: str) -> int | None:
    """Return how far down a name stands in an order, None if it is not there."""
    return next((i for i, names in enumerate(order) if name in names.split()), None)


def misplaced(importer: str, imported: str) -> bool:
    """Return whether an import points up or sideways, between packages or inside of one."""
    mine, its = importer.split("/"), imported.split("/")
    if mine[0] in PUBLIC:
        return its[0] not in PUBLIC[mine[0]]
    shared = 0
    while shared < min(len(mine), len(its)) and mine[shared] == its[shared]:
        shared += 1
    order = INSIDE.get("/".join(mine[:shared]), (".",)) if shared else LAYERS
    above = level(order, mine[shared] if shared < len(mine) else ".")
    below = level(order, its[shared] if shared < len(its) else ".")
    return above is None or below is None or above >= below


@cache
def surface(root: Path, name: str) -> set[str]:
    """Return what a package offers: what it makes itself, and imports as ``Name as Name``."""
    init = root / name / "__init__.py"
    names = set[str]()
    for node in ast.walk(tree(init)) if name and init.is_file() else ():
        if isinstance(node, ast.ImportFrom):
            names |= {alias.name for alias in node.names if alias.name == alias.asname}
    for node in tree(init).body if name and init.is_file() else ():
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return {one for one in names if not one.startswith("_")}


def violations(root: Path, path: Path) -> list[str]:
    """Return what is wrong with a file's imports."""
    importer = own_unit(root, path)
    found = []
    for one in facts(path, root).imports:
        imported = unit(root, one.module)
        if imported == importer or imported.split("/")[0] == "testing":
            continue
        where = f"{path}:{one.line}: {importer} imports {'.'.join(one.module)}"
        if misplaced(importer, imported):
            found.append(f"{where}, which is not below it")
        inside = "/".join(one.module) != imported
        if imported in LAZY or not (root / imported).is_dir():
            continue
        hidden = set(one.names) - surface(root, imported)
        if inside or hidden:
            found.append(f"{where}, which is inside {imported}: {', '.join(sorted(hidden))}")
    return found


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of a function without those of its docstring."""
    first = function.body[0]
    lines = [function.lineno, function.end_lineno, first.lineno, first.end_lineno]
    begin, end, doc, doc_end = (line or 0 for line in lines)
    return end - begin + 1 - (doc_end - doc + 1 if ast.get_docstring(function) else 0)


def identify(path: Path) -> str:
    """Name a test case after its file or folder."""
    return str(path.relative_to(ROOT))


def folders(paths: Iterable[Path]) -> list[Path]:
    """Return the folders that files are in."""
    return sorted({path.parent for path in paths})


def files_of(folder: Path, paths: Iterable[Path]) -> list[Path]:
    """Return those of some files that are in a folder itself."""
    return [path for path in paths if path.parent == folder]


@pytest.mark.parametrize("folder", folders(SOURCES), ids=identify)
def test_imports_point_down_and_enter_packages_by_their_surface(folder: Path) -> None:
    """A module imports its own package, and what the packages below offer in their ``__init__``."""
    wrong = [one for path in files_of(folder, SOURCES) for one in violations(PACKAGE, path)]
    assert not wrong, "\n".join(wrong)


def at_once(module: ast.Module) -> list[ast.AST]:
    """Return the nodes that run when a module is imported: functions run later."""
    nodes: list[ast.AST] = [module]
    for node in nodes:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            nodes.extend(ast.iter_child_nodes(node))
    return nodes


def siblings(path: Path) -> set[str]:
    """Return the modules of a file's own package that it imports when it is imported itself."""
    package = path.relative_to(PACKAGE).parent.parts
    return {stem for *parents, stem in facts(path).needed if tuple(parents) == package}


@pytest.mark.parametrize("folder", folders(SOURCES), ids=identify)
def test_no_module_needs_one_that_needs_it(folder: Path) -> None:
    """Two plugins imported their events, and the events imported the two plugins."""
    modules = [path for path in files_of(folder, SOURCES) if path.name != "__init__.py"]
    order = TopologicalSorter({path.stem: siblings(path) for path in modules})
    try:
        order.prepare()
    except CycleError as error:
        pytest.fail(f"{folder}: {' <- '.join(error.args[1])}")


def test_every_package_has_a_place() -> None:
    """No package or sub-package exists outside the plan."""
    units = {own_unit(PACKAGE, path) for path in SOURCES} - {"__init__"}
    packages = {name for names in LAYERS for name in names.split()} | set(PUBLIC)
    assert {name.split("/")[0] for name in units} == packages
    nested = {name for name in units if "/" in name}
    planned = {f"{p}/{n}" for p, order in INSIDE.items() for names in order for n in names.split()}
    assert nested == {name for name in planned if not name.endswith("/.")}


def test_every_package_documents_its_contents() -> None:
    """A package's docstring has a sentence and a paragraph."""
    inits = [path for path in SOURCES if path.name == "__init__.py" and path.parent != PACKAGE]
    short = [str(one) for one in inits if len(facts(one).docstring.split("\n\n")) < 2]
    assert not short


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("model/a.py", "from policy_sched.cluster import Cache", "not below"),
        ("cluster/tables/a.py", "from policy_sched.cluster.overlay import Overlay", "not below"),
        ("cluster/counts/a.py", "from policy_sched.cluster.tables.column import C", "inside"),
        ("queue/a.py", "from policy_sched.model import hidden", "inside"),
        ("queue/a.py", "def f():\n    from policy_sched.cluster import Cache", "not below"),
        (
            "queue/a.py",
            "if TYPE_CHECKING:\n    from policy_sched.scheduler import Scheduler",
            "not below",
        ),
        ("queue/a.py", "from policy_sched import model\nmodel.hidden", "inside model: hidden"),
        ("queue/a.py", "from policy_sched.cluster import tables\ntables.Pod", "not below"),
        ("model/a.py", "from policy_sched import cluster\ncluster.Cache", "not below"),
        ("scheduler/a.py", "from policy_sched.cluster import tables\ntables.hidden", "inside"),
        ("queue/a.py", "from policy_sched.model import Pod", ""),
        ("queue/a.py", "from policy_sched import model\nmodel.Pod", ""),
    ],
)
def test_each_kind_of_violation_is_reported(
    tmp_path: Path, file: str, text: str, complaint: str
) -> None:
    """The test of the test: each kind of violation in a small tree is reported."""
    for name in (
        "model",
        "cluster/tables",
        "cluster/counts",
        "cluster/overlay",
        "queue",
        "scheduler",
    ):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "__init__.py").write_text(
            "".join(f"from a import {n} as {n}\n" for n in ("Pod", "Cache", "Overlay", "Scheduler"))
        )
    (tmp_path / "cluster" / "__init__.py").write_text("from a import Cache as Cache\n")
    (tmp_path / "cluster" / "tables" / "column.py").write_text("")
    (tmp_path / file).write_text(text + "\n")
    found = violations(tmp_path, tmp_path / file)
    assert [complaint in one for one in found] == [True] * bool(complaint)


def writes(nodes: Iterable[ast.AST]) -> Iterator[int]:
    """Yield the lines that open a file for writing, or give one a name."""
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr in _FLAGS:
            yield node.lineno
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        owner = getattr(called.value, "id", "") if isinstance(called, ast.Attribute) else ""
        of_files = name.startswith("write_") or owner in ("os", "shutil", "tempfile")
        modes = [one.value for one in [*node.args, *(k.value for k in node.keywords)]
                 if isinstance(one, ast.Constant) and isinstance(one.value, str)]  # fmt: skip
        opened = name == "open" and any(
            re.fullmatch("[rwaxbt+]{0,3}[wax+][bt+]*", m) for m in modes
        )
        if opened or (name in _WRITING and (of_files or name.endswith("_to") or name == "touch")):
            yield node.lineno


def test_files_of_the_user_are_written_in_one_place() -> None:
    """`fmt` and `init` wrote through links of a repository, into any file of the user."""
    found = {str(path.relative_to(PACKAGE)) for path in SOURCES if facts(path).written}
    assert found == set(WRITERS)


@pytest.mark.parametrize(
    ("text", "writing"),
    [
        ("open(f, 'w')", True), ("path.open(mode='ab')", True), ("open(f, 'r+b')", True),
        ("open(f)", False), ("open(f, 'rb')", False), ("path.write_text(x)", True),
        ("text.replace('a', 'b')", False), ("os.replace(a, b)", True), ("os.O_CREAT", True),
        ("shutil.copy(a, b)", True), ("write_file(a, b)", False), ("x.copy()", False),
    ],
)  # fmt: skip
def test_code_that_writes_files_is_noticed(tmp_path: Path, text: str, writing: bool) -> None:
    """The test of the test."""
    (tmp_path / "a.py").write_text(text, encoding="utf-8")
    assert bool(facts(tmp_path / "a.py", tmp_path).written) is writing


@pytest.mark.parametrize("folder", folders(SOURCES), ids=identify)
def test_functions_stay_short(folder: Path) -> None:
    """A function has at most 60 lines without its docstring."""
    for path in files_of(folder, SOURCES):
        functions = facts(path).functions
        long = [f"{name}: {lines} lines" for name, lines in functions if lines > LONGEST]
        assert not long, f"{path}: {', '.join(long)}"


@pytest.mark.parametrize("folder", folders(SOURCES + TESTS), ids=identify)
def test_every_module_has_a_docstring(folder: Path) -> None:
    """The first statement of a module is its docstring."""
    for path in files_of(folder, SOURCES + TESTS):
        if path.name == "__init__.py" and not path.read_text(encoding="utf-8"):
            assert path.is_relative_to(ROOT / "tests"), f"{path}: an empty package"
            continue
        first, *_ = facts(path).docstring.splitlines() or [""]
        assert first.endswith("."), f"{path}: no sentence: {first!r}"


@pytest.mark.parametrize("folder", folders(SOURCES), ids=identify)
def test_names_are_nouns_of_the_domain(folder: Path) -> None:
    """No module, class or variable is called after nothing in particular."""
    vague = ("Manager", "Helper", "Utils", "Base", "Impl")
    for path in files_of(folder, SOURCES):
        assert not set(path.stem.split("_")) & set(BANNED_NAMES), path
        assert not [name for name in facts(path).classes if name.strip("_").endswith(vague)], path
        assert not facts(path).variables & {"found", "one"}, path


@pytest.mark.parametrize("folder", folders(TESTS), ids=identify)
def test_tests_promise_in_words_and_mock_nothing(folder: Path) -> None:
    """Every test has a docstring, and mocks are for the tests of the command line alone."""
    for path in files_of(folder, TESTS):
        found = facts(path)
        assert not found.silent, f"{path}: no promise: {', '.join(found.silent)}"
        if not path.is_relative_to(ROOT / "tests" / "cli"):
            assert not found.mocks, path
