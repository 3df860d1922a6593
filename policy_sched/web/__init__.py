"""Pages: templates, styles, scripts and the view models that components take.

A page is made of components (`table`, `facts`, `bars`, `funnel`, `chart`, `cells`, `diagnostic`,
`badge`, `pager`: macros below ``templates/components``). They take the frozen view models of
this package, never objects of the domain. `document` makes one HTML file that needs no network,
`environment` and `render` make the pages of a server, which serves each `Asset` under a name that
changes with its content. A `Summary` is a whole report: the lead first, then sections.

Names and labels of clusters are hostile input: every text is escaped, and control characters and
marks that change the direction of writing are shown as escapes.
"""

from policy_sched.web.charts import Chart, Series
from policy_sched.web.components import (
    Badge,
    Bar,
    Bars,
    Cell,
    CellGroup,
    Cells,
    Column,
    Fact,
    Facts,
    Funnel,
    FunnelStep,
    Link,
    Meter,
    Pager,
    Part,
    Problem,
    Table,
    Text,
    Tone,
    Value,
)
from policy_sched.web.files import Asset, asset, served_assets
from policy_sched.web.pages import document, environment, render, report
from policy_sched.web.sections import Block, Picture, Prose, Section, Source, Summary
from policy_sched.web.text import json_for_script, visible

__all__ = [
    "Asset",
    "Badge",
    "Bar",
    "Bars",
    "Block",
    "Cell",
    "CellGroup",
    "Cells",
    "Chart",
    "Column",
    "Fact",
    "Facts",
    "Funnel",
    "FunnelStep",
    "Link",
    "Meter",
    "Pager",
    "Part",
    "Picture",
    "Problem",
    "Prose",
    "Section",
    "Series",
    "Source",
    "Summary",
    "Table",
    "Text",
    "Tone",
    "Value",
    "asset",
    "document",
    "environment",
    "json_for_script",
    "render",
    "report",
    "served_assets",
    "visible",
]
