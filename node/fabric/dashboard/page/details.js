// The tab "Details": the fabric as a whole, or the chosen chip or cable.
import {store, choose, chosenCable, chosenChip, trouble} from "./store.js";
import {el} from "./dom.js";
import {plot, tiny} from "./plot.js";
import {call} from "./key.js";
import {bytes, clock, count, explain, percent, perSecond, plural, rate, stateClass, stateWord} from "./format.js";
import {showCable, showChip} from "./map.js";
import {cableControls, chipControls, fabricControls} from "./control.js";

export const tagOf = c => el("span", {class: "tag " + stateClass(c)}, c.cut ? "cut" : stateWord(c));
export const pickCable = i => () => { choose({cable: i}); showCable(i); };
export const pickChip = i => () => { choose({chip: i}); showChip(i); };
export const cableLink = (i, text) => el("button", {class: "link", id: "cable-" + i, onclick: pickCable(i)}, text || store.machine.cables[i].name);
export const chipLink = (i, text) => el("button", {class: "link", onclick: pickChip(i)}, text || store.machine.chips[i].name);

export function details(actions) {
  const chip = chosenChip(), cable = chosenCable();
  if (!store.state) return [el("p", {class: "soft"}, "Waiting for the chips.")];
  return chip >= 0 ? chipDetails(chip, actions) : cable >= 0 ? cableDetails(cable) : fabricDetails();
}

function fabricDetails() {
  const s = store.state, m = store.machine, bad = trouble(), chips = s.chips.map((c, i) => ({c, i})).filter(x => x.c.state !== "answers");
  const busy = s.cables.map((c, i) => ({i, n: (c.ab?.bytes || 0) + (c.ba?.bytes || 0), c})).filter(x => x.n > 0).sort((a, b) => b.n - a.n).slice(0, 6);
  return [
    el("h2", {}, m.fabric), el("p", {class: "soft"}, m.summary),
    el("h3", {}, "Needs attention"),
    bad.length + chips.length === 0 ? el("p", {class: "calm"}, "All chips answer, and all cables carry their own links.") : null,
    chips.slice(0, 12).map(({c, i}) => el("p", {class: "note"}, chipLink(i), " ", c.state)),
    bad.slice(0, 20).map(({c, i}) => el("p", {class: c.cut || c.state !== "up" ? "note" : "calm"}, cableLink(i), " ", tagOf(c), " ", el("span", {class: "soft"}, explain(c)))),
    bad.length > 20 ? el("p", {class: "soft"}, `and ${plural(bad.length - 20, "cable")} more; the tab Links has all`) : null,
    el("h3", {}, "Busiest cables"),
    busy.length === 0 ? el("p", {class: "soft"}, "No cable carries anything.") : el("table", {}, el("tbody", {},
      busy.map(({i, n, c}) => el("tr", {}, el("td", {}, cableLink(i)), el("td", {}, tiny(store.loads[i], Math.max(...busy.map(b => b.n)))), el("td", {class: "n"}, rate(n)),
        el("td", {class: "n"}, percent(Math.max(c.ab?.use || 0, c.ba?.use || 0))))))),
    el("p", {class: "soft"}, `100 % is the rate limit of a cable, or else the highest rate of one direction so far, at least 8.39 Mb/s: now ${rate(s.total.scale)}.`),
    fabricControls(),
    el("h3", {}, "How to read the map"),
    el("p", {class: "soft"}, "Click a chip or a cable. Shift and a click on a second chip show the route from the first. Keys: arrows, C for cables, Enter for routers of a chip, R for a route, + and −, 0, Escape."),
  ];
}

