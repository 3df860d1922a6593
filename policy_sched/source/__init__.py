"""YAML with positions: every value knows its place in the file.

Parsing, excerpts and escaping for reports, and writing files. It does not know what a document
means.
"""

from policy_sched.source.documents import (
    MAX_DEPTH,
    MAX_POLICY_BYTES,
    YAML_SYNTAX,
    Marked,
    Path,
    parse_documents,
    parse_text,
    shortened,
    unprintable,
)
from policy_sched.source.file import (
    UNREADABLE,
    SourceFile,
    decode_text,
    diagnostic,
    masked,
    read_text,
    xml_text,
)
from policy_sched.source.kept_file import DIRECTORY, KeptFile, pickled, unpickled
from policy_sched.source.plain import (
    LIBYAML,
    MAX_LOOK,
    PlainDocument,
    Record,
    plain_documents,
)
from policy_sched.source.reading import (
    GROUPS,
    MAX_BYTES,
    is_file_of_ours,
    is_stray_link,
    leads_out,
    read_bytes,
    read_stream,
    root_of,
)
from policy_sched.source.scalars import (
    content_end,
    content_start,
)
from policy_sched.source.writing import replacing, write_file, written_in_place

__all__ = [
    "DIRECTORY",
    "GROUPS",
    "LIBYAML",
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_LOOK",
    "MAX_POLICY_BYTES",
    "UNREADABLE",
    "YAML_SYNTAX",
    "KeptFile",
    "Marked",
    "Path",
    "PlainDocument",
    "Record",
    "SourceFile",
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
    "pickled",
    "plain_documents",
    "read_bytes",
    "read_stream",
    "read_text",
    "replacing",
    "root_of",
    "shortened",
    "unpickled",
    "unprintable",
    "write_file",
    "written_in_place",
    "xml_text",
]
