"""YAML text with positions: every value of a document knows where it stands in its file."""

from policy_sched.source.documents import (
    MAX_POLICY_BYTES,
    YAML_SYNTAX,
    Marked,
    Parsed,
    Path,
    parse_documents,
    parse_text,
    shortened,
)
from policy_sched.source.file import (
    UNREADABLE,
    SourceFile,
    Span,
    decode_text,
    diagnostic,
    read_text,
)
from policy_sched.source.plain import LIBYAML, PlainDocument, Record, plain_documents
from policy_sched.source.reading import read_bytes, read_stream

__all__ = [
    "LIBYAML",
    "MAX_POLICY_BYTES",
    "UNREADABLE",
    "YAML_SYNTAX",
    "Marked",
    "Parsed",
    "Path",
    "PlainDocument",
    "Record",
    "SourceFile",
    "Span",
    "decode_text",
    "diagnostic",
    "parse_documents",
    "parse_text",
    "plain_documents",
    "read_bytes",
    "read_stream",
    "read_text",
    "shortened",
]
