// The page: takes the keys, follows the stream, and joins the views.
import * as key from "./key.js";
import {follow} from "./stream.js";
import {store, on, emit, welcome, whole, changes, addEvent, past, chosenChip, choose} from "./store.js";
import {el, fill, get, forgetColours, css} from "./dom.js";
import {draw, fit, frames, loadColour, onMap, placeOf, stateColour, zoom} from "./map.js";
import {onTime} from "./timeline.js";
import {details, pickCable, pickChip} from "./details.js";
import {eventView, events, links, losses} from "./lists.js";
import {onRoute, pick, route, routeFrom} from "./route.js";
import {onControl} from "./control.js";
import {openFigure} from "./figure.js";
import {count, rate} from "./format.js";

const tabs = {details: "Details", route: "Route", links: "Links", events: "Events", losses: "Losses"};
let tab = "details", pending = false;

const views = {
  details: () => details({figure: () => openFigure(chosenChip()), routeFrom: () => { routeFrom(chosenChip()); openTab("route"); }}),
  route, links: () => links(redraw), events: () => events(redraw), losses: () => losses(redraw),
};

function openTab(name) {
  tab = name;
  for (const b of get("tabs").children) {
    b.setAttribute("aria-selected", String(b.id === "tab-" + name));
    b.tabIndex = b.id === "tab-" + name ? 0 : -1;
  }
  get("panel").setAttribute("aria-labelledby", "tab-" + name);
  redraw();
}

// redraw shows the present tab anew, at the browser's next frame. While a button is held down, the panel
// stays as it is.
function redraw() {
  if (pending || !store.machine) return;
  pending = true;
  requestAnimationFrame(() => { pending = false; if (!pressed) fill(get("panel"), views[tab]()); });
}
let pressed = false; // a button of the panel is held down; a changed list would lose the click
get("panel").addEventListener("pointerdown", () => { pressed = true; });
for (const kind of ["pointerup", "pointercancel"]) addEventListener(kind, () => { if (pressed) setTimeout(() => { pressed = false; redraw(); }, 0); });

function makeTabs() {
  fill(get("tabs"), Object.entries(tabs).map(([k, name]) => el("button", {id: "tab-" + k, role: "tab", "aria-controls": "panel", "aria-selected": String(k === tab), tabIndex: k === tab ? 0 : -1, onclick: () => openTab(k)}, name)));
  get("tabs").addEventListener("keydown", e => {
    const names = Object.keys(tabs), i = names.indexOf(tab), step = {ArrowRight: 1, ArrowLeft: -1}[e.key];
    if (!step) return;
    openTab(names[(i + step + names.length) % names.length]);
    get("tab-" + tab).focus();
    e.preventDefault();
  });
}

function totals() {
  const t = store.state?.total, m = store.machine;
  if (!t || !m) return;
  const wrong = m.cables.filter(c => !c.unused).length - (t.states.up || 0);
  const item = (text, n, bad) => el("li", {class: bad ? "bad" : ""}, el("b", {}, n), " " + text);
  fill(get("totals"), item("chips answer", `${count(t.answer)}/${count(m.chips.length)}`, t.answer < m.chips.length), item(wrong === 1 ? "cable not up" : "cables not up", count(wrong), wrong > 0),
    t.cut ? item("cut", count(t.cut), true) : null, item("", rate(t.bytes)), item("requests open", count(t.open)));
}

