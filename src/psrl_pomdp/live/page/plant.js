// The plant: its units as a list of which only the part in the window is drawn.

import { beliefBar, clock, drawBelief, h, legend, many, markList, number, percent, ranked, reading, swatch, unitLink, whole } from "/page/dom.js";
import { listen, refresh, state } from "/page/state.js";

const SPARE = 6; // rows beside the window
const MOST_PRINTED = 1000;
const orders = {
  alarms: ["Alarms first", (one, other) => urgency(other) - urgency(one)],
  name: ["By name", (one, other) => one.name.localeCompare(other.name, "en", { numeric: true })],
  latest: ["Latest reading first", (one, other) => (other.at ?? "").localeCompare(one.at ?? "")],
  oldest: ["Longest silence first", (one, other) => (one.at ?? "").localeCompare(other.at ?? "")],
};
const urgency = (unit) => (unit.alarm ? 16 : 0) + (unit.misfit ? 8 : 0) + (unit.fallback ? 4 : 0) + (unit.overridden ? 2 : 0) + (unit.guarded ? 1 : 0) - (unit.present ? 0 : 32);
const memory = { search: "", order: "alarms", action: "" }; // kept while other views are shown

export function plantView(main) {
  const plant = state.plant;
  const search = h("input", { type: "search", id: "search", placeholder: "Name of a unit", value: memory.search, autocomplete: "off", spellcheck: "false" });
  const order = h("select", { id: "order" }, Object.entries(orders).map(([key, [words]]) => h("option", { value: key, selected: key === memory.order }, words)));
  const action = h("select", { id: "only" }, h("option", { value: "" }, "All units"), h("option", { value: "!", selected: memory.action === "!" }, "With a mark"),
    plant.actions.map((name, i) => h("option", { value: `a${i}`, selected: memory.action === `a${i}` }, `Action: ${name}`)));
  const facts = h("dl", { class: "facts" });
  const found = h("p", { class: "soft", id: "found", role: "status" });
  const rows = h("ul", { class: "rows", id: "units", "aria-label": "Units" });
  const head = h("div", { class: "unit-head", "aria-hidden": "true" }, ["Unit", "Belief", "Last reading", "Action", "Step"].map((word) => h("span", {}, word)));
  main.replaceChildren(
    h("section", { "aria-labelledby": "units-title" },
      h("h1", { id: "units-title" }, "Units"), facts, legend(plant.states),
      h("div", { class: "controls" }, h("label", { class: "field grow" }, "Search", search), h("label", { class: "field" }, "Show", action), h("label", { class: "field" }, "Order", order)),
      found, head, rows));

  let names = [];
  const drawn = new Map(); // the row of a unit, by name
  let printing = false;

  function select() {
    const wanted = memory.search.trim().toLowerCase();
    names = [];
    for (const unit of state.units.values()) {
      if (wanted && !unit.low.includes(wanted)) continue;
      if (memory.action === "!" && urgency(unit) <= 0) continue;
      if (memory.action[0] === "a" && unit.action !== plant.actions[Number(memory.action.slice(1))]) continue;
      names.push(unit);
    }
    names.sort(orders[memory.order][1]); // which keeps the order of units that are equal
    const all = state.units.size;
    found.textContent = names.length === all ? "" : `${whole(names.length)} of ${many(all, "unit")}`;
    if (!all) found.textContent = "No unit has sent a reading so far. The first one makes its unit: POST /v1/units/NAME/readings";
    else if (!names.length) found.textContent = `None of the ${many(all, "unit")} is like this.`;
    head.hidden = !names.length;
  }

  function show() {
    const height = rows.clientWidth ? parseFloat(getComputedStyle(rows).getPropertyValue("--row")) * parseFloat(getComputedStyle(document.documentElement).fontSize) : 56;
    rows.style.height = printing ? "auto" : `${names.length * height}px`;
    const top = rows.getBoundingClientRect().top;
    const first = printing ? 0 : Math.max(0, Math.floor(-top / height) - SPARE);
    const last = printing ? Math.min(names.length, MOST_PRINTED) : Math.min(names.length, Math.ceil((innerHeight - top) / height) + SPARE);
    const wanted = new Set();
    for (let i = first; i < last; i++) wanted.add(names[i].name);
    const held = document.activeElement?.closest?.("#units > li")?.dataset.unit;
    for (const [name, row] of drawn) {
      if (!wanted.has(name) && name !== held) {
        row.remove();
        drawn.delete(name);
      }
    }
    let before = null;
    for (let i = first; i < last; i++) {
      let row = drawn.get(names[i].name);
      if (!row) {
        row = newRow(names[i].name);
        drawn.set(names[i].name, row);
      }
      row.style.transform = printing ? "" : `translateY(${i * height}px)`;
      row.setAttribute("aria-posinset", i + 1);
      row.setAttribute("aria-setsize", names.length);
      drawRow(row, names[i]);
      // Rows are in the order of the list, for the tab key. A row that has the focus is not moved.
      if (row !== (before ? before.nextElementSibling : rows.firstElementChild) && !(row.dataset.unit === held && row.isConnected)) {
        if (before) before.after(row);
        else rows.prepend(row);
      }
      before = row;
    }
  }

  function drawFacts() {
    const alarmed = [...state.units.values()].filter((unit) => unit.alarm || unit.misfit).length;
    const away = [...state.units.values()].filter((unit) => !unit.present).length;
    const cost = state.plant.average_cost;
    const fact = (word, ...value) => h("div", {}, h("dt", {}, word), h("dd", {}, value));
    facts.replaceChildren(
      fact("Units", whole(state.units.size), away ? ` (${whole(away)} left)` : ""),
      fact("With an alarm", alarmed ? h("strong", { class: "bad-text" }, whole(alarmed)) : "none"),
      fact("Readings", whole(state.plant.readings)),
      fact("Episode", whole(state.plant.episode)),
      fact("Late steps", whole(state.plant.late_steps)),
      cost && cost.lower !== null ? fact(`Average ${state.plant.cost.kind}`, `${number(cost.lower)} to ${number(cost.upper)}${state.plant.cost.unit ? ` ${state.plant.cost.unit}` : ""}`) : "");
  }

  function all() {
    select();
    drawFacts();
    show();
  }
  search.addEventListener("input", () => { memory.search = search.value; select(); show(); });
  order.addEventListener("change", () => { memory.order = order.value; select(); show(); });
  action.addEventListener("change", () => { memory.action = action.value; select(); show(); });
  rows.addEventListener("keydown", (event) => {
    const row = event.target.closest("li");
    const place = row ? names.findIndex((unit) => unit.name === row.dataset.unit) : -1;
    const next = { ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: names.length - 1 }[event.key];
    if (place < 0 || next === undefined || next < 0 || next >= names.length) return;
    event.preventDefault();
    const height = row.offsetHeight;
    const at = rows.getBoundingClientRect().top + next * height;
    if (at < 60 || at + height > innerHeight) scrollBy(0, at - innerHeight / 2);
    show();
    drawn.get(names[next].name)?.querySelector("a").focus({ preventScroll: true });
  });
  const print = () => { printing = true; document.body.classList.add("printing"); show(); };
  const printed = () => { printing = false; document.body.classList.remove("printing"); show(); };
  addEventListener("scroll", show, { passive: true });
  addEventListener("resize", show);
  addEventListener("beforeprint", print);
  addEventListener("afterprint", printed);
  const stop = listen((changed) => {
    if (!changed.all && !changed.units.size) return;
    refresh();
    all();
  });
  all();
  return () => {
    stop();
    removeEventListener("scroll", show);
    removeEventListener("resize", show);
    removeEventListener("beforeprint", print);
    removeEventListener("afterprint", printed);
  };
}

