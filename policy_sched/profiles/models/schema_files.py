"""Names of the shipped JSON Schema files."""

from __future__ import annotations

from typing import Final

CONFIGURATION_FILE: Final = "kubeschedulerconfiguration.schema.json"
POLICY_FILE: Final = "policy.schema.json"
TEST_FILE: Final = "policytest.schema.json"
