// Elements, numbers and words. Texts become text nodes: nothing here reads HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

/** An element: h("p", {class: "soft"}, "text", other). */
export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
/** The same for SVG. */
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
export const byId = (id) => document.getElementById(id);

/** Say something to those who listen to the page. */
export function say(text) { byId("said").textContent = text; }

// -- numbers ------------------------------------------------------------------------------------

export function number(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (value !== 0 && (Math.abs(value) >= 1e7 || Math.abs(value) < 1e-4)) return value.toExponential(2).replace("-", "−");
  const text = Number(value.toPrecision(digits)).toLocaleString("en", { maximumSignificantDigits: digits });
  return text.replace("-", "−");
}
export const whole = (value) => (value ?? 0).toLocaleString("en");
export function percent(value) {
  if (value > 0 && value < 0.005) return "< 1 %";
  if (value < 1 && value > 0.995) return "> 99 %";
  return `${Math.round(100 * value)} %`;
}
export const many = (count, one, more = `${one}s`) => `${whole(count)} ${count === 1 ? one : more}`;

/** A reading as text: a name, a number, a list, or that it was lost. */
export function reading(value) {
  if (value === null || value === undefined) return "lost";
  if (typeof value === "number") return number(value, 5);
  if (Array.isArray(value)) return value.map((each) => (typeof each === "number" ? number(each, 4) : String(each))).join(", ");
  return typeof value === "string" ? value : JSON.stringify(value);
}

export function clock(text) {
  const time = new Date(text);
  if (!text || Number.isNaN(time.getTime())) return "";
  const today = new Date().toDateString() === time.toDateString();
  const hour = time.toLocaleTimeString("en-GB");
  return today ? hour : `${time.getFullYear()}-${String(time.getMonth() + 1).padStart(2, "0")}-${String(time.getDate()).padStart(2, "0")} ${hour}`;
}
export const when = (text) => (text ? h("time", { datetime: text, title: text }, clock(text)) : "");

/** "a", "a and b", "a, b and c". */
export function listed(items) {
  return items.length < 2 ? items.join("") : `${items.slice(0, -1).join(", ")} and ${items.at(-1)}`;
}

/** An amount of the plant's cost: "12.5 EUR". */
export const money = (value, unit, digits = 4) => `${number(value, digits)}${unit ? ` ${unit}` : ""}`;

// -- beliefs ------------------------------------------------------------------------------------

export const HUES = 8;
export const hue = (state) => `var(--s${state % HUES})`;

/** The states by probability, the largest first: [[state, p], ...]. */
export const ranked = (belief) => [...belief.entries()].sort((one, other) => other[1] - one[1] || one[0] - other[0]);

/** A belief in words: "worn 62 %, good 30 %". */
export function beliefWords(belief, states, most = 3) {
  if (!belief) return "no belief yet";
  const found = ranked(belief).filter(([, p]) => p >= 0.005);
  const words = found.slice(0, most).map(([state, p]) => `${states[state]} ${percent(p)}`);
  if (found.length > most) words.push(`${found.length - most} more`);
  return words.join(", ");
}

/** A bar whose parts are the probabilities of the states. */
export function beliefBar(belief, states) {
  const bar = h("span", { class: "belief", role: "img" });
  drawBelief(bar, belief, states);
  return bar;
}

export function drawBelief(bar, belief, states) {
  bar.setAttribute("aria-label", belief ? `Belief: ${beliefWords(belief, states, 8)}` : "no belief yet");
  const parts = [];
  let rest = 0;
  for (const [state, p] of (belief ?? []).entries()) {
    if (p < 0.012) rest += p; // too thin to be seen
    else parts.push([state, p]);
  }
  while (bar.childElementCount > parts.length + 1) bar.lastChild.remove();
  while (bar.childElementCount < parts.length + 1) bar.append(h("i"));
  parts.push([-1, rest]);
  parts.forEach(([state, p], place) => {
    const part = bar.children[place];
    part.style.flexGrow = String(p);
    part.style.background = state < 0 ? "var(--line)" : hue(state);
    part.hidden = p === 0;
  });
}

export const swatch = (state) => {
  const mark = h("i", { class: "swatch", "aria-hidden": "true" });
  mark.style.background = hue(state);
  return mark;
};

/** The names of the states with their colors. */
export function legend(states, most = 12) {
  const shown = states.slice(0, most).map((name, state) => h("li", {}, swatch(state), name));
  if (states.length > most) shown.push(h("li", { class: "soft" }, `and ${states.length - most} more`));
  return h("ul", { class: "legend", "aria-label": "Colors of the states" }, shown);
}

// -- marks --------------------------------------------------------------------------------------

/** What was special about a decision: [[kind, short word, explanation], ...]. */
export function marksOf(found) {
  const marks = [];
  if (found.alarm) marks.push(["alarm", "alarm", found.alarm]);
  if (found.misfit) marks.push(["alarm misfit", "misfit", "the model no longer fits the readings of this unit"]);
  if (found.fallback) marks.push(["fallback", "fallback", "the fallback action: nothing was learned from this step"]);
  if (found.overridden) marks.push(["override", "override", "an operator replaced the action"]);
  if (found.guarded) marks.push(["guard", "rule", "a rule of the plant changed the action"]);
  if (found.shadow) marks.push(["shadow", "shadow", "a recommendation: another controller acts"]);
  if (found.late) marks.push(["late", "late", "a new plan was due and not adopted yet"]);
  if (found.void) marks.push(["void", "void", "the log was rolled back to an earlier point"]);
  if (found.present === false) marks.push(["gone", "left", "this unit has left"]);
  return marks;
}
export const markList = (found, leave = []) =>
  marksOf(found).filter(([kind]) => !leave.includes(kind)).map(([kind, word, why]) => h("span", { class: `mark ${kind}`, title: why }, word));

export const unitLink = (name) => `#/unit/${encodeURIComponent(name)}`;
export const decisionLink = (id) => `#/decision/${encodeURIComponent(id)}`;

/** A table: names of columns, and rows of cells. A cell in brackets, [cell], is a number. */
export function table(columns, rows, caption) {
  const cell = (value, tag) => {
    const right = Array.isArray(value);
    return h(tag, { class: right ? "right" : null, scope: tag === "th" ? "col" : null }, right ? value[0] : value);
  };
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {}, h("caption", { class: "visually-hidden" }, caption),
      h("thead", {}, h("tr", {}, columns.map((column) => cell(column, "th")))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((value) => cell(value, "td")))))));
}
