"""Request bodies in protobuf.

Bodies sent by client-go programs are decoded by tables of fields; unknown fields are skipped.
Responses are always JSON.
"""

from policy_sched.embedded.apiserver.protobuf import decoding as decoding
