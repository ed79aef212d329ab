// The map: draws the machine on a canvas, and lets a person zoom, move and choose.
import {store, on, emit, choose, chosenChip, chosenCable} from "./store.js";
import {arrange, chipAt, cableAt, neighbour, chipW, chipH} from "./layout.js";
import {css, get} from "./dom.js";
import {explain, plural, rate, stateWord} from "./format.js";

const canvas = get("map"), pen = canvas.getContext("2d");
let layout = null, dirty = false;
const view = {x: 0, y: 0, k: 1, fitted: true}; // screen = world * k + (x, y)
const dashes = {up: [], fallback: [9, 4], "out of service": [3, 4], training: [5, 4], held: [2, 3], off: [1, 4], unknown: [1, 5], unused: [1, 6]};
export const stateColour = {up: "--up", fallback: "--fallback", "out of service": "--out", training: "--training", held: "--held", off: "--off", unknown: "--unknown", unused: "--unused"};
const hooks = {open: () => {}, pick: () => false};
export const onMap = h => Object.assign(hooks, h);

on("machine", () => { layout = arrange(store.machine); fit(); });
on("state chosen route colour theme", draw);
new ResizeObserver(() => { if (view.fitted) fit(); draw(); }).observe(canvas);

// draw asks for a new picture at the browser's next frame.
export function draw() {
  if (dirty) return;
  dirty = true;
  requestAnimationFrame(() => { dirty = false; paint(); });
}

// fit shows the whole machine.
export function fit() {
  if (!layout) return;
  const w = canvas.clientWidth, h = canvas.clientHeight, room = 26; // room for the legend below
  view.k = Math.max(0.02, Math.min(2.2, w / (layout.width + 20), (h - room) / (layout.height + 20)));
  view.x = (w - layout.width * view.k) / 2;
  view.y = (h - room - layout.height * view.k) / 2;
  view.fitted = true;
  draw();
}

// zoom changes the scale. The point x, y of the screen keeps its place in the machine.
export function zoom(factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
  const k = Math.max(0.03, Math.min(5, view.k * factor));
  view.x = x - (x - view.x) * k / view.k;
  view.y = y - (y - view.y) * k / view.k;
  view.k = k;
  view.fitted = false;
  draw();
}

// show moves the map until the point is well inside.
function show(p) {
  const x = p.x * view.k + view.x, y = p.y * view.k + view.y, w = canvas.clientWidth, h = canvas.clientHeight;
  if (x > 50 && x < w - 50 && y > 40 && y < h - 50) return;
  view.x += w / 2 - x;
  view.y += h / 2 - y;
  view.fitted = false;
}

export const showChip = i => { show(layout.chips[i]); draw(); };
export const showCable = i => { show(layout.cables[i].mid); draw(); };

// paint draws everything. For a machine of 1,024 chips, a frame takes a few milliseconds, because
// lines with one look are one path.
export function paint() {
  if (!layout || !store.state) return;
  const ratio = window.devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
  if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
    canvas.width = Math.round(w * ratio);
    canvas.height = Math.round(h * ratio);
  }
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, w, h);
  pen.setTransform(view.k * ratio, 0, 0, view.k * ratio, view.x * ratio, view.y * ratio);
  paintMeshes();
  paintRoute(true);
  if (store.colour === "load") paintLoads(); else paintStates();
  paintMarks();
  paintChosenCable();
  paintRoute(false);
  paintChips();
}

function paintMeshes() {
  pen.lineWidth = 1 / view.k;
  pen.font = "600 13px system-ui, sans-serif";
  pen.textAlign = "left";
  for (const p of layout.meshes) {
    pen.fillStyle = css("--mesh");
    pen.strokeStyle = css("--line");
    pen.beginPath();
    pen.roundRect(p.x, p.y, p.w, p.h, 14);
    pen.fill();
    pen.stroke();
    if (view.k < 0.25) continue;
    const wraps = [p.mesh.wrap_y && "columns", p.mesh.wrap_x && "rows"].filter(Boolean).join(" and ");
    pen.fillStyle = css("--soft");
    pen.fillText(`mesh ${p.mesh.id} · ${p.mesh.rows}×${p.mesh.cols}${wraps ? " · " + wraps + " wrap" : ""}`, p.x + 14, p.y + 20);
  }
}

const trace = (path, points) => {
  path.moveTo(points[0].x, points[0].y);
  for (let k = 1; k < points.length; k++) path.lineTo(points[k].x, points[k].y);
};

