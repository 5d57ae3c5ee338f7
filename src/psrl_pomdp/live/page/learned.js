// What was learned: the average cost over the episodes, and each unknown row beside its prior.

import { h, hue, many, number, percent, s, table, whole } from "/page/dom.js";
import { listen, refresh, state } from "/page/state.js";

const FEW = 60; // rows that are shown at first
const memory = { action: "", order: "narrowed", most: FEW };

export function learnedView(main) {
  const summary = h("dl", { class: "facts" });
  const costs = h("div");
  const rows = h("div");
  const action = h("select", { id: "row-action" });
  const order = h("select", { id: "row-order" }, Object.entries({ narrowed: "Most learned first", wide: "Least certain first", given: "As in the model" })
    .map(([key, words]) => h("option", { value: key, selected: key === memory.order }, words)));
  const { plant } = state;
  action.append(h("option", { value: "" }, "All actions"), ...plant.actions.map((word, i) => h("option", { value: String(i), selected: memory.action === String(i) }, word)));
  const word = plant.cost.kind === "reward" ? "reward" : "cost";
  main.replaceChildren(
    h("section", { "aria-labelledby": "learned-title" }, h("h1", { id: "learned-title" }, "What was learned"), summary,
      h("div", { class: "card" }, h("h2", {}, `The average ${word}`), costs),
      h("div", { class: "card" }, h("div", { class: "bar" }, h("h2", {}, "The dynamics"), h("div", { class: "controls" }, h("label", { class: "field" }, "Show", action), h("label", { class: "field" }, "Order", order))), rows)));
  const draw = () => {
    drawSummary(summary, word);
    drawCosts(costs, word);
    drawRows(rows, () => draw());
  };
  action.addEventListener("change", () => { memory.action = action.value; memory.most = FEW; draw(); });
  order.addEventListener("change", () => { memory.order = order.value; draw(); });
  draw();
  const resized = () => drawCosts(costs, word);
  addEventListener("resize", resized);
  const stop = listen((changed) => {
    refresh();
    if (changed.all) draw();
  });
  return () => {
    stop();
    removeEventListener("resize", resized);
  };
}

function drawSummary(place, word) {
  const { plant } = state;
  const fact = (title, ...value) => h("div", {}, h("dt", {}, title), h("dd", {}, value));
  const table_ = plant.cost.by_action_and_state.flat();
  const range = Math.max(...table_) - Math.min(...table_);
  place.replaceChildren(fact("Readings", whole(plant.readings)), fact("Units", whole(state.units.size)), fact("Episodes", whole(plant.episode)), fact("Late steps", whole(plant.late_steps)),
    plant.late_steps ? fact("What they add to the regret", `at most ${number(plant.late_steps * range, 3)}`, h("small", {}, ` (their number times the range of the ${word}${plant.cost.unit ? `, ${plant.cost.unit}` : ""})`)) : "");
}

// -- the average cost over the episodes ---------------------------------------------------------

const WINDOW = 10; // episodes whose sampled models make a band
const FEW_SAMPLES = 5; // fewer make none

/** For each episode, the range of the last few intervals. */
export function bands(episodes) {
  return episodes.map((_, i) => {
    const last = episodes.slice(Math.max(0, i - WINDOW + 1), i + 1);
    return { lower: Math.min(...last.map((each) => each.lower)), upper: Math.max(...last.map((each) => each.upper)) };
  });
}

