// One unit: where it stands, its timeline, and the same as a table.

import { beliefBar, beliefWords, decisionLink, h, legend, markList, percent, ranked, reading, swatch, table, when, whole } from "/page/dom.js";
import { UnitHistory } from "/page/history.js";
import { overrideButton } from "/page/override.js";
import { listen, refresh, state } from "/page/state.js";
import { SIGNS, Timeline, stepWords } from "/page/timeline.js";

const MOST_ROWS = 200;

export function unitView(main, name, query) {
  const { plant } = state;
  const now = h("div", { class: "card" });
  const problem = h("p", { class: "note bad", hidden: true, role: "alert" });
  const detail = h("div", { class: "detail", "aria-live": "polite" });
  const inTable = h("div");
  const title = h("h1", { id: "unit-title" }, name);
  const lines = h("div", { class: "marks" });
  let history = new UnitHistory(name);
  let timeline = null;
  const button = (word, label, todo) => h("button", { type: "button", "aria-label": label, onclick: todo }, word);
  const tools = h("div", { class: "controls" },
    button("‹", "Earlier steps", () => timeline.move(-timeline.span / 2)), button("›", "Later steps", () => timeline.move(timeline.span / 2)),
    button("−", "Show more steps", () => timeline.zoom(1.6)), button("+", "Show fewer steps", () => timeline.zoom(0.625)),
    button("Latest", "The latest steps", () => timeline.latest()));
  const more = h("details", { class: "numbers" }, h("summary", {}, "The same as a table"), inTable);
  const place = h("div");
  main.replaceChildren(h("section", { "aria-labelledby": "unit-title" },
    h("p", { class: "crumb" }, h("a", { href: "#/" }, "All units")), h("div", { class: "heading" }, title, lines), problem, now,
    h("div", { class: "bar" }, h("h2", {}, "Timeline"), tools), legend(plant.states), place,
    h("ul", { class: "legend signs", "aria-label": "Marks" }, Object.entries({ alarm: "alarm", fallback: "fallback", override: "override", guard: "rule" })
      .map(([kind, word]) => h("li", {}, h("i", { class: `sign ${kind}`, "aria-hidden": "true" }, SIGNS[kind]), word))), detail,
    h("p", { class: "soft hint" }, "Drag to move and pinch to zoom; with keys: arrows, Page up and down, Home, End, + and −, Enter for the decision."), more));

  const drawTable = () => {
    if (!more.open || !timeline) return;
    const from = Math.max(Math.floor(timeline.from), history.first);
    const last = Math.min(Math.floor(timeline.end - 0.01), history.last);
    const first = Math.max(from, last - MOST_ROWS + 1);
    const states = plant.states.length <= 6 ? plant.states : [];
    const rows = [];
    for (let step = last; step >= first; step--) {
      const found = history.at(step);
      rows.push([[h("a", { href: decisionLink(found.decision), title: "Why" }, whole(step))], when(found.at), reading(found.reading),
        h("span", {}, found.action, found.instead ? h("small", {}, ` (not ${found.instead})`) : ""),
        ...(states.length ? states.map((_, i) => [percent(found.belief[i])]) : [beliefWords(found.belief, plant.states)]), [found.episode], h("span", { class: "marks" }, markList(found, ["shadow"]))]);
    }
    const columns = [["Step"], "Time", "Reading", "Action", ...(states.length ? states.map((word) => [`P(${word})`]) : ["Belief"]), ["Episode"], "Marks"];
    inTable.replaceChildren(h("p", { class: "soft" }, `The steps in the timeline's view, ${whole(first)} to ${whole(last)}${first > from ? "; the ones before are left out" : ""}.`), table(columns, rows, `Steps of ${name}`));
  };
  const drawDetail = () => {
    const step = timeline?.cursor ? history.at(timeline.cursor) : null;
    detail.replaceChildren(...(step ? [h("p", {}, stepWords(step, plant), " ", h("a", { href: decisionLink(step.decision) }, "Why?"))] : []));
  };
  const drawNow = () => {
    const unit = state.units.get(name);
    if (!unit) return;
    lines.replaceChildren(...markList(unit));
    const words = ranked(unit.belief ?? []).slice(0, 6).filter(([, p]) => p >= 0.005);
    const described = unit.description && typeof unit.description === "object" ? Object.entries(unit.description) : [];
    const fact = (word, ...value) => h("div", {}, h("dt", {}, word), h("dd", {}, value));
    now.classList.toggle("alarmed", Boolean(unit.alarm || unit.misfit));
    now.replaceChildren(
      unit.alarm ? h("p", { class: "alarm-text" }, h("strong", {}, "Alarm: "), unit.alarm) : "",
      unit.misfit ? h("p", { class: "alarm-text" }, h("strong", {}, "The model no longer fits "), "the readings of this unit: ", h("a", { href: "#/alarms" }, "what was expected and what came"), ".") : "",
      unit.step ? beliefBar(unit.belief, plant.states) : "",
      h("ul", { class: "legend shares" }, words.map(([each, p]) => h("li", {}, swatch(each), `${plant.states[each]} ${percent(p)}`))),
      h("dl", { class: "facts" }, fact("Step", whole(unit.step)), fact("Last reading", unit.step ? reading(unit.reading) : "–", " ", h("small", {}, when(unit.at))),
        fact(unit.shadow ? "Recommended" : unit.overridden ? "Action (an operator's)" : "Action", h("strong", {}, unit.action ?? "–")),
        described.map(([key, value]) => fact(key, typeof value === "string" ? value : JSON.stringify(value)))),
      unit.decision ? h("div", { class: "buttons" }, h("a", { class: "button main", href: decisionLink(unit.decision) }, "Why this action?"), overrideButton(unit)) : "");
  };

  let alive = true;
  const begin = async () => {
    try {
      await history.load();
      const wanted = Number(query.get("step"));
      while (wanted > 0 && wanted < history.first && history.earlier !== null) await history.load();
      if (!alive) return;
      problem.hidden = true;
      if (!history.steps.length) place.replaceChildren(h("p", { class: "soft" }, "No reading so far."));
      else {
        timeline?.close();
        timeline = new Timeline(plant, history, {
          open: (step) => { if (step) location.hash = decisionLink(step.decision); },
          moved: (what) => {
            if (what === "early") history.load().then(() => alive && timeline.draw(), () => {});
            else if (what === "cursor") drawDetail();
            else if (what === "view") drawTable();
          },
        });
        place.replaceChildren(timeline.element);
        timeline.fit();
        if (wanted > 0) timeline.choose(wanted);
      }
      main.dataset.loaded = "yes";
    } catch (error) {
      if (!alive) return;
      problem.hidden = false;
      problem.textContent = error.status === 404 ? `The plant has no unit “${name}”.` : `The history cannot be shown: ${error.message}.`;
      if (!error.status) setTimeout(() => alive && again(), 2000);
      else if (error.status !== 404) console.error(error);
    }
  };
  const again = () => {
    history = new UnitHistory(name);
    timeline?.close();
    timeline = null;
    return begin();
  };
  more.addEventListener("toggle", drawTable);
  const stop = listen((changed) => {
    if (!changed.all && !changed.units.has(name)) return;
    drawNow();
    refresh(20000);
    const unit = state.units.get(name);
    const whole_ = changed.events.filter((row) => row.unit === name).every((row) => history.take(row));
    const behind = unit && !history.loading && unit.step !== history.last;
    if (!whole_ || behind || (!timeline && history.steps.length && !history.loading)) again();
    else timeline?.draw();
    if (timeline?.cursor) drawDetail();
  });
  drawNow();
  delete main.dataset.loaded;
  begin();
  return () => {
    alive = false;
    timeline?.close();
    stop();
  };
}
