"use strict";
// Asks for what is new and shows it. Whatever comes from the record is set as text, never as markup.
(() => {
  const { make, curves, edges } = amsfl;
  const POINTS = 400; // of a curve: more than a screen has room for
  const TROUBLES = 100; // of the last ones
  const byId = (id) => document.getElementById(id);
  let cursor = "", head = null, tracks = [], scores = [], chart = null, silent = 0;

  /** Several trials on one curve: each holds its last score until its next, from where all have one. */
  function joined(trials, key, axis) {
    const lines = trials.map((points) => points.filter((one) => key in one.scores)).filter((points) => points.length);
    if (!lines.length) return null;
    const first = Math.max(...lines.map((points) => points[0].at[axis]));
    let grid = [...new Set(lines.flat().map((one) => one.at[axis]))].filter((x) => x >= first).sort((a, b) => a - b);
    const every = Math.ceil(grid.length / POINTS);
    grid = grid.filter((_, k) => k % every === 0 || k === grid.length - 1);
    const rows = lines.map((points) => {
      let place = 0;
      return grid.map((x) => {
        while (place + 1 < points.length && points[place + 1].at[axis] <= x) place++;
        return points[place].scores[key];
      });
    });
    const over = (join) => grid.map((_, k) => join(rows.map((row) => row[k])));
    return {
      x: grid, mean: over((values) => values.reduce((sum, value) => sum + value, 0) / values.length),
      low: over((values) => Math.min(...values)), high: over((values) => Math.max(...values)),
    };
  }

  /** A property that is computed when it is looked at: of many curves a reader sees a few. */
  function once(compute) {
    let known;
    return { get: () => (known === undefined ? (known = compute()) : known) };
  }

  function drawn() {
    const series = head.series.map((one, place) => ({
      ...one, trials: tracks[place].size,
      curves: Object.fromEntries(scores.map(({ key }) => [key, Object.defineProperties({}, Object.fromEntries(
        head.axes.map((axis) => [axis.key, once(() => joined([...tracks[place].values()], key, axis.key))])))])),
    }));
    return { axes: head.axes, splits: scores, series };
  }

  function picture(again) {
    byId("figure").hidden = !scores.length;
    if (!scores.length) return;
    if (!chart || again) {
      chart?.control.end();
      const data = drawn();
      chart = { data, control: curves(byId("chart"), data, chart?.control.state) };
    } else {
      Object.assign(chart.data, drawn());
      chart.control.show();
    }
  }

  function sites(table) {
    byId("sites").hidden = false;
    byId("when").textContent = table.title;
    byId("rest").textContent = table.more;
    const has = {
      seconds: table.rows.some((row) => row.seconds !== null), planned: table.rows.some((row) => row.planned !== null),
      reason: table.rows.some((row) => row.trouble || row.why),
    };
    document.querySelectorAll("#sites [data-of]").forEach((cell) => { cell.hidden = !has[cell.dataset.of]; });
    const most = Math.max(1, ...table.rows.map((row) => row.steps ?? 0));
    const body = byId("rows");
    body.replaceChildren();
    for (const row of table.rows) {
      const line = make(body, "tr", row.trouble ? { class: "out" } : {});
      make(make(line, "th", { scope: "row" }), "span", {}, row.name);
      const bar = make(make(line, "td", { class: "steps" }), "div", { class: "bar" });
      make(bar, "i").style.width = `${(3.5 * (row.steps ?? 0)) / most}rem`;
      make(bar, "span", {}, row.steps ?? "–");
      if (has.seconds) number(line, row.seconds, " s");
      if (has.planned) number(line, row.planned, " s planned");
      make(line, "td", { "data-unit": " steps so far" }, row.total);
      if (has.reason) make(line, "td", { class: row.refused ? "text refused" : "text" }, row.trouble || row.why);
    }
  }
  function number(line, value, unit) {
    const text = value === null ? "–" : value >= 100 ? value.toFixed(0) : value.toPrecision(3);
    make(line, "td", value === null ? {} : { "data-unit": unit }, text);
  }

  function worth(table) {
    byId("worth").hidden = false;
    byId("look").textContent = table.title;
    const body = byId("added"), keys = ["points", "seconds"];
    const most = keys.map((key) => Math.max(1e-9, ...table.rows.map((row) => Math.abs(row[key]))));
    body.replaceChildren();
    for (const row of table.rows) {
      const line = make(body, "tr");
      make(make(line, "th", { scope: "row" }), "span", {}, row.name);
      keys.forEach((key, place) => {
        const bar = make(make(line, "td"), "div", { class: row[key] < 0 ? "bar harm" : "bar" });
        make(bar, "i").style.width = `${(3.5 * Math.abs(row[key])) / most[place]}rem`;
        make(bar, "span", {}, row[key].toFixed(1));
      });
    }
  }

  function trouble(refusal) {
    byId("troubles").hidden = false;
    const list = byId("trouble"), line = document.createElement("li");
    make(line, "b", {}, refusal.who);
    line.append(refusal.why);
    list.prepend(line);
    while (list.children.length > TROUBLES) list.lastChild.remove();
  }

  function take(news) {
    if (news.anew) {
      head = news.head;
      tracks = head.series.map(() => new Map());
      scores = [];
      byId("title").textContent = document.title = head.title;
      byId("facts").textContent = head.facts;
      byId("sites").hidden = byId("troubles").hidden = byId("worth").hidden = true;
      byId("trouble").replaceChildren();
    }
    cursor = news.cursor;
    for (const one of news.events) {
      if (one.trouble) { trouble(one.trouble); continue; }
      const trials = tracks[one.series];
      if (!trials.has(one.trial)) trials.set(one.trial, []);
      trials.get(one.trial).push(one);
    }
    const bounds = JSON.stringify(scores);
    scores = news.scores ?? [];
    if (news.events.length || news.anew) picture(news.anew || bounds !== JSON.stringify(scores));
    if (news.sites) sites(news.sites);
    if (news.worth) worth(news.worth);
    say(news.state.kind, news.state.say);
  }

  function say(kind, sentence) {
    const line = byId("state");
    line.dataset.kind = kind;
    if (line.textContent !== sentence) line.textContent = sentence;
  }

  async function ask() {
    let wait = 1000;
    try {
      const answer = await fetch(`news?since=${encodeURIComponent(cursor)}`, { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.statusText);
      const news = await answer.json();
      silent = 0;
      take(news);
      if (news.more) wait = 0;
      else if (document.hidden || ["finished", "diverged"].includes(news.state.kind)) wait = 5000;
    } catch (error) {
      if (++silent > 2) say("lost", "The watch command does not answer any more; this is what it said last.");
      wait = Math.min(1000 * silent, 10000);
    }
    setTimeout(ask, wait);
  }

  document.querySelectorAll(".wide").forEach(edges);
  ask();
})();
