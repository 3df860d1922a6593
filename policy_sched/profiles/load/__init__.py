"""Files become documents with positions, then models.

Directories, several documents per file, params and rule texts. Meaning is checked in later stages.
"""

from policy_sched.profiles.load.configuration import (
    CONFIGURATION as CONFIGURATION,
    LoadedConfig as LoadedConfig,
    config_from_value as config_from_value,
    default_config as default_config,
)
from policy_sched.profiles.load.document import (
    SUFFIXES as SUFFIXES,
    WITH_SELECTORS as WITH_SELECTORS,
    DocumentPosition as DocumentPosition,
    covered as covered,
    device_objects as device_objects,
    files_below as files_below,
    files_of_ours as files_of_ours,
    kind_of as kind_of,
    locator as locator,
    parse as parse,
    read_documents as read_documents,
    with_schemas as with_schemas,
)
from policy_sched.profiles.load.fingerprint import (
    Fingerprint as Fingerprint,
    State as State,
    changed_files as changed_files,
    content_hash as content_hash,
    fingerprint as fingerprint,
    states as states,
)
from policy_sched.profiles.load.load import (
    DeviceSelectorText as DeviceSelectorText,
    Kinds as Kinds,
    LoadedDocument as LoadedDocument,
    LoadedFile as LoadedFile,
    device_selectors as device_selectors,
    load as load,
    load_config as load_config,
    load_file as load_file,
    load_policies as load_policies,
    read_config as read_config,
    read_policies as read_policies,
    rollouts_of as rollouts_of,
    selectors_in as selectors_in,
)
from policy_sched.profiles.load.policies import (
    MAX_RULE_TEXT as MAX_RULE_TEXT,
    TOO_MUCH_RULE_TEXT as TOO_MUCH_RULE_TEXT,
    LoadedPolicy as LoadedPolicy,
    beyond_ceiling as beyond_ceiling,
    duplicate_names as duplicate_names,
    enforced as enforced,
    experiment_shape as experiment_shape,
    merge_over as merge_over,
    merge_params as merge_params,
    policies_of_test as policies_of_test,
    problems_of_config as problems_of_config,
    read_experiment as read_experiment,
    read_proof as read_proof,
    read_rollout as read_rollout,
    read_test as read_test,
    rule_text as rule_text,
    too_many_params as too_many_params,
    with_rule_texts as with_rule_texts,
)
from policy_sched.profiles.load.policy_object import (
    MOST_OBJECTS as MOST_OBJECTS,
    OBJECTS as OBJECTS,
    ObjectProblem as ObjectProblem,
    Place as Place,
    PolicyObject as PolicyObject,
    cut as cut,
    paths_of as paths_of,
    problem_of as problem_of,
    read_object as read_object,
    read_objects as read_objects,
)
from policy_sched.profiles.load.policy_source import (
    LIMIT as LIMIT,
    input_kinds as input_kinds,
    policy_source as policy_source,
    source_with as source_with,
)
