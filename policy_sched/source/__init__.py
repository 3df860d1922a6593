"""YAML text with positions: every value of a document knows where it stands in its file."""

from policy_sched.source.documents import (
    MAX_POLICY_BYTES,
    YAML_SYNTAX,
    Marked,
    Path,
    parse_documents,
)
from policy_sched.source.file import UNREADABLE, SourceFile, Span, decoded, diagnostic, read_text

__all__ = [
    "MAX_POLICY_BYTES",
    "UNREADABLE",
    "YAML_SYNTAX",
    "Marked",
    "Path",
    "SourceFile",
    "Span",
    "decoded",
    "diagnostic",
    "parse_documents",
    "read_text",
]
