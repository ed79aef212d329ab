// What the page knows: the machine, its state, events, and what a person has chosen. Each view
// registers for the kinds of changes that it shows.
const keptEvents = 1000, keptRows = 300;

export const store = {
  machine: null, control: false,
  state: null,          // the latest state, see the Go type picture.State
  events: [],           // oldest first
  trend: [],            // totals over time: {t, bytes, resent, lost, flight}
  loads: [],            // for each cable, the latest loads: bytes per second, both directions together
  chosen: null,         // {chip: i} or {cable: i}
  route: null,          // the shown route, see the Go type picture.Route
  colour: "state",      // or "load"
};

const listeners = {};
const seen = new Set();

export function on(kinds, f) { for (const k of kinds.split(" ")) (listeners[k] ||= []).push(f); }
export function emit(kind) { for (const f of listeners[kind] || []) f(); }

// welcome takes what the server says first about the machine.
export function welcome(hello) {
  store.machine = hello.machine;
  store.control = hello.control;
  const m = store.machine;
  m.chips.forEach(c => { c.cables = []; });
  m.cables.forEach((c, i) => { m.chips[c.a].cables.push(i); m.chips[c.b].cables.push(i); });
  m.chipByName = new Map(m.chips.map((c, i) => [c.name, i]));
  m.cableByName = new Map(m.cables.map((c, i) => [c.name, i]));
  store.loads = m.cables.map(() => []);
  emit("machine");
}

// whole takes the whole state and the past events.
export function whole(data) {
  store.state = data.state;
  store.events = [];
  seen.clear();
  for (const e of data.events) addEvent(e);
  emit("state"); emit("events");
}

// changes takes what differs from the state before.
export function changes(data) {
  const s = store.state;
  if (!s) return;
  s.seq = data.seq; s.time = data.time; s.total = data.total;
  for (const c of data.chips) s.chips[c.i] = c;
  for (const c of data.cables) s.cables[c.i] = c;
  const t = data.total;
  store.trend.push({t: Date.parse(data.time), bytes: t.bytes, resent: t.resent, lost: t.dropped + t.lost, flight: t.in_flight});
  if (store.trend.length > keptRows) store.trend.shift();
  s.cables.forEach((c, i) => {
    const row = store.loads[i];
    row.push((c.ab?.bytes || 0) + (c.ba?.bytes || 0));
    if (row.length > 60) row.shift();
  });
  emit("state");
}

export function addEvent(e) {
  if (seen.has(e.id + e.chip)) return;
  seen.add(e.id + e.chip);
  e.t = Date.parse(e.time);
  let i = store.events.length;
  while (i > 0 && store.events[i - 1].t > e.t) i--;
  store.events.splice(i, 0, e);
  if (store.events.length > keptEvents) {
    // A fault stays longer than its consequences.
    const k = Math.max(0, store.events.findIndex(v => v.kind !== "fault")), [old] = store.events.splice(k, 1);
    seen.delete(old.id + old.chip);
  }
}

// past takes the history of the whole fabric from before the page was opened.
export function past(h) {
  const first = store.trend.length ? store.trend[0].t : Infinity;
  const old = h.time.map((t, i) => ({t: Date.parse(t), bytes: h.ab[i], flight: h.ba[i], resent: h.resent[i], lost: h.lost[i]})).filter(r => r.t < first);
  store.trend = old.concat(store.trend).slice(-keptRows);
  emit("state");
}

// choose chooses a chip ({chip: i}), a cable ({cable: i}) or nothing (null).
export function choose(what) {
  store.chosen = what;
  emit("chosen");
}

export const chosenChip = () => store.chosen && "chip" in store.chosen ? store.chosen.chip : -1;
export const chosenCable = () => store.chosen && "cable" in store.chosen ? store.chosen.cable : -1;

// trouble lists the cables that are not simply up, the worst first.
export function trouble() {
  const s = store.state;
  if (!s) return [];
  const rank = c => c.cut ? 0 : c.state !== "up" ? 1 : 2;
  return s.cables.map((c, i) => ({c, i})).filter(({c}) => c.state !== "unused" && (c.state !== "up" || c.cut || c.impaired || c.silent || c.miswired || c.router))
    .sort((x, y) => rank(x.c) - rank(y.c) || x.i - y.i);
}