function stroke(groups) {
  pen.lineCap = "butt";
  pen.lineJoin = "round";
  for (const g of groups.values()) {
    pen.strokeStyle = g.colour;
    pen.lineWidth = g.width;
    pen.setLineDash(g.dash);
    pen.stroke(g.path);
  }
  pen.setLineDash([]);
}

function group(groups, colour, width, dash) {
  const key = colour + width + dash;
  let g = groups.get(key);
  if (!g) groups.set(key, g = {colour, width, dash, path: new Path2D()});
  return g.path;
}

function paintStates() {
  const groups = new Map();
  layout.cables.forEach((way, i) => {
    const c = store.state.cables[i];
    const colour = css(c.cut ? "--cut" : stateColour[c.state]);
    const path = group(groups, colour, c.state === "up" && !c.cut ? Math.max(2.4, 1.1 / view.k) : Math.max(3, 2 / view.k), c.cut ? [4, 5] : dashes[c.state] || []);
    trace(path, way.points);
    if (way.more) trace(path, way.more);
  });
  stroke(groups);
}

// loadColour returns the colour of a share of the capacity, in steps.
export function loadColour(use) {
  const mix = (a, b, t) => `color-mix(in srgb, ${css(b)} ${Math.round(t * 100)}%, ${css(a)})`;
  const step = Math.round(Math.max(0, Math.min(1, use)) * 20) / 20;
  return step <= 0.5 ? mix("--load0", "--load1", step * 2) : mix("--load1", "--load2", step * 2 - 1);
}

// paintLoads draws each cable in two halves. The half at an end has the colour of what that end sends.
function paintLoads() {
  const groups = new Map();
  layout.cables.forEach((way, i) => {
    const c = store.state.cables[i];
    const dash = c.state === "up" && !c.cut ? [] : [3, 4];
    const [first, second] = way.more ? [way.points, way.more] : halves(way);
    for (const [points, flow] of [[first, c.ab], [second, c.ba]]) {
      const use = flow?.use || 0;
      trace(group(groups, loadColour(use), Math.max(1.8, 1 / view.k) + Math.max(2.6, 1.5 / view.k) * Math.round(use * 10) / 10, dash), points);
    }
  });
  stroke(groups);
}

function halves(way) {
  if (way.halves) return way.halves;
  const n = way.points.length, k = Math.floor(n / 2);
  return way.halves = n === 2 ? [[way.points[0], way.mid], [way.mid, way.points[1]]]
    : n % 2 ? [way.points.slice(0, k + 1), way.points.slice(k)] : [[...way.points.slice(0, k), way.mid], [way.mid, ...way.points.slice(k)]];
}

// paintMarks draws a cross on a cut cable, a wave on an impaired cable, and a bar on a held one, so that
// colours are not the only sign.
function paintMarks() {
  const size = Math.max(5, 5 / Math.max(view.k, 0.35));
  pen.lineCap = "round";
  store.state.cables.forEach((c, i) => {
    if (!c.cut && !c.impaired && c.state !== "held") return;
    const {x, y} = layout.cables[i].mid;
    pen.lineWidth = size / 2.4;
    pen.strokeStyle = css("--mesh");
    for (const halo of [true, false]) {
      if (!halo) { pen.strokeStyle = css(c.cut ? "--cut" : c.impaired ? "--impaired" : "--held"); }
      pen.lineWidth = halo ? size : size / 2.4;
      pen.beginPath();
      if (c.cut) {
        pen.moveTo(x - size, y - size); pen.lineTo(x + size, y + size);
        pen.moveTo(x - size, y + size); pen.lineTo(x + size, y - size);
      } else if (c.impaired) {
        pen.moveTo(x - size * 1.2, y);
        pen.bezierCurveTo(x - size * .6, y - size * 1.6, x + size * .6, y + size * 1.6, x + size * 1.2, y);
      } else {
        pen.moveTo(x, y - size); pen.lineTo(x, y + size);
      }
      pen.stroke();
    }
  });
}

function paintChosenCable() {
  const i = chosenCable();
  if (i < 0) return;
  const way = layout.cables[i];
  pen.lineWidth = 11;
  pen.lineCap = "round";
  pen.globalAlpha = .35;
  pen.strokeStyle = css("--chosen");
  const path = new Path2D();
  trace(path, way.points);
  if (way.more) trace(path, way.more);
  pen.stroke(path);
  pen.globalAlpha = 1;
}

