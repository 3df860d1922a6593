"""Pages: templates, styles, scripts and the view models that components take.

A page is made of components (`table`, `facts`, `bars`, `funnel`, `chart`, `cells`, `diagnostic`,
`badge`, `pager`: macros below ``templates/components``). They take the frozen view models of this
package, never objects of the domain. `document` makes one HTML file that needs no network.
`environment` and `render` make the pages of a server; the server serves each `Asset` under a name
with a hash of its content. A `Summary` is a whole report: the lead first, then sections.

Names and labels of clusters are hostile input: every text is escaped, and control characters and
marks that change the direction of writing are shown as escapes.
"""

from policy_sched.web.components import (
    Badge as Badge,
    Bar as Bar,
    BarPart as BarPart,
    Bars as Bars,
    Cell as Cell,
    CellGroup as CellGroup,
    Cells as Cells,
    Chart as Chart,
    Column as Column,
    DiagnosticView as DiagnosticView,
    Fact as Fact,
    Facts as Facts,
    Funnel as Funnel,
    FunnelStep as FunnelStep,
    Link as Link,
    Meter as Meter,
    Pager as Pager,
    Series as Series,
    Table as Table,
    Text as Text,
    Tone as Tone,
    Value as Value,
    json_for_script as json_for_script,
    visible as visible,
)
from policy_sched.web.pages import (
    Block as Block,
    Picture as Picture,
    Prose as Prose,
    Section as Section,
    Source as Source,
    Summary as Summary,
    asset as asset,
    document as document,
    environment as environment,
    render as render,
    report as report,
    served_assets as served_assets,
)
