// Why: one decision in words, with what it was made from.

import { ask } from "/page/api.js";
import { beliefBar, clock, decisionLink, h, listed, markList, money, number, percent, ranked, reading, swatch, table, unitLink, when, whole } from "/page/dom.js";
import { overrideButton } from "/page/override.js";
import { listen, state } from "/page/state.js";

const strong = (word) => h("strong", {}, word);

/** The decision as sentences: lists of texts and elements. */
export function sentences(found, plant) {
  const { why, states, actions, unit_of_cost: unit } = found;
  const gain = plant.cost.kind === "reward";
  const given = actions.indexOf(found.action);
  const policy = found.policy_action ?? found.action;
  const picked = actions.indexOf(policy);
  const said = [];
  const lost = found.reading === null || found.reading === undefined;
  if (!why.text) said.push([`At step ${whole(found.step)}, `, strong(found.unit), lost ? " sent no reading: it was lost." : [" read ", strong(reading(found.reading)), "."]]);
  const likely = ranked(why.belief).filter(([, p]) => p >= 0.05).slice(0, 3);
  if (why.text) said.push([why.text]);
  else if (likely.length) said.push(["From all readings so far, its state is ", listed(likely.map(([state_, p]) => `${states[state_]} with ${percent(p)}`)), "."]);
  if (found.fallback) {
    said.push([found.alarm ? `${sentence(found.alarm)} ` : "", "So the fallback action ", strong(found.action), " was given, and nothing was learned from this reading."]);
  } else {
    const verb = found.shadow ? "recommends " : "chose ";
    if (why.text) {
      // The sentences of the service say it already.
    } else if (why.advantages) {
      const own = why.sampled_belief ? ranked(why.sampled_belief).filter(([, p]) => p >= 0.05).slice(0, 3) : [];
      const apart = own.length && Math.max(...why.belief.map((p, i) => Math.abs(p - why.sampled_belief[i]))) > 0.1;
      said.push([`The policy of episode ${whole(found.episode)} `, verb, strong(policy), ". It is made for one sampled model, a draw from those that are still possible",
        apart ? [", under which the state is ", listed(own.map(([state_, p]) => `${states[state_]} with ${percent(p)}`)), " and "] : ". There ", strong(policy), costNow(why.costs[picked], unit, gain), "."]);
    } else said.push([`Before the first plan, the action that ${gain ? "brings most" : "costs least"} now is taken: `, strong(policy), costNow(why.costs[picked], unit, gain), "."]);
    const others = (why.text ? [] : why.advantages ?? []).map((value, i) => [i, value]).filter(([i, value]) => i !== picked && value !== null).sort((one, other) => one[1] - other[1]);
    if (others.length) {
      const words = others.slice(0, 2).map(([i, value]) => [strong(actions[i]), ` would ${gain ? "bring" : "cost"} `, value < 1e-9 ? "as much" : `${money(value, unit, 3)} ${gain ? "less" : "more"}`]);
      said.push(["In the long run, ", words.length > 1 ? [words[0], " and ", words[1]] : words, "."]);
    }
    if (found.policy_action && found.action !== policy) said.push([found.guards.length > 1 ? "The rules " : "The rule ", listed(found.guards.map((rule) => `“${rule}”`)), found.guards.length > 1 ? " forbid it" : " forbids it", ", so ", strong(actions[given]), " was given."]);
  }
  if (found.shadow) said.push(["In shadow mode another controller acts, and this is a recommendation."]);
  for (const each of found.overrides) {
    said.push([strong(each.by || each.who || "An operator"), " replaced it by ", strong(typeof each.action === "number" ? actions[each.action] : each.action), ` at ${clock(each.at)}`, each.why ? `: “${each.why}”` : "", "."]);
  }
  if (found.late) said.push(["A new plan was due and not adopted yet, so this step counts as late."]);
  if (found.void) said.push(["The log was rolled back to a point before this step: it counts no more."]);
  return said;
}
const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
const costNow = (value, unit, gain) => (value === null || value === undefined ? "" : ` ${gain ? "brings" : "costs"} ${money(value, unit, 3)} at this step`);

export function decisionView(main, id) {
  const problem = h("p", { class: "note bad", hidden: true, role: "alert" });
  const inside = h("div");
  main.replaceChildren(h("section", { "aria-labelledby": "decision-title" }, h("p", { class: "crumb", id: "crumb" }, h("a", { href: "#/" }, "All units")), inside, problem));
  let alive = true;
  let unit = null;
  delete main.dataset.loaded;
  const begin = async () => {
    try {
      const found = await ask(`/v1/decisions/${encodeURIComponent(id)}`);
      if (!alive) return;
      unit = found.unit;
      problem.hidden = true;
      draw(inside, found);
      main.dataset.loaded = "yes";
    } catch (error) {
      if (!alive) return;
      problem.hidden = false;
      problem.textContent = error.status === 404 ? `There is no decision “${id}”.` : `The decision cannot be shown: ${error.message}.`;
      if (!error.status) setTimeout(() => alive && begin(), 2000);
      else if (error.status !== 404) console.error(error);
    }
  };
  const stop = listen((changed) => {
    if (changed.events.some((row) => row.unit === unit && (row.kind === "override" || row.kind === "reading"))) begin();
  });
  begin();
  return () => {
    alive = false;
    stop();
  };
}

