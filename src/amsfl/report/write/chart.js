"use strict";
// Curves to point at, and tables that say when they are cut off, for every page of ours.
// Text from data is only ever set as text.
const amsfl = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const LEFT = 44, RIGHT = 14, TOP = 10, BOTTOM = 38;

  function make(parent, tag, attributes = {}, text = null, space = null) {
    const node = space ? document.createElementNS(space, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== null) node.textContent = text;
    parent.append(node);
    return node;
  }
  const draw = (parent, tag, attributes, text = null) => make(parent, tag, attributes, text, SVG);

  /** About `count` round numbers from low to high. */
  function ticks(low, high, count) {
    const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 2.5, 5, 10].find((part) => part * power >= rough);
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high * (1 + 1e-9); k++) found.push(k * step);
    return found.map((value) => Number(value.toPrecision(12)));
  }

  /** The last place of a rising list whose value is not above x; -1 before the first. */
  function before(list, x) {
    let low = 0, high = list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (list[middle] <= x) low = middle + 1; else high = middle;
    }
    return low - 1;
  }

  function choice(parent, title, options, chosen, changed) {
    const set = make(parent, "fieldset");
    make(set, "legend", {}, title);
    if (options.length === 1) { make(set, "span", {}, options[0].name); return; }
    if (options.length > 4) {
      const list = make(set, "select", { "aria-label": title });
      options.forEach((option) => { make(list, "option", { value: option.key }, option.name).selected = option.key === chosen; });
      list.addEventListener("change", () => changed(list.value));
      return;
    }
    options.forEach((option) => {
      const label = make(set, "label");
      const input = make(label, "input", { type: "radio", name: title, value: option.key });
      input.checked = option.key === chosen;
      input.addEventListener("change", () => changed(option.key));
      label.append(" " + option.name);
    });
  }

  /** Draws into the root; `show()` again when the data have grown, with the `state` that the reader left. */
  function curves(root, data, state = {}) {
    const known = (list, key) => list.some((one) => one.key === key) ? key : list[0].key;
    state = { at: Infinity, off: new Set(), ...state };
    state.axis = known(data.axes, state.axis);
    state.split = known(data.splits, state.split);
    root.replaceChildren();
    const controls = make(root, "div", { class: "controls" });
    const set = (name) => (value) => { state[name] = value; state.at = Infinity; show(); };
    if (data.axes.length > 1) choice(controls, "by", data.axes, state.axis, set("axis"));
    choice(controls, "on", data.splits, state.split, set("split"));
    const slider = make(root, "div", { tabindex: "0", role: "slider", "aria-label": "Place on the curves" });
    const svg = draw(slider, "svg", { "aria-hidden": "true" });
    const list = make(root, "fieldset", { class: "series", "aria-label": "Methods" });
    const rows = data.series.map((one, place) => {
      const label = make(list, "label");
      const box = make(label, "input", { type: "checkbox" });
      box.checked = true;
      box.addEventListener("change", () => {
        if (box.checked) state.off.delete(place); else state.off.add(place);
        show();
      });
      const swatch = draw(label, "svg", { viewBox: "0 0 30 12", "aria-hidden": "true" });
      draw(swatch, "path", { d: "M0 6H30", stroke: one.colour, "stroke-width": 2.5, "stroke-dasharray": dash(one), fill: "none" });
      draw(swatch, "path", { d: one.marker, transform: "translate(15 6)", fill: one.colour });
      make(label, "span", { class: "name" }, one.label);
      return { label, value: make(label, "output") };
    });
    let plot = null;

    function dash(one) {
      return one.dash.length ? one.dash.map((part) => 2 * part).join(" ") : "none";
    }
    const curveOf = (place) => data.series[place].curves[state.split]?.[state.axis] ?? null;
    const seen = () => data.series.map((_, place) => place).filter((place) => !state.off.has(place) && curveOf(place));
    const end = (places) => Math.max(...places.map((place) => curveOf(place).x.at(-1)), 0) || 1;

    function show() {
      const places = seen(), split = data.splits.find((one) => one.key === state.split);
      const width = Math.max(slider.clientWidth, 240), height = Math.min(340, Math.max(240, width * 0.5));
      const shown = places.flatMap((place) => [...curveOf(place).low, ...curveOf(place).high]).concat(split.target ?? []);
      const low = shown.reduce((one, other) => Math.min(one, other), shown[0] ?? 0);
      const high = shown.reduce((one, other) => Math.max(one, other), low + 0.02);
      const pad = (high - low) * 0.04, far = end(places);
      const bottom = Math.max(split.least ?? -Infinity, low - pad), top = Math.min(split.most ?? Infinity, high + pad);
      const x = (value) => LEFT + (value / far) * (width - LEFT - RIGHT);
      const y = (value) => height - BOTTOM - ((value - bottom) / (top - bottom)) * (height - TOP - BOTTOM);
      svg.replaceChildren();
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      svg.setAttribute("height", height);
      for (const value of ticks(bottom, top, height / 60)) {
        draw(svg, "path", { class: "rule", d: `M${LEFT} ${y(value)}H${width - RIGHT}` });
        draw(svg, "text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, String(value));
      }
      const whole = (value) => state.axis !== "rounds" || Number.isInteger(value);
      for (const value of ticks(0, far, Math.max(2, width / 110)).filter(whole)) {
        draw(svg, "path", { class: "axis", d: `M${x(value)} ${height - BOTTOM}v5` });
        draw(svg, "text", { x: x(value), y: height - BOTTOM + 18, "text-anchor": "middle" }, String(value));
      }
      draw(svg, "path", { class: "axis", d: `M${LEFT} ${height - BOTTOM}H${width - RIGHT}` });
      const axis = data.axes.find((one) => one.key === state.axis);
      draw(svg, "text", { x: (LEFT + width - RIGHT) / 2, y: height - 5, "text-anchor": "middle" }, axis.title);
      for (const kind of ["base", "target"])
        if (split[kind] != null && split[kind] > bottom && split[kind] < top) {
          draw(svg, "path", { class: kind, d: `M${LEFT} ${y(split[kind])}H${width - RIGHT}` });
          const above = y(split[kind]) - 4, fits = above > TOP + 6;
          draw(svg, "text", { class: "named", x: LEFT + 4, y: fits ? above : above + 18 }, kind === "base" ? "base rate" : "target");
        }
      for (const place of [...places].reverse()) lines(place, x, y, places.length);
      plot = { places, x, y, far, width, height, axis, cursor: draw(svg, "g", {}) };
      point();
    }

    function lines(place, x, y, among) {
      const one = data.series[place], curve = curveOf(place);
      const along = (values) => curve.x.map((value, k) => `${x(value).toFixed(1)} ${y(values[k]).toFixed(1)}`);
      if (one.trials > 1) {
        const edge = [...along(curve.high), ...along(curve.low).reverse()];
        draw(svg, "path", { d: `M${edge.join("L")}z`, fill: one.colour, "fill-opacity": 0.14 });
      }
      const path = along(curve.mean), every = Math.max(1, Math.floor(path.length / 7));
      draw(svg, "path", { d: `M${path.join("L")}`, fill: "none", stroke: one.colour, "stroke-dasharray": dash(one),
        "stroke-width": one.reference ? 3 : 2, "stroke-linejoin": "round" });
      for (let k = Math.floor((place * every) / among); k < path.length; k += every)
        draw(svg, "path", { d: one.marker, transform: `translate(${path[k]})`, fill: one.colour });
    }

    /** Values at the cursor, beside the names: they are what a reader compares. */
    function point() {
      const at = Math.min(state.at, plot.far), spoken = [];
      plot.cursor.replaceChildren();
      draw(plot.cursor, "path", { class: "cursor", d: `M${plot.x(at)} ${TOP}V${plot.height - BOTTOM}` });
      data.series.forEach((one, place) => {
        const on = plot.places.includes(place), curve = curveOf(place), k = on ? before(curve.x, at * (1 + 1e-12)) : -1;
        rows[place].label.classList.toggle("off", !on);
        rows[place].value.textContent = k < 0 ? "" : curve.mean[k].toFixed(4) + range(one, curve, k);
        if (k < 0) return;
        const ended = k === curve.x.length - 1;
        draw(plot.cursor, "circle", { cx: plot.x(ended ? curve.x[k] : at), cy: plot.y(curve.mean[k]), r: 4.5, fill: one.colour, stroke: "currentColor" });
        spoken.push(`${one.label} ${curve.mean[k].toFixed(4)}`);
      });
      const digits = plot.far >= 100 ? 0 : plot.far >= 10 ? 1 : 2;
      const here = `${at.toFixed(state.axis === "rounds" ? 0 : digits)} ${plot.axis.unit}`;
      const right = plot.x(at) > plot.width * 0.7;
      draw(plot.cursor, "text", { x: plot.x(at) + (right ? -6 : 6), y: plot.height - BOTTOM - 6, "text-anchor": right ? "end" : "start" }, here);
      slider.setAttribute("aria-valuemin", 0);
      slider.setAttribute("aria-valuemax", plot.far);
      slider.setAttribute("aria-valuenow", at);
      slider.setAttribute("aria-valuetext", `${here}: ${spoken.join(", ") || "no method shown"}`);
    }
    const range = (one, curve, k) => one.trials > 1 ? ` [${curve.low[k].toFixed(3)}, ${curve.high[k].toFixed(3)}]` : "";

    function move(at) {
      state.at = Math.max(0, Math.min(plot.far, at));
      point();
    }
    slider.addEventListener("pointermove", (event) => follow(event));
    slider.addEventListener("pointerdown", (event) => follow(event));
    slider.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") { state.at = Infinity; point(); } });
    function follow(event) {
      const box = svg.getBoundingClientRect();
      const inside = (event.clientX - box.left) * (plot.width / box.width);
      move(((inside - LEFT) / (plot.width - LEFT - RIGHT)) * plot.far);
    }
    slider.addEventListener("keydown", (event) => {
      const at = Math.min(state.at, plot.far), step = plot.far / 50;
      const to = { ArrowLeft: at - step, ArrowDown: at - step, ArrowRight: at + step, ArrowUp: at + step,
        PageDown: at - 5 * step, PageUp: at + 5 * step, Home: 0, End: plot.far }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      move(to);
    });
    const resized = new ResizeObserver(() => show());
    resized.observe(root);
    show();
    return { show, state, end: () => resized.disconnect() };
  }

  /** Which sides of a table there is more of. */
  function edges(box) {
    const mark = () => {
      box.classList.toggle("left", box.scrollLeft > 1);
      box.classList.toggle("right", box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
    };
    box.addEventListener("scroll", mark, { passive: true });
    new ResizeObserver(mark).observe(box);
    mark();
  }

  return { make, draw, curves, edges };
})();
