
// Tooltips and a cross-hair for the line charts. Everything that they say is in the tables, too.
(() => {
  "use strict";
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.setAttribute("aria-hidden", "true");
  tip.hidden = true;
  document.body.append(tip);

  const show = (event, lines) => {
    tip.replaceChildren(
      ...lines.map((line) => Object.assign(document.createElement("div"), { textContent: line })),
    );
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = Math.min(event.clientX + 16, document.documentElement.clientWidth - box.width - 8);
    const isLow = event.clientY + 20 + box.height > innerHeight;
    const top = isLow ? event.clientY - box.height - 14 : event.clientY + 20;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${Math.max(8, top)}px`;
  };

  for (const svg of document.querySelectorAll("svg.chart[data-top]")) {
    const points = [...svg.querySelectorAll(".point")].map((group) => ({
      x: Number(group.dataset.x),
      words: group.firstElementChild.textContent,
    }));
    if (points.length === 0) continue;
    for (const group of svg.querySelectorAll(".point")) group.firstElementChild.remove();
    const hair = document.createElementNS(svg.namespaceURI, "path");
    hair.setAttribute("class", "hair");
    svg.insertBefore(hair, svg.querySelector(".axis").nextSibling);
    const hide = () => {
      tip.hidden = true;
      hair.removeAttribute("d");
    };
    svg.addEventListener("pointermove", (event) => {
      const matrix = svg.getScreenCTM();
      if (!matrix) return;
      const x = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse()).x;
      const nearest = points.reduce((a, b) => (Math.abs(b.x - x) < Math.abs(a.x - x) ? b : a)).x;
      hair.setAttribute("d", `M${nearest} ${svg.dataset.top}V${svg.dataset.bottom}`);
      // The curves lie one over the other in reverse order.
      const near = points.filter((point) => Math.abs(point.x - nearest) < 0.5);
      show(event, near.map((point) => point.words).reverse());
    });
    svg.addEventListener("pointerleave", hide);
    svg.addEventListener("pointercancel", hide);
  }

  // Browsers that cannot open closed parts by the style sheet alone print them, too.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const part of opened) part.open = true;
  });
  addEventListener("afterprint", () => {
    for (const part of opened) part.open = false;
  });
})();
