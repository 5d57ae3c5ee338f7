// Alarms: what was expected and what came, with the rate of false alarms.

import { h, many, number, percent, reading, unitLink, when, whole } from "/page/dom.js";
import { listen, refresh, state } from "/page/state.js";

const kinds = { fallback: "Impossible reading", model: "The model no longer fits" };

const said = (text) => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;

function card(row) {
  const { body } = row;
  const known = kinds[body.alarm] ?? body.alarm;
  const fact = (word, ...value) => h("div", {}, h("dt", {}, word), h("dd", {}, value));
  const odd = body.departures ?? [];
  const expected = body.expected && typeof body.expected === "object"
    ? Object.entries(body.expected).sort((one, other) => other[1] - one[1]).slice(0, 6).map(([word, p]) => `${word} ${percent(p)}`).join(", ") : body.expected;
  return h("li", { class: "card alarmed" },
    h("div", { class: "heading" }, h("h2", {}, known), h("span", { class: "soft" }, when(row.at))),
    h("p", { class: "alarm-text" }, said(odd.length ? body.detail.split("; after ")[0] : body.detail)),
    h("dl", { class: "facts" },
      row.unit ? fact("Unit", h("a", { href: `${unitLink(row.unit)}?step=${row.step}` }, row.unit), `, step ${whole(row.step)}`) : fact("Unit", "the whole plant"),
      body.came !== undefined ? fact("What came", reading(body.came)) : "",
      expected !== undefined && expected !== null ? fact("What was expected", expected) : "",
      odd.map((each) => fact(`After ${each.action}`, `${each.reading} came in ${percent(each.came)} of the recent readings; expected were ${percent(each.expected)}`)),
      body.action ? fact("Action given", body.action, " (the fallback)") : "",
      body.rate ? fact("False alarms", `at most ${number(100 * body.rate, 3)} % over the life of the plant`) : ""));
}

export function alarmsView(main) {
  const list = h("ul", { class: "alarms" });
  const about = h("p", { class: "caption" });
    main.replaceChildren(h("section", { "aria-labelledby": "alarms-title" }, h("h1", { id: "alarms-title" }, "Alarms"), about, list));
  const draw = () => {
    const { plant, alarms, units } = state;
    const now = [...units.values()].filter((unit) => unit.alarm || unit.misfit).length;
    about.textContent = (plant.watch
      ? `Every reading is compared with what the model expected. If the model is right, a false alarm of this test comes with a probability of at most ${number(100 * plant.watch, 3)} % over the whole life of the plant, on average over the prior. `
      : "The test of the model is off in this plant (watch = 0). ") + "A reading that no possible model can give raises an alarm at once: the unit gets the fallback action, and nothing is learned from that step.";
    list.replaceChildren(...alarms.map(card));
    if (!alarms.length) list.append(h("li", { class: "card" }, "No alarm so far."));
    else if (now) about.append(h("strong", {}, ` ${many(now, "unit")} with an alarm now.`));
  };
  draw();
  return listen((changed) => {
    refresh();
    if (changed.all || changed.events.some((row) => row.unit !== null)) draw();
  });
}
