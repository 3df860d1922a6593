"""The verb ``init``: a first policy or plugin, its test, and a CI job that checks both."""

from __future__ import annotations

import json
import os
import re
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path
from shlex import quote
from string import Template
from typing import Annotated, Final, Literal

from cyclopts import Parameter

from policy_sched import __version__
from policy_sched.cli.output.diagnostics import OK
from policy_sched.errors import PolicySchedError
from policy_sched.source import write_file

CI = Literal["github", "gitlab", "none"]
WHEEL: Final = f"./policy_sched-{__version__}-py3-none-any.whl"
"""The package that the CI job installs if no address is given."""
_NAME: Final = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")

_JOBS: Final = {
    "github": Path(".github/workflows/policies.yaml"),
    "gitlab": Path(".gitlab-ci.yml"),
}


def init(
    folder: Annotated[str, Parameter(name="DIR")] = "policies/my-policy",
    /,
    *,
    name: str = "",
    plugin: Annotated[bool, Parameter(negative="")] = False,
    ci: CI = "github",
    package: str = "",
) -> int:
    """Write DIR/policy.yaml, DIR/tests.yaml and a CI job; files that exist are never overwritten.

    The policy passes `check`, and its test passes `test`; change both. A CI job that exists
    already stays as it is: add the new policy to it. With --plugin the policy is a plugin in
    Python: a package with its module, its test and DIR/pyproject.toml.

    Parameters
    ----------
    folder
        The policy's directory.
    name
        The policy's metadata.name, or the plugin's, an upper camel case word; made from DIR unless
        given.
    plugin
        Write a plugin in Python in place of a policy; docs/plugins.md describes it.
    ci
        github: .github/workflows/policies.yaml; gitlab: .gitlab-ci.yml; none: no CI job.
    package
        What the CI job gives to pip: a wheel, a Git URL or a requirement; the address that this
        program was installed from unless given, or else a wheel in the root of the repository.
    """
    kind = "plugin" if plugin else "policy"
    words = re.findall(r"[a-z0-9]+", Path(folder).resolve().name.lower())
    title = name or "".join(word.capitalize() for word in words)
    if not _NAME.fullmatch(title):
        what = f'"{title}" is no name of a {kind}: a letter A-Z, then letters and digits'
        better = title[:1].upper() + title[1:]
        hint = f"use --name {better}" if _NAME.fullmatch(better) else "use --name"
        raise PolicySchedError(f"{what}; {hint}")
    if "'" in folder or "\n" in folder or "'" in package or "\n" in package:
        raise PolicySchedError(
            "quotes and line breaks in DIR or --package have no place in a CI job"
        )
    package = package or _installed_from() or WHEEL
    if Path(folder).exists() and not Path(folder).is_dir():
        raise PolicySchedError(f"{folder} is a file; DIR is the directory of a {kind}")
    new = _plugin(Path(folder), title) if plugin else _policy(Path(folder), title)
    there = [str(path) for path in new if os.path.lexists(path)]
    if there:
        raise PolicySchedError(f"{', '.join(there)}: exists already; nothing was written")
    for path, text in new.items():
        _write(path, text)
    quoted = quote(folder)
    if ci != "none":
        posix = Path(folder).as_posix()
        install = f"'{package}'" + (f" '{_installable(posix)}'" if plugin else "")
        job = _template(f"{ci}.yaml", install=install, folder=posix)
        _write_job(_JOBS[ci], job, posix, package)
    install = f"pip install -e {quote(_installable(folder))} && " if plugin else ""
    print(f"next: {install}policy-sched check {quoted} && policy-sched test {quoted}")
    return OK


def _policy(folder: Path, name: str) -> dict[Path, str]:
    """Return the files of a policy."""
    return {
        folder / "policy.yaml": _template("policy.yaml", name=name),
        folder / "tests.yaml": _template("tests.yaml"),
    }


def _plugin(folder: Path, name: str) -> dict[Path, str]:
    """Return the files of a plugin: a package whose entry point names the class ``name``."""
    module = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    values = {"name": name, "module": module}
    return {
        folder / "pyproject.toml": _template("plugin.toml.in", **values),
        folder / f"{module}.py": _template("plugin.py.in", **values),
        folder / "tests.yaml": _template("plugin-tests.yaml", **values),
    }


def _write(path: Path, text: str) -> None:
    write_file(path, text.encode(), parents=True)
    print(f"wrote {path}")


def _installable(folder: str) -> str:
    """Return a directory as pip takes it: a name without a slash would be a requirement."""
    return folder if Path(folder).is_absolute() else f"./{folder}"


def _write_job(path: Path, text: str, folder: str, package: str) -> None:
    """Write the CI job, or print what to add to the one that exists."""
    if os.path.lexists(path):
        print(f"kept {path}, which exists already; for {folder} it needs the lines")
        print("\n".join(line for line in text.splitlines() if folder in line))
        return
    _write(path, text)
    if package == WHEEL:
        print(f"the CI job installs {WHEEL}: add that file (pip wheel --no-deps), or use --package")


def _template(file: str, **values: str) -> str:
    """Return a file of ``templates/`` with its values filled in."""
    text = files(__package__).joinpath(f"templates/{file}").read_text("utf-8")
    return Template(text).substitute(values)


def _installed_from() -> str:
    """Return the address that pip installed this program from (PEP 610), or ""."""
    try:
        text = distribution("policy-sched").read_text("direct_url.json")
    except PackageNotFoundError:
        return ""
    origin = json.loads(text) if text else {}
    url = str(origin.get("url", ""))
    if "vcs_info" in origin:
        commit = origin["vcs_info"]["commit_id"]
        return f"policy-sched @ {origin['vcs_info']['vcs']}+{url}@{commit}"
    if url.startswith("https://"):
        return f"policy-sched @ {url}"
    return ""
