"use strict";
// The curves, drawn from the data block of the page; without this script it has them as a picture.
(() => {
  document.querySelectorAll(".wide").forEach(amsfl.edges);
  const figure = document.querySelector("figure[data-interactive]");
  const data = JSON.parse(document.getElementById("curves").textContent);
  if (!figure || !data.series.length) return;
  const picture = figure.querySelector("img"), root = amsfl.make(figure, "div", { class: "chart" });
  picture.after(root);
  picture.hidden = true;
  amsfl.curves(root, data);
})();
