// The history of one unit: its steps, from the log and from new events.

import { ask } from "/page/api.js";
import { state } from "/page/state.js";

const PAGE = 1000; // events in a request

export class UnitHistory {
  constructor(name) {
    this.name = name;
    this.steps = []; // in order, without gaps
    this.earlier = 0; // the number before which there are more events; null if there are none
    this.loading = null;
    this.pending = []; // events that came while a page was on its way
  }

  get first() { return this.steps[0]?.step ?? 1; }
  get last() { return this.steps.at(-1)?.step ?? 0; }
  at(step) { return this.steps[step - this.first]; }

  /** Ask for the page of events before those that are here. */
  load() {
    if (this.earlier === null) return Promise.resolve();
    this.loading ??= this.#load().finally(() => { this.loading = null; });
    return this.loading;
  }

  async #load() {
    const page = await ask(`/v1/units/${encodeURIComponent(this.name)}/history?before=${this.earlier}&limit=${PAGE}`);
    const found = new Map();
    for (const row of page.events) if (!row.void) merge(found, row);
    // Marks whose reading is on the page before belong to a step that is not here yet: they come with it.
    const steps = [...found.values()].filter((step) => step.decision).sort((one, other) => one.step - other.step);
    this.steps = [...steps.filter((step) => !this.steps.length || step.step < this.first), ...this.steps];
    this.earlier = page.previous;
    for (const row of this.pending.splice(0)) this.take(row);
  }

  /** Take a new event over; returns false if events before it are missing. */
  take(row) {
    if (this.loading) {
      this.pending.push(row);
      return true;
    }
    if (row.step === null && row.kind !== "override") return true;
    const step = row.kind === "override" ? row.answer.step : row.step;
    if (row.kind === "reading" && step > this.last + 1 && this.steps.length) return false;
    if (row.kind === "reading" && step <= this.last) return true;
    const known = new Map(step >= this.first && step <= this.last ? [[step, this.at(step)]] : []);
    merge(known, row);
    const found = known.get(step);
    if (row.kind === "reading" && found) this.steps.push(found);
    return true;
  }
}

/** Add what an event says of a step. */
function merge(steps, row) {
  if (row.kind === "override") {
    const step = steps.get(row.answer.step);
    if (step) Object.assign(step, { overridden: true, instead: row.answer.instead_of, action: row.answer.action, by: row.body.by, reason: row.body.why });
    return;
  }
  if (row.step === null) return;
  let step = steps.get(row.step);
  if (!step) {
    step = { step: row.step };
    steps.set(row.step, step);
  }
  if (row.kind === "alarm") step.alarm = row.body.detail;
  if (row.kind !== "reading") return;
  const found = row.answer;
  Object.assign(step, {
    seq: row.seq, at: row.at, reading: row.body.reading ?? null, taken: row.body.taken ?? null, action: found.action, decision: found.decision,
    belief: state.plant.states.map((name) => found.belief[name] ?? 0), episode: found.episode, fallback: found.fallback,
    guarded: found.guards.length > 0, rules: found.guards, policy: found.policy_action ?? null, late: found.late, shadow: found.shadow,
  });
  if (found.alarm) step.alarm = found.alarm;
}