// paintRoute draws the shown route: first a wide band below the cables, then arrows above them.
function paintRoute(band) {
  const hops = store.route?.hops || [];
  pen.lineCap = "round";
  for (const h of hops) {
    if (h.cable < 0) continue;
    const way = layout.cables[h.cable];
    const parts = way.more ? (h.from_a ? [way.points, [...way.more].reverse()] : [way.more, [...way.points].reverse()]) : [h.from_a ? way.points : [...way.points].reverse()];
    pen.strokeStyle = pen.fillStyle = css(h.detour ? "--fallback" : "--accent");
    if (band) {
      pen.globalAlpha = .3;
      pen.lineWidth = 15;
      const path = new Path2D();
      for (const p of parts) trace(path, p);
      pen.stroke(path);
      pen.globalAlpha = 1;
      continue;
    }
    for (const p of parts) arrow(p);
  }
}

function arrow(points) {
  const k = Math.max(1, Math.ceil((points.length - 1) / 2)), p = points[k - 1], q = points[k];
  const a = Math.atan2(q.y - p.y, q.x - p.x), x = (p.x + 2 * q.x) / 3, y = (p.y + 2 * q.y) / 3, s = 10;
  pen.beginPath();
  pen.moveTo(x + s * Math.cos(a), y + s * Math.sin(a));
  pen.lineTo(x + s * Math.cos(a + 2.4), y + s * Math.sin(a + 2.4));
  pen.lineTo(x + s * Math.cos(a - 2.4), y + s * Math.sin(a - 2.4));
  pen.fill();
}

function paintChips() {
  const s = store.state, m = store.machine, k = view.k;
  const left = -view.x / k, top = -view.y / k, right = left + canvas.clientWidth / k, bottom = top + canvas.clientHeight / k;
  const ends = store.route ? store.route.all ? [store.route.src, ...store.route.hops.filter(h => h.member).map(h => h.to)] : [store.route.src, store.route.dst] : [];
  pen.textAlign = "center";
  layout.chips.forEach((p, i) => {
    if (p.x < left - chipW || p.x > right + chipW || p.y < top - chipH || p.y > bottom + chipH) return;
    const chip = m.chips[i], c = s.chips[i], chosen = chosenChip() === i, end = ends.indexOf(chip.name);
    const bad = c.state === "not running" || c.state === "no answer", odd = c.state !== "answers" && c.state !== "not asked yet";
    pen.beginPath();
    pen.roundRect(p.x - chipW / 2, p.y - chipH / 2, chipW, chipH, 9);
    pen.fillStyle = css(bad ? "--unknown" : "--chip");
    pen.fill();
    pen.lineWidth = chosen || end >= 0 ? 4 : chip.exit ? 2.6 : 1.3;
    pen.strokeStyle = css(chosen || end >= 0 ? "--chosen" : bad ? "--cut" : odd ? "--fallback" : chip.exit ? "--text" : "--chip-edge");
    pen.setLineDash(odd ? [5, 4] : []);
    pen.stroke();
    pen.setLineDash([]);
    if (c.in_flight > 0) { // packets in the chip's channels
      pen.fillStyle = css("--bytes");
      pen.fillRect(p.x - chipW / 2 + 8, p.y + chipH / 2 - 6, Math.min(1, c.in_flight / 64) * (chipW - 16), 3);
    }
    if (chipW * k < 26) return;
    pen.fillStyle = css("--text");
    pen.font = "600 14px system-ui, sans-serif";
    pen.fillText(chipW * k < 44 ? "D" + chip.name.split("D")[1] : chip.name, p.x, p.y + (chipW * k < 44 ? 5 : -2));
    if (chipW * k < 44) return;
    pen.fillStyle = css(odd ? "--cut" : "--soft");
    pen.font = "11px system-ui, sans-serif";
    pen.fillText(odd ? c.state : c.links_up === c.links ? plural(c.links, "link") : `${c.links_up} of ${c.links} links`, p.x, p.y + 13);
    if (end >= 0) {
      pen.fillStyle = css("--accent");
      pen.font = "700 11px system-ui, sans-serif";
      pen.fillText(end === 0 ? "from" : "to", p.x, p.y - chipH / 2 - 5);
    }
  });
}

// Pointers: a drag moves the map, two fingers zoom, a click chooses.
const pointers = new Map();
let moved = 0;
const at = e => { const r = canvas.getBoundingClientRect(); return {x: e.clientX - r.left, y: e.clientY - r.top}; };
const world = p => ({x: (p.x - view.x) / view.k, y: (p.y - view.y) / view.k});

