// What the page knows of the plant, and how events of the log change it.

import { ask, follow, Problem } from "/page/api.js";

export const state = {
  plant: null, // the document at /v1/plant
  units: new Map(), // by name
  alarms: [], // the newest first
  head: 0, // the number of the last event that is in here
  connection: "connecting", // or "live", "offline", "refused"
  since: null, // when the connection ended
  problem: "",
};
const PAGE = 500; // units in a request
const MOST_BEHIND = 3000; // events, after which everything is asked for anew
const MOST_ALARMS = 200;
const listeners = new Set();
let changed = { units: new Set(), all: false, events: [] };
let due = 0;

/** Call a function after changes, at most some times a second. Returns how to end that. */
export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
function touch(unit) {
  if (unit === undefined) changed.all = true;
  else changed.units.add(unit);
  if (!due) due = setTimeout(tell, 120);
}
function tell() {
  due = 0;
  const now = changed;
  changed = { units: new Set(), all: false, events: [] };
  for (const listener of [...listeners]) listener(now);
}

// -- documents ----------------------------------------------------------------------------------

const vector = (belief) => (belief ? state.plant.states.map((name) => belief[name] ?? 0) : null);

function unitOf(words) {
  return {
    name: words.unit, step: words.step, reading: words.reading, action: words.action, decision: words.decision,
    belief: vector(words.belief), fallback: words.fallback, alarm: words.alarm, present: words.present,
    guarded: words.guarded ?? false, overridden: words.overridden ?? false, misfit: words.misfit ?? false, late: false, at: words.at ?? null,
    description: words.description, shadow: words.shadow, low: words.unit.toLowerCase(),
  };
}

/** Take over the document of the plant. */
function setPlant(words) {
  state.plant = words;
  const newer = state.alarms.filter((alarm) => alarm.seq > words.log.events);
  state.alarms = [...newer, ...words.alarms];
}

async function load() {
  const plant = await ask("/v1/plant");
  state.alarms = [];
  setPlant(plant);
  const units = new Map();
  for (let after = 0; after !== null;) {
    const page = await ask(`/v1/units?after=${after}&limit=${PAGE}`);
    for (const words of page.units) units.set(words.unit, unitOf(words));
    after = page.next;
  }
  state.units = units;
  state.head = plant.log.events;
  touch();
}

let fresh = 0; // when the document of the plant was asked for last
let asking = false;
/** Ask for the document of the plant again, if it is older than some seconds. */
export async function refresh(age = 5000) {
  if (asking || Date.now() - fresh < age || state.connection !== "live") return;
  asking = true;
  fresh = Date.now();
  try {
    setPlant(await ask("/v1/plant"));
    touch();
  } catch { /* the stream tells what is wrong */ } finally { asking = false; }
}

// -- events -------------------------------------------------------------------------------------

function take(row) {
  if (row.seq <= state.head) return;
  state.head = row.seq;
  changed.events.push(row);
  const found = row.answer;
  if (row.kind === "reading") {
    let unit = state.units.get(row.unit);
    if (!unit) {
      unit = unitOf({ unit: row.unit, present: true, description: null });
      state.units.set(row.unit, unit);
    }
    Object.assign(unit, {
      step: row.step, reading: row.body.reading ?? null, action: found.action, decision: found.decision, belief: vector(found.belief),
      fallback: found.fallback, alarm: found.alarm ?? null, guarded: found.guards.length > 0, overridden: false,
      present: true, late: found.late, at: row.at, shadow: found.shadow,
    });
    state.plant.readings += 1;
    state.plant.episode = found.episode;
    touch(row.unit);
  } else if (row.kind === "override") {
    const unit = state.units.get(row.unit);
    if (unit) Object.assign(unit, { action: found.action, overridden: true });
    touch(row.unit);
  } else if (row.kind === "describe") {
    const unit = state.units.get(row.unit) ?? unitOf({ unit: row.unit, step: 0, present: true });
    Object.assign(unit, { description: found.description, present: true });
    state.units.set(row.unit, unit);
    touch(row.unit);
  } else if (row.kind === "leave") {
    const unit = state.units.get(row.unit);
    if (unit) unit.present = false;
    touch(row.unit);
  } else if (row.kind === "alarm") {
    const unit = state.units.get(row.unit);
    if (unit && row.body.alarm === "model") unit.misfit = true;
    if (unit) touch(row.unit);
    state.alarms = [row, ...state.alarms].slice(0, MOST_ALARMS);
    touch();
  } else if (row.kind === "episode") {
    state.plant.episode = row.body.episode;
    touch();
  } else if (row.kind === "configuration" || row.kind === "rollback") {
    throw new Problem(205, "the state was replaced");
  }
}

// -- the connection -----------------------------------------------------------------------------

let wake = () => {};
/** Try to connect now. */
export const connectNow = () => wake();

function set(connection, problem = "") {
  if (connection !== "live" && state.connection === "live") state.since = new Date();
  if (connection === "live") state.since = null;
  state.connection = connection;
  state.problem = problem;
  touch();
}

/** Keep connected as long as the page is open. `refused` is called where a token is wanted. */
export async function connect(refused) {
  let pause = 500;
  addEventListener("online", () => wake());
  document.addEventListener("visibilitychange", () => document.hidden || wake());
  for (;;) {
    const stop = new AbortController();
    let ended = null;
    try {
      if (state.plant === null) await load();
      else {
        const plant = await ask("/v1/plant");
        const behind = plant.log.events - state.head;
        // Another log, a long absence: what is here does not help.
        if (behind < 0 || behind > MOST_BEHIND || plant.name !== state.plant.name || plant.states.join("\n") !== state.plant.states.join("\n")) await load();
        else setPlant(plant);
      }
      await follow(state.head, {
        opened: () => {
          pause = 500;
          set("live");
        },
        event: (row) => {
          try { take(row); } catch (error) {
            ended = error;
            stop.abort();
          }
        },
        signal: stop.signal,
      });
    } catch (error) {
      if (ended?.status === 205) {
        state.plant = null;
        continue;
      }
      if (ended) console.error(ended);
      const status = error instanceof Problem ? error.status : 0;
      if (!(error instanceof Problem)) console.error(error);
      if (status === 401 || status === 403) {
        set("refused", error.message);
        await new Promise((resolve) => {
          wake = resolve;
          refused(error);
        });
        continue;
      }
      set("offline", error.message);
    }
    const wait = Math.round(pause * (0.75 + 0.5 * Math.random()));
    pause = Math.min(pause * 2, 15000);
    await new Promise((resolve) => {
      wake = resolve;
      setTimeout(resolve, wait);
    });
    wake = () => {};
  }
}
