// Faults by click. The buttons exist only if the server accepts faults, and the page has the key
// for control.
import {store, on} from "./store.js";
import {el, get} from "./dom.js";
import {canControl, command} from "./key.js";

const allowed = () => store.control && canControl();
let result = "", bad = false, busy = false, sure = "", redraw = () => {};
export const onControl = f => { redraw = f; };
on("chosen", () => { result = ""; sure = ""; });
const typed = {delay: "", loss: "", rate: ""};

// act gives a command. A dangerous command needs two clicks on the same button.
async function act(action, dangerous) {
  const key = JSON.stringify(action);
  if (dangerous && sure !== key) { sure = key; redraw(); return; }
  sure = "";
  busy = true; result = ""; redraw();
  try { result = (await command(action)).done; bad = false; } catch (e) { result = e.message; bad = true; }
  busy = false;
  get("said").textContent = result;
  redraw();
}

const button = (id, text, action, dangerous) => el("button", {id, disabled: busy, class: dangerous ? "danger" : "", onclick: () => act(action, dangerous)}, dangerous && sure === JSON.stringify(action) ? text + ": click again" : text);
const outcome = () => result ? el("p", {class: bad ? "note" : "calm", role: "status"}, result) : null;

export function cableControls(i) {
  if (!allowed()) return null;
  const cable = store.machine.cables[i].name, c = store.state.cables[i];
  if (c.state === "unused") return null;
  const field = (name, hint) => el("label", {}, name + " ", el("input", {id: "impair-" + name, value: typed[name], placeholder: hint, oninput: e => { typed[name] = e.target.value; }}));
  return el("fieldset", {}, el("legend", {}, "Faults"),
    el("div", {class: "row"}, button("cut", "Cut", {do: "cut", cable}), button("restore", "Put back", {do: "restore", cable})),
    el("div", {class: "row"}, field("delay", "10ms"), field("loss", "1%"), field("rate", "100Mbit")),
    el("div", {class: "row"}, el("button", {id: "impair", disabled: busy, onclick: () => act({do: "impair", cable, options: Object.fromEntries(Object.entries(typed).filter(([, v]) => v.trim()).map(([k, v]) => [k, v.trim()]))})}, "Impair"),
      button("clear", "End impairments", {do: "clear", cable})),
    outcome());
}

export function chipControls(i) {
  if (!allowed()) return null;
  const chip = store.machine.chips[i].name, runs = store.state.chips[i].state !== "not running";
  return el("fieldset", {}, el("legend", {}, "Faults"),
    el("div", {class: "row"}, runs ? [button("pause", "Pause", {do: "pause", chip}), button("resume", "Resume", {do: "resume", chip}), button("kill", "Kill", {do: "kill", chip}, true)] : button("start", "Start", {do: "start", chip})),
    outcome());
}

export function fabricControls() {
  if (!allowed()) return null;
  return el("fieldset", {}, el("legend", {}, "Faults"), el("div", {class: "row"}, button("heal", "Heal all", {do: "heal"})),
    el("p", {class: "soft"}, "Puts back cut cables, and ends what commands disturbed. Choose a cable or a chip for a single fault."), outcome());
}
