// An operator replaces the action of a unit's last decision: a form, then a confirmation.

import { ask, newKey } from "/page/api.js";
import { byId, h, say } from "/page/dom.js";
import { state } from "/page/state.js";

const BY = "psrl-pomdp-by"; // who it was last, in this tab
export const mayOperate = () => ["operate", "admin"].includes(state.plant.role);

/** A button that opens the form; a sentence where the token may only read. */
export function overrideButton(unit) {
  if (!mayOperate()) return h("span", { class: "soft small" }, "To replace the action, a token with the role “operate” is needed.");
  return h("button", { type: "button", class: "override", onclick: () => overrideForm(unit) }, "Replace the action…");
}

function remembered() {
  try { return sessionStorage.getItem(BY) ?? ""; } catch { return ""; }
}

export function overrideForm({ name, decision, step, action }) {
  const dialog = byId("override-dialog");
  const { plant } = state;
  const key = newKey(); // one for all attempts of this form: the service notes it once
  const problem = h("p", { class: "note bad", role: "alert", hidden: true });
  const by = h("input", { name: "by", required: true, maxlength: 100, value: remembered(), autocomplete: "name" });
  const why = h("textarea", { name: "why", required: true, maxlength: 1000, rows: 3 });
  const choices = h("fieldset", {}, h("legend", {}, "What is done instead"), plant.actions.map((word) => h("label", { class: "choice" },
    h("input", { type: "radio", name: "action", value: word, required: true, disabled: word === action }), word, word === action ? " (the present one)" : "")));
  const about = h("p", { class: "soft" }, "Unit ", h("strong", {}, name), `, step ${step}. The agent learns from what is really done: say it before the next reading of this unit.`);
  const last = h("p", { class: "sure", hidden: true });
  const send = h("button", { type: "submit", class: "main" }, "Go on");
  const back = h("button", { type: "button" }, "Cancel");
  const form = h("form", {}, h("h2", { id: "override-title" }, "Replace the action"), about, choices,
    h("label", { class: "field" }, "Who", by), h("label", { class: "field" }, "Why", why), last, problem, h("div", { class: "buttons" }, send, back));
  let sure = false;
  const ask_ = (on) => {
    sure = on;
    for (const part of [choices, by.parentElement, why.parentElement]) part.hidden = on;
    last.hidden = !on;
    send.textContent = on ? "Confirm" : "Go on";
    back.textContent = on ? "Back" : "Cancel";
    (on ? send : choices.querySelector("input:not(:disabled)"))?.focus();
  };
  back.addEventListener("click", () => (sure ? ask_(false) : dialog.close()));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const chosen = new FormData(form).get("action") ?? form.querySelector("input:checked").value;
    problem.hidden = true;
    if (!sure) {
      last.replaceChildren("Unit ", h("strong", {}, name), `, step ${step}: `, h("strong", {}, chosen), ` instead of ${action}. By ${by.value.trim()}: “${why.value.trim()}”.`);
      return ask_(true);
    }
    send.disabled = true;
    try {
      try { sessionStorage.setItem(BY, by.value.trim()); } catch { /* the browser allows no storage */ }
      await ask(`/v1/decisions/${encodeURIComponent(decision)}/override`, { method: "POST", key, body: { action: chosen, by: by.value.trim(), why: why.value.trim() } });
      say(`${name}: ${chosen} instead of ${action} was noted.`);
      dialog.close();
    } catch (error) {
      problem.hidden = false;
      problem.textContent = error.status ? `This was refused: ${error.message}.` : `It is not known whether this was noted (${error.message}). Confirm again: it is noted once.`;
    } finally { send.disabled = false; }
  });
  dialog.replaceChildren(form);
  dialog.showModal();
  choices.querySelector("input:not(:disabled)")?.focus();
}