canvas.addEventListener("pointerdown", e => {
  canvas.setPointerCapture(e.pointerId);
  if (pointers.size === 0) moved = 0;
  pointers.set(e.pointerId, at(e));
});
canvas.addEventListener("pointermove", e => {
  const p = at(e), old = pointers.get(e.pointerId);
  if (!old) {
    const w = world(p);
    canvas.style.cursor = layout && (chipAt(layout, w.x, w.y) >= 0 || cableAt(layout, w.x, w.y, 6 / view.k) >= 0) ? "pointer" : "grab";
    return;
  }
  if (pointers.size === 2) {
    const other = [...pointers].find(([id]) => id !== e.pointerId)[1];
    const before = Math.hypot(old.x - other.x, old.y - other.y), after = Math.hypot(p.x - other.x, p.y - other.y);
    if (before > 0) zoom(after / before, (p.x + other.x) / 2, (p.y + other.y) / 2);
    moved = 99;
  } else {
    moved += Math.hypot(p.x - old.x, p.y - old.y);
    if (moved > 4) { view.x += p.x - old.x; view.y += p.y - old.y; view.fitted = false; draw(); }
  }
  pointers.set(e.pointerId, p);
});
const release = e => {
  if (!pointers.delete(e.pointerId) || moved > 4 || e.type === "pointercancel" || !layout) return;
  const w = world(at(e)), chip = chipAt(layout, w.x, w.y), cable = cableAt(layout, w.x, w.y, (e.pointerType === "touch" ? 16 : 8) / view.k);
  if (chip >= 0 && hooks.pick(chip, e.shiftKey)) return;
  choose(chip >= 0 ? {chip} : cable >= 0 ? {cable} : null);
  say();
};
canvas.addEventListener("pointerup", release);
canvas.addEventListener("pointercancel", release);
canvas.addEventListener("dblclick", () => { if (chosenChip() >= 0) hooks.open(); });
canvas.addEventListener("wheel", e => { e.preventDefault(); const p = at(e); zoom(Math.exp(-e.deltaY * (e.ctrlKey ? .01 : .0015)), p.x, p.y); }, {passive: false});

const arrows = {ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1]};
canvas.addEventListener("keydown", e => {
  if (e.ctrlKey || e.metaKey || e.altKey || !layout) return;
  const chip = chosenChip() >= 0 ? chosenChip() : chosenCable() >= 0 ? store.machine.cables[chosenCable()].a : 0;
  if (arrows[e.key]) {
    choose({chip: chosenChip() < 0 ? chip : neighbour(layout, chip, ...arrows[e.key])});
    showChip(chosenChip());
  } else if (e.key === "c" || e.key === "C") {
    const list = store.machine.chips[chip].cables, k = list.indexOf(chosenCable());
    if (list.length) choose({cable: list[(k + (e.shiftKey ? list.length - 1 : 1)) % list.length]});
  } else if (e.key === "Enter") hooks.open();
  else if (e.key === "r" || e.key === "R") hooks.pick(chip, true);
  else if (e.key === "+" || e.key === "=") zoom(1.25);
  else if (e.key === "-") zoom(.8);
  else if (e.key === "0") fit();
  else if (e.key === "Escape") { store.route = null; choose(null); emit("route"); }
  else return;
  e.preventDefault();
  say();
});

// say tells a screen reader what is chosen.
export function say() {
  const m = store.machine, s = store.state, i = chosenChip(), k = chosenCable();
  let text = "nothing chosen";
  if (s && i >= 0) {
    const c = m.chips[i], st = s.chips[i];
    text = `chip ${c.name}, row ${c.row}, column ${c.col}${c.exit ? ", exit node" : ""}, ${st.state}, ${st.links_up} of ${st.links} links up`;
  } else if (s && k >= 0) {
    const c = s.cables[k], why = explain(c);
    text = `cable ${m.cables[k].name}, plane ${m.cables[k].plane}, ${c.cut ? "cut" : stateWord(c)}${why ? ", " + why : ""}, ${rate(c.ab?.bytes)} and ${rate(c.ba?.bytes)}`;
  }
  get("said").textContent = text;
}

// frames draws n frames at once, and returns the milliseconds of one frame. The test of the page calls
// frames.
export function frames(n) {
  const begin = performance.now();
  for (let i = 0; i < n; i++) paint();
  pen.getImageData(0, 0, 1, 1); // waits until the drawing is done
  return (performance.now() - begin) / n;
}

// placeOf returns where a chip or the middle of a cable is on the screen, as [x, y].
export function placeOf({chip, cable}) {
  const p = chip !== undefined ? layout.chips[chip] : layout.cables[cable].mid, r = canvas.getBoundingClientRect();
  return [r.left + p.x * view.k + view.x, r.top + p.y * view.k + view.y];
}
