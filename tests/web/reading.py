"""Reads a page as a reader does: headings, texts, tables; and as a browser does: its elements."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class Table:
    """A table as texts; ``title`` is its caption."""

    title: str = ""
    rows: list[list[str]] = field(default_factory=list)


class Page(HTMLParser):
    """A page: ``elements`` with their attributes, ``headings``, ``tables``, and the whole text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.headings: list[tuple[int, str]] = []
        self.tables: list[Table] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self._buffer: list[str] = []
        self.feed(html)

    @property
    def text(self) -> str:
        """Return the text that is shown."""
        return " ".join(" ".join(self.texts).split())

    @property
    def shape(self) -> list[tuple[str, list[str]]]:
        """Return the elements with the names of their attributes."""
        return [(tag, sorted(attributes)) for tag, attributes in self.elements]

    def table(self, title: str) -> Table:
        """Return the table with a caption that begins so."""
        return next(table_part for table_part in self.tables if table_part.title.startswith(title))

    def column(self, title: str, name: str) -> list[str]:
        """Return a column of a table."""
        head, *rows = self.table(title).rows
        index = head.index(name)
        return [row[index] for row in rows]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "wbr":
            return
        self.elements.append((tag, dict(attrs)))
        if tag == "table":
            self.tables.append(Table())
        elif tag == "tr":
            self.tables[-1].rows.append([])
        elif tag in ("th", "td", "caption", "h1", "h2", "h3"):
            self._buffer = []
        self._open.append(tag)

    def handle_data(self, data: str) -> None:
        if not {"script", "style", "title"} & set(self._open):
            self.texts.append(data)
            self._buffer.append(data)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass
        text = " ".join("".join(self._buffer).split())
        if tag in ("th", "td"):
            self.tables[-1].rows[-1].append(text)
        elif tag == "caption":
            self.tables[-1].title = text
        elif tag in ("h1", "h2", "h3"):
            self.headings.append((int(tag[1]), text))
