"""A policy set as one path: policies, and perhaps the configuration that enables them."""

from __future__ import annotations

from pathlib import Path as FilePath

from policy_sched.errors import PolicySchedError
from policy_sched.profiles.document import files_below, kind_of, read_documents
from policy_sched.profiles.models import API_VERSION, KIND
from policy_sched.profiles.policy_files import PolicyFiles


def policy_set(path: str) -> PolicyFiles:
    """Return the files of a policy set: of a directory, or of one file.

    A KubeSchedulerConfiguration among them enables the policies; without one each is enabled
    after the default plugins. Raises PolicySchedError if there are several.
    """
    root = FilePath(path)
    found = [str(file) for file in files_below(root) if _is_configuration(file)]
    if len(found) > 1:
        message = f"{path} has several KubeSchedulerConfigurations: {', '.join(found)}"
        raise PolicySchedError(message)
    if found == [path]:
        return PolicyFiles(path)
    return PolicyFiles(found[0] if found else None, (path,))


def _is_configuration(file: FilePath) -> bool:
    documents, _ = read_documents(file)
    return any(kind_of(marked.value) == (API_VERSION, KIND) for marked in documents)