function legend() {
  const sample = (text, paint) => {
    const c = el("canvas", {width: 52, height: 24, "aria-hidden": "true"});
    c.paint = function () { // see fill
      const pen = this.getContext("2d");
      pen.reset();
      paint(pen);
    };
    return el("span", {}, c, text);
  };
  const stroke = (colour, dash, cross) => pen => {
    pen.scale(2, 2);
    pen.strokeStyle = colour;
    pen.lineWidth = 3;
    pen.setLineDash(dash);
    pen.beginPath(); pen.moveTo(0, 6); pen.lineTo(26, 6); pen.stroke();
    pen.setLineDash([]);
    pen.lineWidth = 2;
    pen.beginPath();
    if (cross === "x") { pen.moveTo(9, 2); pen.lineTo(17, 10); pen.moveTo(9, 10); pen.lineTo(17, 2); }
    if (cross === "~") { pen.moveTo(6, 6); pen.bezierCurveTo(10, -2, 16, 14, 20, 6); }
    pen.stroke();
  };
  if (store.colour === "load") {
    fill(get("legend"), [0, .25, .5, .75, 1].map(u => sample(Math.round(u * 100) + " %", stroke(loadColour(u), []))), el("span", {}, "of the limit, or of the highest rate so far; each half shows what its end sends"));
    return;
  }
  const dashes = {fallback: [9, 4], "out of service": [3, 4], training: [5, 4], held: [2, 3], unknown: [1, 5]};
  fill(get("legend"), ["up", "fallback", "training", "held", "out of service", "unknown"].map(s => sample(s === "fallback" ? "by fallback" : s, stroke(css(stateColour[s]), dashes[s] || []))),
    sample("cut", stroke(css("--cut"), [4, 5], "x")), sample("impaired", stroke(css("--impaired"), [], "~")));
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  forgetColours();
  legend();
  emit("theme");
  redraw();
}
const dark = matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", () => theme(dark.matches ? "dark" : "light"));

function colour(by) {
  store.colour = by;
  get("by-state").setAttribute("aria-pressed", String(by === "state"));
  get("by-load").setAttribute("aria-pressed", String(by === "load"));
  legend();
  draw();
}

function status(text, good) {
  get("status").textContent = text;
  get("status").classList.toggle("bad", !good);
}

// gate asks a person for the address with the key.
function gate(why) {
  get("gate").hidden = false;
  get("refused").textContent = why || "";
  get("pasted").focus();
}
get("ask").addEventListener("submit", e => {
  e.preventDefault();
  if (!key.takeFromText(get("pasted").value)) return gate("This text has no key. Want an address such as http://127.0.0.1:8480/#read=KEY.");
  get("pasted").value = "";
  get("gate").hidden = true;
  begin();
});

let begun = false;
async function begin() {
  if (begun) return;
  let hello;
  try { hello = await key.call("api/machine"); } catch (e) {
    status("no connection", false);
    if (e.code === 401 || e.code === 403) return gate(e.message);
    setTimeout(begin, 1000);
    return;
  }
  begun = true;
  welcome(hello);
  document.title = hello.machine.fabric + " · TT-Fabric";
  get("name").textContent = hello.machine.fabric;
  get("summary").textContent = hello.machine.summary + (store.control && key.canControl() ? " · control" : "");
  makeTabs();
  openTab("details");
  follow({
    message: (kind, data) => {
      if (kind === "whole") { whole(data); key.call("api/history").then(past).catch(() => {}); }
      if (kind === "changes") changes(data);
      if (kind === "event") { addEvent(data); emit("events"); }
    },
    state: status,
    refused: why => { begun = false; gate(why); },
  });
}

on("state events chosen route theme", redraw);
on("state", totals);
on("chosen", () => { if (store.chosen && tab !== "route" && tab !== "details") openTab("details"); });
onRoute(redraw);
onControl(redraw);
onMap({
  open: () => openFigure(chosenChip()),
  pick: (i, second) => {
    if (pick(i)) return true;
    if (!second) return false;
    if (chosenChip() >= 0 && chosenChip() !== i) { routeFrom(chosenChip()); pick(i); } else { choose({chip: i}); routeFrom(i); }
    openTab("route");
    return true;
  },
});
onTime(i => {
  const e = store.events[i];
  eventView.at = i;
  openTab("events");
  if (e.cable >= 0) pickCable(e.cable)(); else if (e.about >= 0) pickChip(e.about)();
  openTab("events");
  requestAnimationFrame(() => requestAnimationFrame(() => get("event-" + i)?.scrollIntoView({block: "nearest"})));
});
get("by-state").addEventListener("click", () => colour("state"));
get("by-load").addEventListener("click", () => colour("load"));
get("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
get("zoom-in").addEventListener("click", () => zoom(1.3));
get("zoom-out").addEventListener("click", () => zoom(1 / 1.3));
get("zoom-all").addEventListener("click", fit);

theme(dark.matches ? "dark" : "light");
// For the test of the page: the time of a frame, places on the screen, and what the page knows.
window.ttfabric = {frames, store, chip: name => placeOf({chip: store.machine.chipByName.get(name)}), cable: name => placeOf({cable: store.machine.cableByName.get(name)})};
if (key.takeFromAddress()) begin(); else gate("");
