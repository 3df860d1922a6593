// Puts an interactive chart in the place of each still picture of curves. Runs again for content that htmx brings.
"use strict";
(() => {
  const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600, 2419200, 4838400, 9676800, 31536000];
  const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000, 1000000];
  const UNITS = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];
  const HEIGHT = 240;
  const drawn = new Map();

  function seconds(value) {
    let left = Math.round(value);
    const parts = [];
    for (const [unit, size] of UNITS) {
      const count = Math.floor(left / size);
      left -= count * size;
      if (count) parts.push(count + unit);
    }
    return parts.slice(0, 2).join("") || "0s";
  }

  function number(value) {
    if (value === null || value === undefined) return "–";
    if (Math.abs(value) >= 1000 || Number.isInteger(value)) return Math.round(value).toLocaleString("en-US");
    return String(Number(value.toPrecision(4)));
  }

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function options(data, width) {
    const ink = colour("--dim"), line = colour("--line");
    const axis = { stroke: ink, font: "12px system-ui, sans-serif", grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1, size: 4 } };
    const label = data.kind === "duration" ? seconds : number;
    const x = Object.assign({}, axis, { values: (_, splits) => splits.map(label), space: 70 });
    if (data.kind === "duration") x.incrs = SECONDS;
    const amount = data.unit === "s" ? seconds : number;
    const y = Object.assign({}, axis, { values: (_, splits) => splits.map(amount), size: 60 });
    if (data.unit === "s") y.incrs = SECONDS;
    else if (data.whole) y.incrs = WHOLE;
    const paths = data.stepped ? uPlot.paths.stepped({ align: 1 }) : uPlot.paths.linear();
    const series = data.series.map((one, index) => ({
      label: one.name, stroke: colour("--c" + (index % 8)), width: 2, paths, points: { show: !data.stepped && one.values.filter((value) => value !== null).length < 60, size: 5 },
      value: (_, value) => value === null || value === undefined ? "–" : data.unit === "s" ? seconds(value) : number(value) + (data.unit ? " " + data.unit : ""),
    }));
    const bands = [];
    data.series.forEach((one, index) => {
      if (!one.low) return;
      bands.push({ series: [data.series.length + 1 + 2 * bands.length, data.series.length + 2 + 2 * bands.length], fill: colour("--c" + (index % 8)) + "2e" });
      for (let i = 0; i < 2; i++) series.push({ label: one.name, width: 0, stroke: "transparent", paths, points: { show: false }, class: "band" });
    });
    return {
      width, height: HEIGHT, bands,
      scales: { x: { time: false }, y: { range: (_, low, high) => uPlot.rangeNum(Math.min(0, low || 0), Math.max(high || 0, data.high) || 1, { min: { pad: 0, soft: 0, mode: 1 }, max: { pad: 0.05, soft: data.high || 0, mode: 1 } }) } },
      axes: [x, y],
      series: [{ label: data.xName, value: (_, value) => value === null || value === undefined ? "–" : label(value) }, ...series],
      cursor: { drag: { x: true, y: false }, sync: { key: data.xName, setSeries: false } },
    };
  }

  function draw(figure) {
    const script = figure.querySelector('script[type="application/json"]');
    if (!script) return;
    const data = JSON.parse(script.textContent);
    if (data.x.length < 2) return;
    const old = drawn.get(figure);
    if (old) { old.plot.destroy(); old.place.remove(); }
    const place = document.createElement("div");
    place.className = "live";
    place.setAttribute("role", "img");
    place.setAttribute("aria-label", data.title + ": values are in the table below");
    script.before(place);
    figure.classList.add("drawn");
    const plot = new uPlot(options(data, Math.max(200, figure.clientWidth)), [data.x, ...data.series.map((one) => one.values), ...data.series.flatMap((one) => one.low ? [one.high, one.low] : [])], place);
    drawn.set(figure, { plot, place });
    wide.observe(figure);
  }

  const wide = new ResizeObserver((entries) => {
    for (const entry of entries) {
      const found = drawn.get(entry.target), width = Math.max(200, Math.floor(entry.contentRect.width));
      if (found && width !== found.plot.width) found.plot.setSize({ width, height: HEIGHT });
    }
  });

  function all(root) {
    for (const figure of drawn.keys()) if (!figure.isConnected) { wide.unobserve(figure); drawn.get(figure).plot.destroy(); drawn.delete(figure); }
    const found = [...root.querySelectorAll("figure[data-chart]")];
    if (root.matches && root.matches("figure[data-chart]")) found.push(root);
    found.forEach(draw);
  }

  function again() { [...drawn.keys()].forEach(draw); }

  document.addEventListener("DOMContentLoaded", () => all(document));
  if (document.readyState !== "loading") all(document);
  document.addEventListener("htmx:afterSettle", (event) => all(event.target));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
})();
