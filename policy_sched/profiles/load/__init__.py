"""Files become documents with positions, then models.

Directories, several documents per file, params and rule texts. Meaning is checked in later stages.
"""

from policy_sched.profiles.load.configuration import (
    LoadedConfig,
    config_from_value,
    default_config,
)
from policy_sched.profiles.load.device_selectors import DeviceSelectorText, device_selectors
from policy_sched.profiles.load.document import (
    SUFFIXES,
    WITH_SELECTORS,
    DocumentPosition,
    files_below,
    files_of_ours,
    kind_of,
    locator,
    parse,
    read_documents,
)
from policy_sched.profiles.load.fingerprint import (
    Fingerprint,
    changed_files,
    content_hash,
    fingerprint,
)
from policy_sched.profiles.load.load import (
    Kinds,
    LoadedDocument,
    LoadedFile,
    load,
    load_config,
    load_file,
    load_policies,
    read_config,
    read_policies,
)
from policy_sched.profiles.load.params import merge_over, merge_params, too_many_params
from policy_sched.profiles.load.policies import (
    MAX_RULE_TEXT,
    TOO_MUCH_RULE_TEXT,
    LoadedPolicy,
    beyond_ceiling,
    duplicate_names,
    experiment_shape,
    problems_of_config,
    read_experiment,
    rule_text,
    with_rule_texts,
)
from policy_sched.profiles.load.policy_source import LIMIT, policy_source, source_with

__all__ = [
    "LIMIT",
    "MAX_RULE_TEXT",
    "SUFFIXES",
    "TOO_MUCH_RULE_TEXT",
    "WITH_SELECTORS",
    "DeviceSelectorText",
    "DocumentPosition",
    "Fingerprint",
    "Kinds",
    "LoadedConfig",
    "LoadedDocument",
    "LoadedFile",
    "LoadedPolicy",
    "beyond_ceiling",
    "changed_files",
    "config_from_value",
    "content_hash",
    "default_config",
    "device_selectors",
    "duplicate_names",
    "experiment_shape",
    "files_below",
    "files_of_ours",
    "fingerprint",
    "kind_of",
    "load",
    "load_config",
    "load_file",
    "load_policies",
    "locator",
    "merge_over",
    "merge_params",
    "parse",
    "policy_source",
    "problems_of_config",
    "read_config",
    "read_documents",
    "read_experiment",
    "read_policies",
    "rule_text",
    "source_with",
    "too_many_params",
    "with_rule_texts",
]
