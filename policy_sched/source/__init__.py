"""YAML with positions: every value knows its place in the file.

Parsing, excerpts and escaping for reports. It does not know what a document means.
"""

from policy_sched.source.containment import (
    GROUPS,
    is_file_of_ours,
    is_stray_link,
    leads_out,
    root_of,
)
from policy_sched.source.documents import (
    MAX_DEPTH,
    MAX_POLICY_BYTES,
    YAML_SYNTAX,
    Marked,
    Parsed,
    Path,
    parse_documents,
    parse_text,
    shortened,
    unprintable,
)
from policy_sched.source.file import (
    UNREADABLE,
    SourceFile,
    Span,
    decode_text,
    diagnostic,
    masked,
    read_text,
)
from policy_sched.source.plain import LIBYAML, MAX_LOOK, PlainDocument, Record, plain_documents
from policy_sched.source.reading import MAX_BYTES, read_bytes, read_stream
from policy_sched.source.scalars import content_end, content_start
from policy_sched.source.xml_text import xml_text

__all__ = [
    "GROUPS",
    "LIBYAML",
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_LOOK",
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
    "content_end",
    "content_start",
    "decode_text",
    "diagnostic",
    "is_file_of_ours",
    "is_stray_link",
    "leads_out",
    "masked",
    "parse_documents",
    "parse_text",
    "plain_documents",
    "read_bytes",
    "read_stream",
    "read_text",
    "root_of",
    "shortened",
    "unprintable",
    "xml_text",
]
