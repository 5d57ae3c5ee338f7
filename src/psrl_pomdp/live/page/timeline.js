// A timeline of the steps of a unit: belief, readings, actions, episodes and marks over the steps.
// Drag or arrow keys move along it, two fingers or + and - zoom, Enter opens the decision of a step.

import { beliefWords, clock, h, hue, listed, marksOf, number, reading, s } from "/page/dom.js";

const BELIEF = 120;
const ROW = 17;
const MOST_ROWS = 8; // readings or actions that have a row of their own
const CURVE = 70;
const EPISODES = 18;
const MARKS = 20;
const GAP = 24; // above each lane, for its name
const MIN_STEPS = 8;
export const SIGNS = { alarm: "▲", fallback: "●", override: "◆", guard: "■" };

export class Timeline {
  constructor(plant, history, { open, moved }) {
    this.plant = plant;
    this.history = history;
    this.open = open;
    this.moved = moved;
    this.width = 0;
    this.from = 0; // the first step in view, as a real number
    this.span = 0; // steps in view
    this.cursor = 0; // the chosen step; 0 for none
    this.follow = true; // whether the view stays at the last step
    this.svg = s("svg", { class: "timeline", tabindex: "0", role: "slider", "aria-label": "Timeline of the steps", "aria-orientation": "horizontal" });
    this.element = h("div", { class: "timeline-box" }, this.svg);
    this.#listen();
    this.observer = new ResizeObserver(() => this.fit());
  }

  /** Draw it into the width that it has, now and whenever that changes. */
  fit() {
    const width = this.element.clientWidth;
    if (!width || width === this.width) return;
    if (!this.span) this.span = width < 500 ? 30 : 80;
    this.width = width;
    this.draw();
    this.observer.observe(this.element);
  }

  close() { this.observer.disconnect(); }

  get gutter() { return this.width < 500 ? 76 : 104; }
  get end() { return this.from + this.span; }

  // -- the view -----------------------------------------------------------------------------------

