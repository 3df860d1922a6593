"""Field validation; all problems of an object are reported at once.

The counterpart of pkg/apis/*/validation.
"""

from policy_sched.embedded.apiserver.validation import checks as checks
