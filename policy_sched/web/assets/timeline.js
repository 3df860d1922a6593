// The slider of a timeline: the moment in words, and the cursor of every curve.
"use strict";
(() => {
  function move(slider) {
    const root = slider.closest("[data-timeline]"), at = Number(slider.value);
    const words = JSON.parse(root.querySelector(".slider script").textContent)[at];
    root.querySelector("output").textContent = words;
    slider.setAttribute("aria-valuetext", words);
    for (const plot of uPlot.sync(root.dataset.timeline).plots) {
      const left = plot.valToPos(plot.data[0][at], "x");
      plot.setCursor({ left, top: plot.bbox.height / devicePixelRatio / 2 }, false);
    }
  }
  document.addEventListener("input", (event) => { if (event.target.matches("[data-timeline] input[type=range]")) move(event.target); });
  document.addEventListener("htmx:afterSettle", () => {
    for (const slider of document.querySelectorAll("[data-timeline] input[type=range]")) if (!slider.hasAttribute("aria-valuetext")) requestAnimationFrame(() => move(slider));
  });
})();