// cableDetails shows a cable. Its history comes from the server once, and then grows with the states.
let past = {cable: -1, rows: []};
function cableDetails(i) {
  const info = store.machine.cables[i], c = store.state.cables[i], chips = store.machine.chips;
  if (past.cable !== i) {
    past = {cable: i, rows: []};
    call("api/history?cable=" + i).then(h => {
      if (past.cable === i) past.rows = h.time.map((t, k) => ({t, ab: h.ab[k], ba: h.ba[k], resent: h.resent[k]})).concat(past.rows.filter(r => r.t > (h.time.at(-1) || "")));
    }).catch(() => {});
  }
  if (past.rows.at(-1)?.t !== store.state.time) past.rows.push({t: store.state.time, ab: c.ab?.bytes || 0, ba: c.ba?.bytes || 0, resent: (c.ab?.resent || 0) + (c.ba?.resent || 0)});
  past.rows = past.rows.slice(-300);
  const a = chips[info.a].name, b = chips[info.b].name, why = explain(c), rows = past.rows.slice(-120);
  const most = Math.max(1, ...rows.map(r => Math.max(r.ab, r.ba)));
  const flow = (from, to, f, list) => [
    el("h3", {}, `${from} → ${to}`),
    el("div", {class: "row"}, el("b", {}, rate(f?.bytes)), el("span", {}, percent(f?.use)), el("span", {class: "soft"}, perSecond(f?.packets) + " packets, " + perSecond(f?.resent) + " sent again")),
    plot([{values: list, colour: "--bytes"}], most, `Rate from ${from} to ${to} over the last minutes, now ${rate(f?.bytes)}, highest ${rate(Math.max(0, ...list))}`),
  ];
  return [
    el("h2", {}, info.name), el("p", {}, tagOf(c), c.impaired && !c.cut ? [" ", el("span", {class: "tag s-impaired"}, "impaired")] : null),
    why ? el("p", {class: c.state === "up" && !c.cut ? "calm" : "note"}, why) : null,
    c.by ? el("p", {}, "Carried by ", cableLink(store.machine.cableByName.get(c.by), c.by)) : null,
    el("dl", {}, el("dt", {}, "Ends"), el("dd", {}, chipLink(info.a), ` channel ${info.a_channel} (${info.dir}), `, chipLink(info.b), ` channel ${info.b_channel} (${info.back})`),
      el("dt", {}, "Plane"), el("dd", {}, info.plane, info.wrap ? ", wraps" : "", info.external ? ", between meshes" : "", info.unused ? ", unused" : ""),
      el("dt", {}, "Round trip"), el("dd", {}, count(c.rtt), " µs"), el("dt", {}, "Came up again"), el("dd", {}, plural(c.retrains || 0, "time"))),
    flow(a, b, c.ab, rows.map(r => r.ab)), flow(b, a, c.ba, rows.map(r => r.ba)),
    el("h3", {}, "Frames sent again, both directions"),
    plot([{values: rows.map(r => r.resent), colour: "--resent"}], Math.max(1, ...rows.map(r => r.resent)), `Frames sent again per second, now ${rows.at(-1)?.resent || 0}`),
    cableControls(i),
    recent(e => e.cable === i),
  ];
}

function chipDetails(i, actions) {
  const info = store.machine.chips[i], c = store.state.chips[i];
  return [
    el("h2", {}, info.name), el("p", {class: "soft"}, `row ${info.row}, column ${info.col}`, info.umd !== undefined ? `, UMD ${info.umd}` : "", info.board ? ", " + info.board : "", info.mmio ? ", reached by the host" : "", info.exit ? ", exit node" : ""),
    c.state !== "answers" ? el("p", {class: "note"}, c.state) : null,
    el("div", {class: "row"}, el("button", {id: "open-figure", onclick: actions.figure}, "Routers and channels"), el("button", {id: "route-from", onclick: actions.routeFrom}, "Route from here")),
    el("dl", {}, el("dt", {}, "Links up"), el("dd", {}, `${c.links_up} of ${c.links}`), el("dt", {}, "Requests open"), el("dd", {}, count(c.open)), el("dt", {}, "Packets held"), el("dd", {}, count(c.in_flight)),
      el("dt", {}, "Packets dropped"), el("dd", {}, count(c.dropped)), el("dt", {}, "Requests lost"), el("dd", {}, `${count(c.lost)}, outcome unknown ${count(c.unknown)}`), el("dt", {}, "Table epoch"), el("dd", {}, c.epoch || "–"),
      c.starved ? [el("dt", {}, "Starved"), el("dd", {}, plural(c.starved, "time"))] : null),
    el("h3", {}, "Cables"),
    el("table", {}, el("thead", {}, el("tr", {}, el("th", {}, "To"), el("th", {}, "Plane"), el("th", {}, "State"), el("th", {class: "n"}, "Out"), el("th", {class: "n"}, "In"))),
      el("tbody", {}, info.cables.map(k => {
        const cable = store.machine.cables[k], s = store.state.cables[k], isA = cable.a === i;
        return el("tr", {}, el("td", {}, cableLink(k, `${isA ? cable.dir : cable.back} ${store.machine.chips[isA ? cable.b : cable.a].name}/${isA ? cable.b_channel : cable.a_channel}`)), el("td", {}, cable.plane), el("td", {}, tagOf(s)),
          el("td", {class: "n"}, rate((isA ? s.ab : s.ba)?.bytes)), el("td", {class: "n"}, rate((isA ? s.ba : s.ab)?.bytes)));
      }))),
    chipControls(i),
    recent(e => e.about === i || e.chip === info.name),
  ];
}

// recent lists the latest events that concern the chosen thing.
function recent(wanted) {
  const list = store.events.filter(wanted).slice(-8).reverse();
  return [el("h3", {}, "Latest events"), list.length === 0 ? el("p", {class: "soft"}, "none") : el("ul", {class: "events"}, list.map(e => el("li", {class: "k-" + e.kind}, el("time", {}, clock(e.t)), e.text)))];
}

export {bytes};
