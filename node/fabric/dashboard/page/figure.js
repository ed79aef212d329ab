// The routers of a chip, as in figure 3.1 of the specification: for each port and virtual channel, the
// sender channels on their way to the ethernet, and the receiver channel on its way to the NoC.
import {store, on, chosenChip} from "./store.js";
import {el, fill, get} from "./dom.js";
import {call} from "./key.js";
import {bytes, count, duration, plural} from "./format.js";
import {pickCable} from "./details.js";

const box = get("figure"), every = 1000;
let shown = -1, timer = 0, all = false, detail = null, failed = "";

// openFigure shows the routers of chip i, until closeFigure.
export function openFigure(i) {
  if (i < 0) return;
  clearTimeout(timer);
  shown = i; detail = null; failed = "";
  box.hidden = false;
  paint();
  ask();
  get("close-figure")?.focus();
}

export function closeFigure() {
  clearTimeout(timer);
  shown = -1;
  box.hidden = true;
  get("map").focus();
}
box.addEventListener("keydown", e => { if (e.key === "Escape") closeFigure(); });
on("chosen", () => { if (shown >= 0 && chosenChip() >= 0 && chosenChip() !== shown) openFigure(chosenChip()); });

async function ask() {
  const i = shown;
  try { detail = await call("api/chip?name=" + store.machine.chips[i].name); failed = ""; } catch (e) { failed = e.message; }
  if (shown !== i) return;
  paint();
  timer = setTimeout(ask, every);
}

function paint() {
  const name = store.machine.chips[shown].name;
  fill(box, el("div", {class: "head"}, el("h2", {}, "Routers of " + name),
    el("label", {}, el("input", {type: "checkbox", id: "all-vcs", checked: all, onchange: e => { all = e.target.checked; paint(); }}), " all virtual channels"),
    el("span", {class: "soft grow"}, detail ? `up for ${duration(detail.uptime_seconds)}, ${count(detail.members)} members, ${bytes(detail.memory_bytes)} of tile memory` : ""),
    el("button", {id: "close-figure", onclick: closeFigure}, "Back to the map")),
  failed ? el("p", {class: "note"}, failed) : null,
  detail && detail.chip === name ? [el("p", {class: "soft"}, "Each box is a slot. Full slots are filled. Sender channel 0 takes packets of the chip's own workers, the others take packets that pass through. Credits are the packets that a port may send now."),
    el("div", {class: "routers"}, detail.routers.map(router))] : failed ? null : el("p", {class: "soft"}, "Asking the chip."));
}

function router(r) {
  const busy = v => v.receiver.waiting > 0 || v.senders.some(s => s.waiting > 0);
  const vcs = r.vcs.filter(v => all || v.vc === "data" || busy(v)), hidden = r.vcs.length - vcs.length;
  const held = r.vcs.reduce((n, v) => n + v.receiver.waiting + v.senders.reduce((k, s) => k + s.waiting, 0), 0);
  return el("section", {class: "router", "aria-label": `Router at channel ${r.channel}`},
    el("header", {}, el("b", {}, `${r.direction} · channel ${r.channel}`), el("span", {class: "soft"}, "plane " + r.plane), r.cable >= 0 ? el("button", {class: "link", onclick: () => { closeFigure(); pickCable(r.cable)(); }}, "→ " + r.peer) : r.peer,
      el("span", {class: "tag " + (r.link === "up" ? "s-up" : "s-training")}, r.link), r.router !== "running" ? el("span", {class: "tag s-held"}, r.router) : null),
    vcs.map(channelRows), el("p", {class: "soft"}, plural(held, "packet") + " held" + (hidden ? `, ${plural(hidden, "empty virtual channel")} not shown` : "")));
}

function channelRows(v) {
  return el("div", {class: "vc"},
    el("div", {class: "title"}, el("b", {}, v.vc), el("span", {class: v.credits === 0 ? "s-cut" : "soft"}, plural(v.credits, "credit"))),
    v.senders.map((s, k) => row(s.from === "worker" ? "0 worker" : `${k} from ${s.from}`, s, "→")),
    el("div", {class: "recv"}), row("receiver", v.receiver, "←"));
}

function row(name, c, way) {
  const slots = el("div", {class: "slots" + (c.slots > 32 ? " many" : "") + (c.waiting >= c.slots ? " full" : ""), role: "img", "aria-label": `${c.waiting} of ${c.slots} slots hold packets`, title: (c.packets || []).map(words).join("\n") || `${c.waiting} of ${c.slots} slots hold packets`});
  slots.style.setProperty("--slots", c.slots);
  slots.style.setProperty("--held", Math.min(c.waiting, c.slots));
  return [el("span", {}, name), slots, el("span", {class: "arrow", "aria-hidden": "true"}, way),
    c.waiting ? el("span", {class: "headline"}, `${c.waiting}/${c.slots}, first ${words(c.packets[0])}`) : null];
}

const words = p => p ? `${p.type} ${p.src} → ${p.dst}, ${count(p.bytes)} B, ${p.ttl} hops left, ${duration(p.age_seconds)} here` : "";