function newRow(name) {
  const row = h("li", {},
    h("a", { href: unitLink(name) },
      h("span", { class: "who" }, h("span", { class: "unit-name" }, name), h("span", { class: "marks" })),
      h("span", { class: "what" }, beliefBar(null, []), h("span", { class: "likely" })),
      h("span", { class: "read" }), h("span", { class: "act" }), h("span", { class: "step" })));
  row.dataset.unit = name;
  return row;
}

function drawRow(row, unit) {
  const state_ = `${unit.step}|${unit.at}|${unit.action}|${unit.overridden}|${unit.present}|${unit.decision}|${unit.misfit}`;
  if (row.dataset.drawn === state_) return;
  row.dataset.drawn = state_;
  const link = row.firstElementChild;
  link.classList.toggle("alarmed", Boolean(unit.alarm || unit.misfit));
  link.classList.toggle("gone", !unit.present);
  link.querySelector(".marks").replaceChildren(...markList(unit, unit.alarm ? ["shadow", "late", "fallback"] : ["shadow", "late"]));
  const bar = link.querySelector(".belief");
  drawBelief(bar, unit.belief, state.plant.states);
  const likely = link.querySelector(".likely");
  if (unit.belief) {
    const [best, p] = ranked(unit.belief)[0];
    likely.replaceChildren(swatch(best), `${state.plant.states[best]} ${percent(p)}`);
  } else likely.textContent = "no reading yet";
  link.querySelector(".read").replaceChildren(h("span", { class: "label" }, "reading "), unit.step ? reading(unit.reading) : "–");
  link.querySelector(".act").replaceChildren(h("span", { class: "label" }, "action "), unit.action ?? "–");
  link.querySelector(".step").replaceChildren(h("span", { class: "label" }, "step "), whole(unit.step), h("small", {}, clock(unit.at)));
}
