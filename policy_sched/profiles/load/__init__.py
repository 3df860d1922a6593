"""Files become documents with positions, then models.

Directories, several documents per file, params and rule texts. Meaning is checked in later stages.
"""

from policy_sched.profiles.load.configuration import (
    LoadedConfig,
    config_from_value,
    default_config,
    load_config,
    load_config_document,
    read_config,
)
from policy_sched.profiles.load.device_selectors import DeviceSelectorText, device_selectors
from policy_sched.profiles.load.document import (
    SUFFIXES,
    WITH_SELECTORS,
    DocumentPosition,
    files_below,
    files_of_ours,
    has_device_objects,
    kind_of,
    kind_problem,
    parse,
    read_documents,
    read_source,
)
from policy_sched.profiles.load.fingerprint import (
    Fingerprint,
    changed_files,
    content_hash,
    fingerprint,
)
from policy_sched.profiles.load.params import merge_over, merge_params, too_many_params
from policy_sched.profiles.load.policies import (
    MAX_RULE_TEXT,
    TOO_MUCH_RULE_TEXT,
    LoadedPolicy,
    beyond_ceiling,
    duplicate_names,
    load_policies,
    load_policy_document,
    problems_of_config,
    read_policies,
    rule_text,
    test_problems,
    with_rule_texts,
    within_rule_text,
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
    "LoadedConfig",
    "LoadedPolicy",
    "beyond_ceiling",
    "changed_files",
    "config_from_value",
    "content_hash",
    "default_config",
    "device_selectors",
    "duplicate_names",
    "files_below",
    "files_of_ours",
    "fingerprint",
    "has_device_objects",
    "kind_of",
    "kind_problem",
    "load_config",
    "load_config_document",
    "load_policies",
    "load_policy_document",
    "merge_over",
    "merge_params",
    "parse",
    "policy_source",
    "problems_of_config",
    "read_config",
    "read_documents",
    "read_policies",
    "read_source",
    "rule_text",
    "source_with",
    "test_problems",
    "too_many_params",
    "with_rule_texts",
    "within_rule_text",
]
