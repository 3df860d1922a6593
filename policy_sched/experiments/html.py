"""The report of a sweep as one HTML file: figures, tables and the experiment, without a network."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from policy_sched import __version__
from policy_sched.experiments.figures import Drawn
from policy_sched.experiments.report import SweepReport
from policy_sched.experiments.results import by_variant, comparisons, values_of
from policy_sched.experiments.statistics import Significance, distribution
from policy_sched.experiments.words import named, number_text, signed, verdict_text
from policy_sched.model import counted

_PART: Final = re.compile(r"""(\bid="|href="\#|url\(\#)""")
"""What stands before the name of a part of a figure."""
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_STYLE: Final = """\
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1b1f24; background: #fff; margin: 0 auto;
  max-width: 62rem; padding: 1.5rem 1.25rem 4rem; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; }
h2 { font-size: 1.15rem; margin: 2.25rem 0 .5rem; border-bottom: 1px solid #d8dee4; }
p.facts { color: #57606a; margin: 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .25rem .75rem; text-align: left; border-bottom: 1px solid #eaeef2; }
th { color: #57606a; font-weight: 600; white-space: nowrap; }
td.n, th.n { text-align: right; white-space: nowrap; }
tr.noise td { color: #6e7781; }
td.better { color: #116329; font-weight: 600; }
td.worse { color: #a40e26; font-weight: 600; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(26rem, 1fr)); gap: 1rem; }
figure { margin: 0; border: 1px solid #eaeef2; border-radius: 6px; padding: .5rem; }
figure svg { width: 100%; height: auto; display: block; }
pre { background: #f6f8fa; padding: .75rem; overflow-x: auto; font-size: .82rem; line-height: 1.4; }
ul.failures { color: #a40e26; }
@media (max-width: 30rem) { .figures { grid-template-columns: 1fr; } }
"""


def page(report: SweepReport, drawn: Sequence[Drawn], experiment: str) -> str:
    """Return the report; ``experiment`` is the text of the experiment's file."""
    return "\n".join(_lines(report, drawn, experiment)) + "\n"


def _lines(report: SweepReport, drawn: Sequence[Drawn], experiment: str) -> Iterator[str]:
    name = escape(report.name)
    variants = by_variant(report.results)
    seeds = sorted({task.seed for task, _ in report.results})
    yield "<!DOCTYPE html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{name}</title><style>\n{_STYLE}</style></head><body>"
    yield f"<h1>{name}</h1>"
    facts = [
        counted(len(report.results), "run"),
        counted(len(variants), "variant"),
        counted(len(seeds), "seed"),
        f"policy-sched {__version__}",
    ]
    yield f'<p class="facts">{escape(" · ".join(facts))}</p>'
    yield from _failures(report)
    yield from _comparison(report)
    if drawn:
        yield '<h2>Figures</h2><div class="figures">'
        for one in drawn:
            svg = _named_apart(one.write("svg").decode().strip(), one.name)
            yield f'<figure role="img" aria-label="{escape(one.title)}">{svg}</figure>'
        yield "</div>"
    yield from _summary(report)
    yield "<h2>The experiment</h2>"
    yield f"<pre>{escape(experiment)}</pre>"
    yield "</body></html>"


def _named_apart(svg: str, name: str) -> str:
    """Return a figure whose parts have names that no other figure of the page has."""
    return _PART.sub(rf"\1{name}-", svg)


def _failures(report: SweepReport) -> Iterator[str]:
    if report.failures:
        yield '<h2>Runs without a result</h2><ul class="failures">'
        for task, why in report.failures:
            yield f"<li>{escape(f'{task.variant}, seed {task.seed}: {why}')}</li>"
        yield "</ul>"


def _comparison(report: SweepReport) -> Iterator[str]:
    found = list(comparisons(report.spec, report.results))
    if not found:
        return
    measures = {measure.name: measure for measure in report.spec.measures}
    yield f"<h2>Differences from {escape(found[0][0])}, over equal seeds</h2>"
    yield '<div class="wide"><table><tr><th>Variant</th><th>Measure</th>'
    yield '<th class="n">Mean</th><th class="n">Difference</th>'
    yield '<th class="n">95 % interval</th><th>What it says</th></tr>'
    for _, variant, name, pairs, one in found:
        interval = one.difference
        words = verdict_text(one, measures[name], pairs)
        row = "" if one.verdict is Significance.DIFFERENT else ' class="noise"'
        kind = f' class="{words}"' if words in ("better", "worse") else ""
        low, high = signed(interval.low), signed(interval.high)
        yield f"<tr{row}><td>{escape(variant)}</td><td>{escape(named(measures[name]))}</td>"
        yield f'<td class="n">{number_text(one.new)}</td>'
        yield f'<td class="n">{signed(interval.mean)}</td>'
        yield f'<td class="n">{low} .. {high}</td><td{kind}>{escape(words)}</td></tr>'
    yield "</table></div>"


def _summary(report: SweepReport) -> Iterator[str]:
    heads = ("Runs", "Mean", "Median", "25 %", "75 %")
    yield '<h2>All measures</h2><div class="wide"><table><tr><th>Variant</th><th>Measure</th>'
    yield "".join(f'<th class="n">{head}</th>' for head in heads) + "</tr>"
    for variant, runs in by_variant(report.results).items():
        for measure in report.spec.measures:
            values = values_of(runs, measure.name)
            if not values:
                continue
            one = distribution(values)
            numbers = (one.mean, one.median, one.p25, one.p75)
            cells = [str(one.count), *map(number_text, numbers)]
            yield f"<tr><td>{escape(variant)}</td><td>{escape(named(measure))}</td>"
            yield "".join(f'<td class="n">{cell}</td>' for cell in cells) + "</tr>"
    yield "</table></div>"
