// The time line: load, frames sent again and losses over time, and a mark for each event.
import {store, on, emit} from "./store.js";
import {fitted} from "./plot.js";
import {css, get} from "./dom.js";
import {clock, count, perSecond, rate} from "./format.js";

const canvas = get("line");
const span = 180_000; // milliseconds on the line
const marks = {fault: ["--cut", 0], loss: ["--lost", 1], down: ["--fallback", 2], good: ["--up", 2], other: ["--soft", 3]};
let dirty = false, now = 0;
let go = () => {};
export const onTime = f => { go = f; };
let hover = -1; // x of the pointer

on("state events theme", draw);
new ResizeObserver(draw).observe(canvas);

function draw() {
  if (dirty) return;
  dirty = true;
  requestAnimationFrame(() => { dirty = false; paint(); });
}

const left = 8, right = 8, top = 34, bottom = 18;
const xOf = (t, w) => left + (w - left - right) * (1 - (now - t) / span);

function paint() {
  if (!store.state) return;
  const {pen, w, h} = fitted(canvas);
  now = Math.max(Date.parse(store.state.time), store.events.at(-1)?.t || 0) || Date.now();
  const rows = store.trend.filter(r => r.t > now - span), base = h - bottom, high = base - top;
  grid(pen, w, h, base);
  const most = Math.max(1, ...rows.map(r => r.bytes)), again = Math.max(1, ...rows.map(r => r.resent)), lost = Math.max(1, ...rows.map(r => r.lost));
  area(pen, rows, r => r.bytes / most, w, base, high, "--bytes", true);
  area(pen, rows, r => r.resent / again * .6, w, base, high, "--resent", false);
  pen.fillStyle = css("--lost");
  for (const r of rows) if (r.lost > 0) pen.fillRect(xOf(r.t, w) - 1.5, base - Math.max(4, high * r.lost / lost), 3, Math.max(4, high * r.lost / lost));
  const recent = store.events.filter(e => e.t > now - span);
  for (const kind of ["other", "good", "down", "loss", "fault"]) for (const e of recent) if (e.kind === kind) mark(pen, e, xOf(e.t, w)); // causes lie on top
  caption(pen, rows, w, most);
  const last = rows.at(-1);
  canvas.setAttribute("aria-label", `Time line of three minutes. Now ${rate(last?.bytes)}, ${perSecond(last?.resent)} frames sent again, ${count(rows.reduce((n, r) => n + r.lost, 0))} packets lost or dropped, ${recent.length} events.`);
}

function grid(pen, w, h, base) {
  pen.font = "11px system-ui, sans-serif";
  pen.textAlign = "center";
  pen.strokeStyle = css("--line");
  pen.fillStyle = css("--soft");
  pen.lineWidth = 1;
  const step = w < 500 ? 60_000 : 30_000;
  for (let t = Math.ceil((now - span) / step) * step; t <= now; t += step) {
    const x = Math.round(xOf(t, w)) + .5;
    pen.beginPath(); pen.moveTo(x, 20); pen.lineTo(x, base); pen.stroke();
    if (x > 30 && x < w - 30) pen.fillText(clock(t).slice(0, 8), x, h - 5);
  }
  pen.beginPath(); pen.moveTo(left, base + .5); pen.lineTo(w - right, base + .5); pen.stroke();
}

function area(pen, rows, value, w, base, high, colour, filled) {
  if (rows.length < 2) return;
  pen.beginPath();
  rows.forEach((r, i) => { const x = xOf(r.t, w), y = base - high * value(r); if (i) pen.lineTo(x, y); else pen.moveTo(x, y); });
  pen.strokeStyle = css(colour);
  pen.lineWidth = 1.6;
  pen.stroke();
  if (!filled) return;
  pen.lineTo(xOf(rows.at(-1).t, w), base);
  pen.lineTo(xOf(rows[0].t, w), base);
  pen.fillStyle = css(colour);
  pen.globalAlpha = .18;
  pen.fill();
  pen.globalAlpha = 1;
}

// mark draws a sign for an event: a fault hangs from the top, good news stand up.
function mark(pen, e, x) {
  const [colour, row] = marks[e.kind] || marks.other;
  pen.fillStyle = css(colour);
  pen.beginPath();
  if (row === 0) { pen.moveTo(x - 5, 20); pen.lineTo(x + 5, 20); pen.lineTo(x, 30); }
  else if (row === 1) pen.rect(x - 3, 22, 6, 6);
  else if (e.kind === "good") { pen.moveTo(x - 4, 29); pen.lineTo(x + 4, 29); pen.lineTo(x, 22); }
  else if (row === 2) { pen.moveTo(x - 4, 22); pen.lineTo(x + 4, 22); pen.lineTo(x, 29); }
  else pen.rect(x - .7, 22, 1.4, 7);
  pen.fill();
}

function caption(pen, rows, w, most) {
  pen.font = "12px system-ui, sans-serif";
  pen.textAlign = "left";
  let x = left;
  const say = (colour, text) => {
    pen.fillStyle = css(colour);
    pen.fillRect(x, 5, 10, 8);
    pen.fillStyle = css("--text");
    pen.fillText(text, x + 14, 13);
    x += 26 + pen.measureText(text).width;
  };
  const at = hover >= 0 ? nearest(rows, hover, w) : rows.at(-1);
  say("--bytes", rate(at?.bytes) + (w > 500 ? ` (highest ${rate(most)})` : ""));
  say("--resent", perSecond(at?.resent) + " sent again");
  say("--lost", count(hover >= 0 ? at?.lost : rows.reduce((n, r) => n + r.lost, 0)) + " lost");
  if (hover >= 0 && at) {
    const px = xOf(at.t, w);
    pen.fillStyle = css("--text");
    pen.fillRect(px, 20, 1, canvas.clientHeight - bottom - 20);
    pen.textAlign = px > w / 2 ? "right" : "left";
    pen.fillText(clock(at.t).slice(0, 8), px + (px > w / 2 ? -5 : 5), 46);
  } else if (w > 640) {
    pen.textAlign = "right";
    pen.fillStyle = css("--soft");
    pen.fillText("▼ fault  ▾ down  ▴ up  ■ loss", w - right, 13);
  }
}

const nearest = (rows, x, w) => rows.reduce((best, r) => !best || Math.abs(xOf(r.t, w) - x) < Math.abs(xOf(best.t, w) - x) ? r : best, null);

canvas.addEventListener("pointermove", e => { hover = e.clientX - canvas.getBoundingClientRect().left; draw(); });
canvas.addEventListener("pointerleave", () => { hover = -1; draw(); });
canvas.addEventListener("click", e => {
  const w = canvas.clientWidth, x = e.clientX - canvas.getBoundingClientRect().left;
  let best = -1;
  store.events.forEach((v, i) => { if (best < 0 || Math.abs(xOf(v.t, w) - x) <= Math.abs(xOf(store.events[best].t, w) - x)) best = i; });
  if (best >= 0) go(best);
});
let step = -1;
canvas.addEventListener("keydown", e => {
  if (e.key !== "ArrowLeft" && e.key !== "ArrowRight") return;
  const n = store.events.length;
  if (!n) return;
  step = Math.max(0, Math.min(n - 1, (step < 0 ? n : step) + (e.key === "ArrowLeft" ? -1 : 1)));
  go(step);
  get("said").textContent = store.events[step].text;
  canvas.focus();
  e.preventDefault();
});
export const redraw = () => emit("events");
