// Requests to the service, and the stream of its events.

const TOKEN = "psrl-pomdp-token";
let memory = ""; // where the browser allows no storage

export function token() {
  try { return sessionStorage.getItem(TOKEN) ?? memory; } catch { return memory; }
}
export function keepToken(text) {
  memory = text;
  try {
    if (text) sessionStorage.setItem(TOKEN, text);
    else sessionStorage.removeItem(TOKEN);
  } catch { /* as above */ }
}

/** A refusal of the service (RFC 9457), or no answer at all: then its status is 0. */
export class Problem extends Error {
  constructor(status, detail, words = {}) {
    super(detail);
    this.status = status;
    this.words = words;
  }
}

function headers(more = {}) {
  const found = new Headers(more);
  const own = token();
  if (own) {
    try { found.set("Authorization", `Bearer ${own}`); } catch { /* a token with signs that no header takes */ }
  }
  return found;
}

async function problemOf(response) {
  let words = {};
  try { words = await response.json(); } catch { /* no document */ }
  return new Problem(response.status, words.detail ?? `the service answered ${response.status}`, words);
}

/** The document at an address. Raises `Problem`. */
export async function ask(path, { method = "GET", body, key, patience = 30000 } = {}) {
  const more = body === undefined ? {} : { "Content-Type": "application/json" };
  if (key) more["Idempotency-Key"] = key;
  let response;
  try {
    response = await fetch(path, {
      method, headers: headers(more), body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store", signal: AbortSignal.timeout(patience),
    });
  } catch (error) {
    throw new Problem(0, error.name === "TimeoutError" ? "no answer in time" : "the service cannot be reached");
  }
  if (!response.ok) throw await problemOf(response);
  try {
    return await response.json();
  } catch {
    throw new Problem(0, "the answer broke off");
  }
}

/** A key that no other request has. `crypto.randomUUID` wants https, which a plant may not have. */
export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `page-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

const SILENCE = 40000; // milliseconds; the service says something every 15 seconds

/**
 * Read server-sent events after a number until the connection ends; raises `Problem` then. `EventSource` cannot
 * send a token, so the stream is read here.
 */
export async function follow(after, { opened, event, signal }) {
  const stop = new AbortController();
  signal.addEventListener("abort", () => stop.abort());
  let alarm = setTimeout(() => stop.abort(), SILENCE);
  const alive = () => {
    clearTimeout(alarm);
    alarm = setTimeout(() => stop.abort(), SILENCE);
  };
  try {
    const response = await fetch("/v1/events", {
      headers: headers({ Accept: "text/event-stream", "Last-Event-ID": String(after) }), cache: "no-store", signal: stop.signal,
    });
    if (!response.ok) throw await problemOf(response);
    opened();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      alive();
      rest += value;
      const blocks = rest.split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) {
        const data = block.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trim());
        if (data.length) event(JSON.parse(data.join("\n")));
      }
    }
  } catch (error) {
    if (error instanceof Problem) throw error;
  } finally {
    clearTimeout(alarm);
    stop.abort();
  }
  throw new Problem(0, "the connection ended");
}