function draw(place, found) {
  const { plant } = state;
  const { why, states, actions, unit_of_cost: cost } = found;
  const marks = { ...found, guarded: found.guards.length > 0, overridden: found.overrides.length > 0 };
  const now = state.units.get(found.unit);
  const isLast = now?.decision === found.decision;
  const done = found.overrides.length ? found.overrides.at(-1).action : found.action;
  const doneNumber = typeof done === "number" ? done : actions.indexOf(done);
  const forbidden = new Set(Object.values(why.forbidden ?? {}).flat());
  const best = actions.indexOf(found.policy_action ?? found.action);
  const rows = actions.map((name, i) => [
    h("span", {}, i === doneNumber ? strong(name) : name, " ", h("span", { class: "marks" },
      i === best && !found.fallback ? h("span", { class: "mark plain" }, "policy") : "", i === doneNumber ? h("span", { class: "mark plain" }, found.shadow && !found.overrides.length ? "recommended" : "given") : "",
      forbidden.has(i) ? h("span", { class: "mark guard" }, "forbidden") : "")),
    [number(why.costs[i])], [number(why.advantages?.[i])]]);
  const gain = plant.cost.kind === "reward";
  const title = cost ? ` (${cost})` : "";
  const bounds = found.sampled_model && found.sampled_model.lower !== null ? [found.sampled_model.lower, found.sampled_model.upper] : null;
  const order = ranked(why.belief).filter(([, p], i) => p >= 0.0005 || i < 3).slice(0, 20);
  const other = why.sampled_belief?.length === states.length ? why.sampled_belief : null;
  const beliefs = order.map(([i, p]) => [h("span", { class: "keyed" }, swatch(i), states[i]), [percent(p)], ...(other ? [[percent(other[i])]] : [])]);
  const fact = (word, ...value) => h("div", {}, h("dt", {}, word), h("dd", {}, value));
  place.replaceChildren(
    h("div", { class: "heading" }, h("h1", { id: "decision-title" }, `Why ${found.action}?`), h("div", { class: "marks" }, markList(marks))),
    h("p", { class: "soft" }, "Decision ", found.decision, " for ", h("a", { href: `${unitLink(found.unit)}?step=${found.step}` }, found.unit), `, step ${whole(found.step)}, `, when(found.at), isLast ? "" : " · not the latest of this unit"),
    h("p", { class: "verdict" }, sentences(found, plant).map((words) => [words, " "])),
    isLast ? h("div", { class: "buttons" }, overrideButton({ ...now, action: typeof done === "number" ? actions[done] : done })) : "",
    h("div", { class: "pair" },
      h("div", { class: "card" }, h("h2", {}, "The actions"),
        table(["Action", [`${gain ? "Reward" : "Cost"} now${title}`], [`In the long run${title}`]], rows, "Actions with their costs"),
        h("p", { class: "soft" }, `Both under the sampled model and its belief. Now: what the step itself ${gain ? "brings" : "costs"} on average. In the long run: how much ${gain ? "less it brings" : "more it costs"} than the policy's action, if the policy is followed afterwards.`)),
      h("div", { class: "card" }, h("h2", {}, "The belief"), beliefBar(why.belief, states),
        table(["State", ["Probability"], ...(other ? [["Under the sampled model"]] : [])], beliefs, "Probabilities of the states"))),
    h("div", { class: "card" }, h("h2", {}, "The plan"),
      h("p", {}, bounds ? ["It is proved that the optimal average ", gain ? "reward" : "cost", ` of the model of episode ${whole(found.sampled_model.episode)} is between `, strong(number(bounds[0])), " and ", strong(money(bounds[1], cost)), cost ? "." : " a step."] : "No interval was certified for the plan of this step."),
      h("dl", { class: "facts" }, fact("Episode", whole(found.episode)), found.sampled_model?.ended ? fact("The one before ended by", found.sampled_model.ended) : "",
        found.guards.length ? fact("Rules that changed the action", listed(found.guards)) : "", fact("Hash of the row", h("code", {}, found.hash.slice(0, 16), "…")))));
  const crumb = place.previousElementSibling;
  crumb.replaceChildren(h("a", { href: "#/" }, "All units"), " › ", h("a", { href: unitLink(found.unit) }, found.unit),
    ...(isLast || !now?.decision ? [] : [" · ", h("a", { href: decisionLink(now.decision) }, "the latest decision")]));
}