  /** Keep the view where there are steps, and ask for those before. */
  #settle() {
    const { first, last, earlier } = this.history;
    const count = last - first + 1;
    this.span = Math.max(MIN_STEPS, Math.min(this.span, Math.max(count, MIN_STEPS)));
    const most = last + 1 - this.span;
    if (this.follow) this.from = most;
    this.from = Math.min(Math.max(this.from, first), Math.max(most, first));
    this.follow = this.from >= most - 0.01;
    if (earlier !== null && this.from < first + Math.max(this.span, 20)) this.moved("early");
  }

  move(steps) {
    this.follow = false;
    this.from += steps;
    this.draw();
  }
  zoom(factor, at = this.from + this.span / 2) {
    const span = Math.max(MIN_STEPS, Math.min(this.span * factor, Math.max(this.history.last - this.history.first + 1, MIN_STEPS)));
    if (!this.follow || at < this.history.last) {
      this.from = at - ((at - this.from) * span) / this.span;
      this.follow = false;
    }
    this.span = span;
    this.draw();
  }
  choose(step) {
    const { first, last } = this.history;
    this.cursor = Math.min(Math.max(step, first), last);
    if (this.cursor < this.from + 0.5) this.from = this.cursor - this.span * 0.1;
    else if (this.cursor + 1 > this.end) this.from = this.cursor + 1 - this.span * 0.9;
    this.follow = this.cursor === last;
    this.draw();
    this.moved("cursor");
  }
  latest() {
    this.follow = true;
    this.choose(this.history.last);
  }

  // -- keys, mouse and fingers --------------------------------------------------------------------

  #listen() {
    const { svg } = this;
    svg.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const now = this.cursor || this.history.last;
      const far = Math.max(1, Math.round(this.span * 0.8));
      const todo = {
        ArrowLeft: () => this.choose(now - 1), ArrowRight: () => this.choose(now + 1),
        ArrowDown: () => this.choose(now - 1), ArrowUp: () => this.choose(now + 1),
        PageUp: () => this.choose(now - far), PageDown: () => this.choose(now + far),
        Home: () => this.choose(this.history.first), End: () => this.latest(),
        "+": () => this.zoom(0.67, now), "=": () => this.zoom(0.67, now), "-": () => this.zoom(1.5, now),
        Enter: () => this.open(this.history.at(now)),
      }[event.key];
      if (!todo) return;
      event.preventDefault();
      todo();
    });
    const fingers = new Map();
    let begun = null; // how it was when fingers came or went
    const begin = () => {
      const xs = [...fingers.values()];
      begun = xs.length ? { x: xs.reduce((sum, x) => sum + x, 0) / xs.length, apart: xs.length > 1 ? Math.abs(xs[0] - xs[1]) : 0, from: this.from, span: this.span } : null;
    };
    let dragged = false;
    svg.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      fingers.set(event.pointerId, event.clientX);
      if (fingers.size === 1) dragged = false;
      begin();
    });
    svg.addEventListener("pointermove", (event) => {
      if (!fingers.has(event.pointerId)) return;
      fingers.set(event.pointerId, event.clientX);
      const xs = [...fingers.values()];
      const x = xs.reduce((sum, each) => sum + each, 0) / xs.length;
      if (!dragged && fingers.size === 1 && Math.abs(x - begun.x) < 5) return;
      if (!dragged) for (const finger of fingers.keys()) try { svg.setPointerCapture(finger); } catch { /* it has left */ }
      dragged = true;
      const wide = this.width - this.gutter;
      if (begun.apart > 10 && xs.length > 1) {
        const span = begun.span * (begun.apart / Math.max(Math.abs(xs[0] - xs[1]), 10));
        const at = begun.from + (this.#inside(begun.x) / wide) * begun.span;
        this.span = span;
        this.from = at - (this.#inside(x) / wide) * span;
      } else this.from = begun.from - ((x - begun.x) / wide) * begun.span;
      this.follow = false;
      this.draw();
    });
    const lifted = (event) => {
      if (!fingers.delete(event.pointerId)) return;
      if (event.type === "pointerup" && !dragged && !fingers.size) {
        const step = Math.floor(this.from + (this.#inside(event.clientX) / (this.width - this.gutter)) * this.span);
        if (this.history.steps.length) this.choose(step);
      }
      begin();
    };
    svg.addEventListener("pointerup", lifted);
    svg.addEventListener("pointercancel", lifted);
    svg.addEventListener("dblclick", () => this.cursor && this.open(this.history.at(this.cursor)));
    svg.addEventListener("wheel", (event) => {
      const across = event.shiftKey ? event.deltaY : event.deltaX;
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        this.zoom(Math.exp(event.deltaY / 300), this.from + (this.#inside(event.clientX) / (this.width - this.gutter)) * this.span);
      } else if (across && Math.abs(across) >= Math.abs(event.shiftKey ? 0 : event.deltaY)) {
        event.preventDefault();
        this.move((across / (this.width - this.gutter)) * this.span);
      }
    }, { passive: false });
  }

  /** The distance of a place on the screen from the first step in view, in pixels. */
  #inside(x) { return x - this.svg.getBoundingClientRect().left - this.gutter; }

  // -- the drawing --------------------------------------------------------------------------------

  draw() {
    if (!this.width) return;
    this.#settle();
    const { history, plant, gutter, width } = this;
    const wide = width - gutter - 2;
    const x = (step) => gutter + ((step - this.from) / this.span) * wide;
    const first = Math.max(history.first, Math.floor(this.from));
    const last = Math.min(history.last, Math.ceil(this.end));
    const each = Math.max(1, Math.ceil((last - first + 1) / wide)); // steps in a pixel
    const shown = [];
    for (let step = first; step <= last; step += each) shown.push(history.at(Math.min(step + each - 1, last)));
    const column = (step) => [Math.max(x(step.step + 1 - each), gutter), Math.min(x(step.step + 1), gutter + wide)];
    const parts = [];
    let y = 0;
    const name = (text) => {
      y += GAP;
      parts.push(s("text", { class: "lane", x: 0, y: y - 8 }, text));
    };
    const inRows = (names, valueOf, hueOf) => {
      names.forEach((row, place) => {
        parts.push(s("rect", { class: "rail", x: gutter, y: y + 2, width: wide, height: ROW - 4, rx: 2 }),
          s("text", { class: "row", x: 0, y: y + ROW - 5 }, short(row, gutter), s("title", {}, row)));
        const path = runs(shown, column, (step) => valueOf(step) === place, y + 2, ROW - 4);
        if (path) parts.push(s("path", { d: path, fill: hueOf(place) }));
        y += ROW;
      });
    };

    name("Belief");
    plant.states.forEach((_, state) => {
      let path = "";
      for (const step of shown) {
        const p = step.belief[state];
        if (p < 0.002) continue;
        let below = 0;
        for (let i = 0; i < state; i++) below += step.belief[i];
        const [left, right] = column(step);
        path += `M${left.toFixed(1)} ${(y + below * BELIEF).toFixed(1)}H${right.toFixed(1)}v${(p * BELIEF).toFixed(1)}H${left.toFixed(1)}z`;
      }
      if (path) parts.push(s("path", { d: path, fill: hue(state), class: "state" }));
    });
    parts.push(s("text", { class: "row", x: gutter - 6, y: y + 11, "text-anchor": "end" }, "100 %"), s("text", { class: "row", x: gutter - 6, y: y + BELIEF, "text-anchor": "end" }, "0"));
    parts.push(s("rect", { class: "frame", x: gutter, y, width: wide, height: BELIEF }));
    y += BELIEF;

    name("Readings");
    const named = plant.observations;
    if (named && named.length <= MOST_ROWS) {
      const place = (step) => (typeof step.reading === "number" ? step.reading : named.indexOf(step.reading));
      inRows(named, (step) => (step.reading === null ? -1 : place(step)), () => "var(--ink-2)");
    } else {
      const valueOf = (step) => {
        const found = Array.isArray(step.reading) ? step.reading[0] : step.reading;
        return typeof found === "number" ? found : named ? named.indexOf(found) : NaN;
      };
      y = this.#curve(parts, shown, valueOf, named, column, y, wide);
    }

    name("Actions");
    if (plant.actions.length <= MOST_ROWS) inRows(plant.actions, (step) => plant.actions.indexOf(step.action), (place) => `var(--a${place % 8})`);
    else y = this.#curve(parts, shown, (step) => plant.actions.indexOf(step.action), plant.actions, column, y, wide);

    name("Episodes");
    y = this.#episodes(parts, first, last, x, y, gutter, wide);
    name("Marks");
    let free = -Infinity;
    for (let step = first; step <= last; step++) {
      const found = history.at(step);
      const marks = marksOf(found).filter(([kind]) => SIGNS[kind]);
      const kinds = marks.map(([kind]) => kind);
      if (!kinds.length) continue;
      const at = (x(step) + x(step + 1)) / 2;
      if (at - free < 9 && !kinds.includes("alarm")) continue; // they would lie over each other
      if (at < gutter || at > gutter + wide) continue;
      free = at;
      parts.push(s("text", { class: `sign ${kinds[0]}`, x: at, y: y + 14, "text-anchor": "middle" }, SIGNS[kinds[0]], s("title", {}, `step ${step}: ${marks.map(([, word]) => word).join(", ")}`)));
    }
    parts.push(s("line", { class: "frame", x1: gutter, x2: gutter + wide, y1: y + MARKS, y2: y + MARKS }));
    y += MARKS;
    y = this.#axis(parts, x, y, gutter, wide);

    if (this.cursor) {
      const [left, right] = [Math.max(x(this.cursor), gutter), Math.min(x(this.cursor + 1), gutter + wide)];
      if (right > left) parts.push(s("rect", { class: "cursor", x: left, y: GAP - 4, width: Math.max(right - left, 2), height: y - GAP - 12 }));
    }
    this.svg.setAttribute("viewBox", `0 0 ${width} ${y}`);
    this.svg.setAttribute("height", y);
    this.svg.replaceChildren(...parts);
    this.svg.setAttribute("aria-valuemin", history.first);
    this.svg.setAttribute("aria-valuemax", history.last);
    this.svg.setAttribute("aria-valuenow", this.cursor || history.last);
    this.svg.setAttribute("aria-valuetext", stepWords(history.at(this.cursor || history.last), plant));
    this.moved("view");
  }

  /** Values as a curve; returns where the next lane begins. */
  #curve(parts, shown, valueOf, names, column, top, wide) {
    const values = shown.map(valueOf).filter((value) => Number.isFinite(value) && value >= (names ? 0 : -Infinity));
    let [low, high] = names ? [0, names.length - 1] : [Math.min(...values), Math.max(...values)];
    if (!values.length) [low, high] = [0, 1];
    if (high - low < 1e-12) [low, high] = [low - 0.5, high + 0.5];
    const place = (value) => top + 4 + (CURVE - 8) * (1 - (value - low) / (high - low));
    let path = "", points = "", gap = true;
    for (const step of shown) {
      const value = valueOf(step);
      if (!Number.isFinite(value) || (names && value < 0)) { gap = true; continue; }
      const [left, right] = column(step);
      const at = `${((left + right) / 2).toFixed(1)} ${place(value).toFixed(1)}`;
      path += `${gap ? "M" : "L"}${at}`;
      points += `M${at}h0`;
      gap = false;
    }
    const word = (value) => (names ? names[value] : number(value, 3));
    parts.push(s("rect", { class: "frame", x: this.gutter, y: top, width: wide, height: CURVE }), s("path", { class: "curve", d: path }),
      s("path", { class: "points", d: points }),
      s("text", { class: "row", x: 0, y: top + 12 }, short(word(high), this.gutter)), s("text", { class: "row", x: 0, y: top + CURVE - 2 }, short(word(low), this.gutter)));
    return top + CURVE;
  }

  #episodes(parts, first, last, x, y, gutter, wide) {
    for (let step = first; step <= last;) {
      const number_ = this.history.at(step).episode;
      let end = step;
      while (end < last && this.history.at(end + 1).episode === number_) end++;
      const left = Math.max(x(step), gutter), right = Math.min(x(end + 1), gutter + wide);
      parts.push(s("rect", { class: number_ % 2 ? "episode odd" : "episode", x: left, y, width: Math.max(right - left - 0.5, 0.5), height: EPISODES }));
      if (right - left > 18) parts.push(s("text", { class: "episode-number", x: (left + right) / 2, y: y + 13, "text-anchor": "middle" }, number_));
      step = end + 1;
    }
    return y + EPISODES;
  }

  #axis(parts, x, y, gutter, wide) {
    const wanted = this.span / Math.max(2, Math.floor(wide / 90));
    const base = 10 ** Math.floor(Math.log10(wanted));
    const stride = Math.max(1, [1, 2, 5, 10].map((factor) => factor * base).find((size) => size >= wanted));
    for (let step = Math.max(Math.ceil(this.from / stride) * stride, this.history.first); step < this.end && step <= this.history.last; step += stride) {
      const at = (x(step) + x(step + 1)) / 2;
      if (at < gutter + 8 || at > gutter + wide) continue;
      const edge = at > gutter + wide - 14;
      parts.push(s("line", { class: "frame", x1: at, x2: at, y1: y, y2: y + 4 }), s("text", { class: "row", x: edge ? gutter + wide : at, y: y + 17, "text-anchor": edge ? "end" : "middle" }, step));
    }
    parts.push(s("text", { class: "lane", x: 0, y: y + 17 }, "Step"));
    return y + 24;
  }
}

/** Rectangles of the steps for which something holds, joined where they touch. */
function runs(steps, column, holds, y, height) {
  let path = "", left = null, right = null;
  const close = () => { if (left !== null) path += `M${left.toFixed(1)} ${y}H${Math.max(right, left + 1).toFixed(1)}v${height}H${left.toFixed(1)}z`; };
  for (const step of steps) {
    if (!holds(step)) continue;
    const [from, to] = column(step);
    if (left === null || from > right + 0.6) {
      close();
      left = from;
    }
    right = to;
  }
  close();
  return path;
}

const short = (text, gutter) => {
  const most = Math.floor((gutter - 8) / 6.6);
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
};

/** A step in words. */
export function stepWords(step, plant) {
  if (!step) return "no step yet";
  const marks = marksOf(step).map(([, word]) => word);
  return `Step ${step.step}, ${clock(step.at)}: reading ${reading(step.reading)}, action ${step.action}${step.instead ? ` instead of ${step.instead}` : ""}. `
    + `Belief: ${beliefWords(step.belief, plant.states, 4)}.${marks.length ? ` Marked: ${listed(marks)}.` : ""}`;
}
