// Sorts tables that say so by a click on a heading. Works for content that htmx brings, too.
"use strict";
(() => {
  const numbers = /^[^\d+-]*([+-]?[\d.,]+)/;

  function key(cell) {
    const text = cell.textContent.trim(), found = numbers.exec(text);
    return [found ? Number(found[1].replaceAll(",", "")) : NaN, text];
  }

  function compare(a, b, numeric) {
    if (numeric && !(Number.isNaN(a[0]) && Number.isNaN(b[0]))) {
      if (Number.isNaN(a[0])) return -1;
      if (Number.isNaN(b[0])) return 1;
      if (a[0] !== b[0]) return a[0] - b[0];
    }
    return a[1] < b[1] ? -1 : a[1] > b[1] ? 1 : 0;
  }

  function sort(button) {
    const head = button.closest("th"), table = head.closest("table"), body = table.tBodies[0];
    const index = head.cellIndex, down = head.getAttribute("aria-sort") === "ascending";
    const numeric = head.classList.contains("number");
    const rows = [...body.rows].map((row) => [key(row.cells[index]), row]);
    rows.sort((a, b) => compare(a[0], b[0], numeric) * (down ? -1 : 1));
    body.append(...rows.map((pair) => pair[1]));
    for (const other of table.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
  }

  function prepare(root) {
    for (const head of root.querySelectorAll("table[data-sortable] thead th")) {
      if (head.querySelector("button")) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...head.childNodes);
      head.append(button);
    }
  }

  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element && event.target.closest("table[data-sortable] button.sort");
    if (button) sort(button);
  });
  document.addEventListener("DOMContentLoaded", () => prepare(document));
  if (document.readyState !== "loading") prepare(document);
  document.addEventListener("htmx:afterSettle", (event) => prepare(event.target));
})();
