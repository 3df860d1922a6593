"""YAML with positions: every value knows its place in the file.

Parsing, excerpts and escaping for reports, and writing files. It does not know what a document
means.
"""

from policy_sched.source.documents import (
    MAX_DEPTH as MAX_DEPTH,
    MAX_POLICY_BYTES as MAX_POLICY_BYTES,
    YAML_SYNTAX as YAML_SYNTAX,
    Marked as Marked,
    Path as Path,
    json_problem as json_problem,
    parse_documents as parse_documents,
    parse_text as parse_text,
    shortened as shortened,
    unprintable as unprintable,
    yaml_values as yaml_values,
)
from policy_sched.source.file import (
    UNREADABLE as UNREADABLE,
    SourceFile as SourceFile,
    Span as Span,
    decode_text as decode_text,
    diagnostic as diagnostic,
    masked as masked,
    read_text as read_text,
    xml_text as xml_text,
)
from policy_sched.source.kept_file import (
    DIRECTORY as DIRECTORY,
    KeptFile as KeptFile,
    pickled as pickled,
    unpickled as unpickled,
)
from policy_sched.source.plain import (
    LIBYAML as LIBYAML,
    MAX_LOOK as MAX_LOOK,
    PlainDocument as PlainDocument,
    PlainRecord as PlainRecord,
    plain_documents as plain_documents,
)
from policy_sched.source.reading import (
    GROUPS as GROUPS,
    MAX_BYTES as MAX_BYTES,
    is_file_of_ours as is_file_of_ours,
    is_stray_link as is_stray_link,
    leads_out as leads_out,
    read_bytes as read_bytes,
    read_stream as read_stream,
    root_of as root_of,
)
from policy_sched.source.scalars import content_end as content_end, content_start as content_start
from policy_sched.source.writing import (
    check_links as check_links,
    replacing as replacing,
    write_file as write_file,
    written_in_place as written_in_place,
)