function drawCosts(place, word) {
  const { plant } = state;
  const unit = plant.cost.unit ? ` ${plant.cost.unit}` : " a step";
  const found = plant.episodes.filter((each) => Number.isFinite(each.lower) && Number.isFinite(each.upper));
  if (!found.length) {
    place.replaceChildren(h("p", { class: "soft" }, plant.readings ? "The episodes have no certified intervals so far." : "No episode has begun so far."));
    return;
  }
  const band = bands(found);
  const width = Math.max(place.clientWidth, 260), height = 220, left = 58, right = width - 8, top = 10, bottom = height - 34;
  let [low, high] = [Math.min(...found.map((each) => each.lower)), Math.max(...found.map((each) => each.upper))];
  const margin = Math.max((high - low) * 0.08, 1e-9 + Math.abs(high) * 1e-3);
  [low, high] = [low - margin, high + margin];
  const step = (right - left) / found.length;
  const x = (i) => left + (i + 0.5) * step;
  const y = (value) => top + ((high - value) / (high - low)) * (bottom - top);
  const parts = [];
  for (const value of ticks(low, high, 4)) {
    parts.push(s("line", { class: "grid", x1: left, x2: right, y1: y(value), y2: y(value) }), s("text", { class: "row", x: left - 6, y: y(value) + 4, "text-anchor": "end" }, number(value, 3)));
  }
  const line = (value) => band.map((each, i) => [each, i]).slice(FEW_SAMPLES - 1).map(([each, i]) => `${x(i).toFixed(1)} ${y(value(each)).toFixed(1)}`);
  if (found.length > FEW_SAMPLES) parts.push(s("path", { class: "band", d: `M${[...line((each) => each.upper), ...line((each) => each.lower).reverse()].join("L")}z` }));
  found.forEach((each, i) => {
    parts.push(s("line", { class: "interval", x1: x(i), x2: x(i), y1: y(each.upper) - 1, y2: y(each.lower) + 1, "stroke-width": Math.max(2, Math.min(9, step * 0.35)) }, s("title", {}, `episode ${each.episode}: ${number(each.lower)} to ${number(each.upper)}`)));
  });
  const every = Math.max(1, Math.ceil(found.length / Math.max(2, Math.floor((right - left) / 70))));
  found.forEach((each, i) => { if (i % every === 0) parts.push(s("text", { class: "row", x: x(i), y: bottom + 16, "text-anchor": "middle" }, each.episode)); });
  parts.push(s("line", { class: "frame", x1: left, x2: right, y1: bottom, y2: bottom }), s("text", { class: "row", x: right, y: height - 2, "text-anchor": "end" }, "episode"));
  const [begun, now] = [band[Math.min(WINDOW, band.length) - 1], band.at(-1)];
  const open = place.querySelector("details")?.open ?? false;
  const words = found.length > WINDOW
    ? `The sampled models of episodes ${found[0].episode} to ${found[WINDOW - 1].episode} put it between ${number(begun.lower)} and ${number(begun.upper)}, those of the last ${WINDOW} episodes between ${number(now.lower)} and ${number(now.upper)}${unit}.`
    : `The sampled models of the ${many(found.length, "episode")} so far put it between ${number(now.lower)} and ${number(now.upper)}${unit}.`;
  place.replaceChildren(h("p", {}, words),
    s("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `The optimal average ${word} over the episodes. ${words}` }, parts),
    h("p", { class: "soft" }, `Each bar is the certified interval of the optimal average ${word} of the model that was sampled in that episode. A sampled model is a draw from the posterior of its time, so that the band, the range of the last ${WINDOW} bars, narrows as the plant is learned.`),
    h("details", { class: "numbers", open }, h("summary", {}, "The same as a table"),
      table([["Episode"], ["Began at t"], ["Steps"], "Ended by", ["Lower end"], ["Upper end"]], [...found].reverse().map((each) => [[each.episode], [whole(each.start)], [whole(each.length)], each.ended ?? "", [number(each.lower)], [number(each.upper)]]), "Episodes")));
}

/** About so many round numbers in a range. */
function ticks(low, high, wanted) {
  const base = 10 ** Math.floor(Math.log10((high - low) / wanted));
  const size = [1, 2, 5, 10].map((factor) => factor * base).find((each) => (high - low) / each <= wanted + 1);
  const found = [];
  for (let i = Math.ceil(low / size); i * size <= high; i++) found.push(Number((i * size).toPrecision(12)));
  return found;
}

// -- rows of the dynamics -----------------------------------------------------------------------

function drawRows(place, again) {
  const { plant } = state;
  const learned = plant.rows;
  if (!learned || !learned.rows.length) {
    place.replaceChildren(h("p", { class: "soft" }, learned ? "All rows of the dynamics are known." : "This plant does not tell its rows: they are too many, or its posterior has none."));
    return;
  }
  const wanted = memory.action === "" ? null : plant.actions[Number(memory.action)];
  const entries = [];
  for (const row of learned.rows) {
    if (wanted !== null && row.action !== wanted) continue;
    row.next.forEach((next, i) => {
      const now = { mean: row.posterior.mean[i], lower: row.posterior.lower[i], upper: row.posterior.upper[i] };
      const prior = row.prior && { mean: row.prior.mean[i], lower: row.prior.lower[i], upper: row.prior.upper[i] };
      entries.push({ action: row.action, from: row.state, next, now, prior, visits: row.visits, width: now.upper - now.lower, gain: prior ? prior.upper - prior.lower - (now.upper - now.lower) : 0 });
    });
  }
  if (memory.order === "narrowed") entries.sort((one, other) => other.gain - one.gain);
  else if (memory.order === "wide") entries.sort((one, other) => other.width - one.width);
  const interval = (found) => (found ? `${number(found.mean, 3)} [${number(found.lower, 2)}, ${number(found.upper, 2)}]` : "–");
  const shown = entries.slice(0, memory.most).map((each) => h("tr", {},
    h("th", { scope: "row" }, h("span", { class: "soft" }, `${each.action}: `), `${each.from} → ${each.next}`),
    h("td", { class: "picture" }, picture(each, plant.states.indexOf(each.next))),
    h("td", { "data-label": "Now" }, interval(each.now)), h("td", { "data-label": "Prior" }, interval(each.prior)), h("td", { class: "right", "data-label": "Visits" }, each.visits === undefined ? "–" : number(each.visits, 3))));
  place.replaceChildren(
    h("p", { class: "soft" }, `Each line is a probability of the next state. The wide pale bar is its ${percent(learned.level)} interval before any data, the narrow dark one the interval now, and the dot the mean now.`),
    h("table", { class: "learned" }, h("caption", { class: "visually-hidden" }, "Rows of the dynamics, now and before any data"),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Action: from → to"), h("th", { scope: "col" }, h("span", { class: "scale" }, h("span", {}, "0"), h("span", {}, "1"))), h("th", { scope: "col" }, "Mean and interval now"), h("th", { scope: "col" }, "Prior"), h("th", { scope: "col", class: "right" }, "Visits"))),
      h("tbody", {}, shown)),
    entries.length > shown.length ? h("button", { type: "button", onclick: () => { memory.most += 200; again(); } }, `Show more of ${many(entries.length, "line")}`) : "");
}

function picture({ now, prior }, state_) {
  const bar = (found, kind, y, height) => s("rect", { class: kind, x: 200 * found.lower, y, width: Math.max(200 * (found.upper - found.lower), 1.5), height, rx: 1.5 });
  const found = s("svg", { viewBox: "-4 0 208 20", preserveAspectRatio: "none", "aria-hidden": "true" }, s("rect", { class: "rail", x: 0, y: 9.5, width: 200, height: 1 }),
    prior ? bar(prior, "prior", 3, 14) : "", bar(now, "posterior", 7, 6), s("circle", { class: "mean", cx: 200 * now.mean, cy: 10, r: 3.6 }));
  found.style.color = hue(Math.max(state_, 0));
  return found;
}
