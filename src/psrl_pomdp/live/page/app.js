// The frame of the page: views by the part of the address after #, the connection, the token, light and dark.

import { alarmsView } from "/page/alarms.js";
import { keepToken, token } from "/page/api.js";
import { decisionView } from "/page/decision.js";
import { byId, clock, h, say, whole } from "/page/dom.js";
import { learnedView } from "/page/learned.js";
import { plantView } from "/page/plant.js";
import { connect, connectNow, listen, state } from "/page/state.js";
import { unitView } from "/page/unit.js";

const main = byId("main");
let leave = null; // ends the view that is shown
let shown = null;

// -- views --------------------------------------------------------------------------------------

const views = { "": ["Units", plantView], learned: ["Learned", learnedView], alarms: ["Alarms", alarmsView], unit: ["Unit", unitView], decision: ["Decision", decisionView] };

function route() {
  if (state.plant === null) return;
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").map((part) => { try { return decodeURIComponent(part); } catch { return part; } });
  const [title, view] = views[parts[0]] ?? views[""];
  const again = shown === location.hash;
  leave?.();
  shown = location.hash;
  leave = view(main, parts[1] ?? "", new URLSearchParams(query));
  for (const link of document.querySelectorAll("#nav a")) {
    const here = link.getAttribute("href") === `#/${parts[0]}` || (link.getAttribute("href") === "#/" && ["unit", "decision"].includes(parts[0]));
    if (here) link.setAttribute("aria-current", link.getAttribute("href") === `#/${path}` ? "page" : "true");
    else link.removeAttribute("aria-current");
  }
  document.documentElement.dataset.view = parts[0] || "plant";
  viewTitle = parts[1] ? `${parts[1]} – ${title}` : title;
  frame();
  if (!again) {
    scrollTo(0, 0);
    if (document.documentElement.dataset.ready) main.focus({ preventScroll: true });
  }
}
let viewTitle = "Units";
addEventListener("hashchange", route);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});

// -- what is around the views -------------------------------------------------------------------

const words = { live: "live", connecting: "connecting", offline: "not connected", refused: "token wanted" };

function frame() {
  byId("status").dataset.status = state.connection;
  byId("status-text").textContent = words[state.connection];
  const offline = byId("offline");
  const lost = state.connection === "offline" || (state.connection === "refused" && state.plant !== null);
  if (lost) {
    const since = state.since ? ` since ${clock(state.since.toISOString())}` : "";
    const old = state.plant === null ? "" : " What is shown may be old.";
    const text = `Not connected${since}: ${state.problem}.${old}`;
    if (offline.dataset.text !== text) {
      offline.dataset.text = text;
      offline.replaceChildren(h("p", {}, h("strong", {}, text.slice(0, 13)), text.slice(13), " ", h("button", { type: "button", onclick: () => connectNow() }, "Try now")));
    }
  } else offline.dataset.text = "";
  offline.hidden = !lost;
  if (state.plant === null) return;
  byId("name").textContent = state.plant.name;
  const shadow = byId("shadow");
  shadow.hidden = !state.plant.shadow;
  if (state.plant.shadow && !shadow.firstChild) {
    shadow.append(h("p", {}, h("strong", {}, "Shadow mode: "), "another controller acts. The actions here are recommendations, and the agent learns from what was really done."));
  }
  const alarmed = [...state.units.values()].filter((unit) => unit.alarm || unit.misfit).length;
  const count = byId("alarm-count");
  count.hidden = !alarmed;
  count.textContent = whole(alarmed);
  byId("token-button").hidden = !(token() || state.connection === "refused");
  byId("log").textContent = `${whole(state.head)} events in the log.`;
  document.title = `${alarmed ? `(${alarmed}) ` : ""}${viewTitle} – ${state.plant.name}`;
}

listen((changed) => {
  frame();
  for (const row of changed.events) if (row.kind === "alarm") say(`Alarm${row.unit ? ` at ${row.unit}` : ""}: ${row.body.detail}`);
  if (state.plant !== null && shown === null) {
    route();
    document.documentElement.dataset.ready = "yes";
  }
});

// -- the token ----------------------------------------------------------------------------------

const dialog = byId("token-dialog");
function askToken(why) {
  byId("token-why").textContent = why;
  if (!dialog.open) dialog.showModal();
  document.documentElement.dataset.ready = "yes";
}
byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  keepToken(byId("token").value.trim());
  byId("token").value = "";
  dialog.close();
  connectNow();
});
byId("token-forget").addEventListener("click", () => {
  keepToken("");
  location.reload();
});
byId("token-close").addEventListener("click", () => dialog.close());
byId("token-button").addEventListener("click", () => askToken(state.plant?.role ? `The present one has the role “${state.plant.role}”.` : state.problem));

// -- light and dark -----------------------------------------------------------------------------

const THEME = "psrl-pomdp-theme";
const dark = matchMedia("(prefers-color-scheme: dark)");
let chosen = null; // what was chosen by the button; null: as the system has it
try { chosen = localStorage.getItem(THEME); } catch { /* the browser allows no storage */ }
function setTheme() {
  const theme = chosen ?? (dark.matches ? "dark" : "light");
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = theme === "dark" ? "Light" : "Dark";
  byId("theme").setAttribute("aria-label", theme === "dark" ? "Light colors" : "Dark colors");
}
byId("theme").addEventListener("click", () => {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  chosen = (next === "dark") === dark.matches ? null : next;
  try {
    if (chosen) localStorage.setItem(THEME, chosen);
    else localStorage.removeItem(THEME);
  } catch { /* as above */ }
  setTheme();
});
dark.addEventListener("change", setTheme);
let before = null;
addEventListener("beforeprint", () => { before = document.documentElement.dataset.theme; document.documentElement.dataset.theme = "light"; });
addEventListener("afterprint", () => { if (before) setTheme(); });
setTheme();

connect((problem) => {
  frame();
  askToken(problem.message);
});
