"""The winner of a search as a patch: a unified diff of the policy or configuration files.

A value that a file has already is changed in place, and everything else of the file stays. A
parameter of a policy is changed in the configuration, if that sets it, else among the policy's own
params. What no file has is added to the configuration, which is then written anew, without its
comments; without a configuration there is a new file.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any, Final

import yaml
from yaml.nodes import ScalarNode

from policy_sched.experiments.reading import Loaded
from policy_sched.experiments.variants import Changes, configuration_of
from policy_sched.profiles.load import files_below, parse, read_documents
from policy_sched.profiles.models import Path
from policy_sched.source import Marked, SourceFile, content_end, content_start

NEW_FILE: Final = "scheduler-configuration.yaml"


def patch_of(loaded: Loaded, base: Changes, winner: Changes, values: Mapping[str, Any]) -> str:
    """Return the patch from the base to a winner; ``values`` are by PLUGIN or PLUGIN.NAME."""
    texts = _Texts(base)
    changed = [texts.change(target, value) for target, value in values.items()]
    if not all(changed):
        configuration = configuration_of(loaded, winner)
        if configuration is not None:
            texts.write_anew(base.config or NEW_FILE, configuration)
    return "".join(texts.patches())


class _Texts:
    """The files that decide, and what changes in them."""

    def __init__(self, changes: Changes) -> None:
        self._config = changes.config
        self._policies = [
            str(file) for path in changes.policies for file in files_below(FilePath(path))
        ]
        self._old: dict[str, str] = {}
        self._new: dict[str, str] = {}

    def change(self, target: str, value: Any) -> bool:
        """Change a value where a file has it; return whether one has."""
        plugin, _, name = target.partition(".")
        names = tuple(name.split(".")) if name else ()
        places = self._places(plugin, names)
        return any(self._replace(file, path, value) for file, path in places)

    def _places(self, plugin: str, names: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
        """Yield the files and paths that may have a value, the one that counts first."""
        for marked in self._documents(self._config) if self._config else ():
            yield from ((str(self._config), path) for path in _in_config(marked, plugin, names))
        for file in self._policies if names else ():
            for marked in self._documents(file):
                metadata = marked.value.get("metadata") if isinstance(marked.value, dict) else None
                if isinstance(metadata, dict) and metadata.get("name") == plugin:
                    yield file, ("spec", "params", *names)

    def _documents(self, file: str) -> list[Marked]:
        """Return the documents of a file as it is now, changed or not."""
        if file in self._new:
            return parse(SourceFile(file, self._new[file]))[0]
        return read_documents(FilePath(file))[0]

    def _replace(self, file: str, path: Path, value: Any) -> bool:
        for marked in self._documents(file):
            node = marked.node(path)
            if not isinstance(node, ScalarNode):
                continue
            text = marked.file.text
            self._old.setdefault(file, text)
            start, end = content_start(text, node), content_end(text, node)
            self._new[file] = text[:start] + json.dumps(value) + text[end:]
            return True
        return False

    def write_anew(self, file: str, value: Mapping[str, Any]) -> None:
        """Write a configuration anew."""
        if file not in self._old:
            same_file = self._config == file
            self._old[file] = FilePath(file).read_text(encoding="utf-8") if same_file else ""
        self._new[file] = yaml.safe_dump(dict(value), sort_keys=False, allow_unicode=True)

    def patches(self) -> Iterator[str]:
        """Yield the lines of the patch."""
        for file, new in self._new.items():
            name = os.path.relpath(file).replace(os.sep, "/")
            before = self._old[file].splitlines(keepends=True)
            old = f"a/{name}" if before else "/dev/null"
            lines = difflib.unified_diff(before, new.splitlines(keepends=True), old, f"b/{name}")
            for line in lines:
                yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _in_config(marked: Marked, plugin: str, names: tuple[str, ...]) -> Iterator[Path]:
    """Yield the paths of a plugin's argument, or of its weight, in every profile."""
    value = marked.value if isinstance(marked.value, dict) else {}
    for i, profile in enumerate(value.get("profiles") or ()):
        if names:
            for j, entry in enumerate(profile.get("pluginConfig") or ()):
                if entry.get("name") == plugin:
                    yield ("profiles", i, "pluginConfig", j, "args", *names)
            continue
        for point in ("score", "multiPoint"):
            chosen = (profile.get("plugins") or {}).get(point) or {}
            for j, entry in enumerate(chosen.get("enabled") or ()):
                if entry.get("name") == plugin and entry.get("weight") is not None:
                    yield ("profiles", i, "plugins", point, "enabled", j, "weight")
