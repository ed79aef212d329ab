// The tabs "Links", "Events" and "Losses".
import {store} from "./store.js";
import {el} from "./dom.js";
import {tiny} from "./plot.js";
import {call} from "./key.js";
import {clock, count, explain, perSecond, plural, rate} from "./format.js";
import {cableLink, pickCable, pickChip, tagOf} from "./details.js";

const mostRows = 300;
const chosen = {sort: "state", filter: "", kinds: new Set(["fault", "loss", "down", "good", "other"])};
const order = {off: 0, unknown: 1, training: 2, held: 3, "out of service": 4, fallback: 5, up: 6, unused: 7};
const load = c => (c.ab?.bytes || 0) + (c.ba?.bytes || 0), again = c => (c.ab?.resent || 0) + (c.ba?.resent || 0);

export function links(redraw) {
  const s = store.state, m = store.machine;
  if (!s) return [];
  const rank = {state: (a, b) => (order[a.c.state] - (a.c.cut ? 10 : a.c.impaired ? .5 : 0)) - (order[b.c.state] - (b.c.cut ? 10 : b.c.impaired ? .5 : 0)), load: (a, b) => load(b.c) - load(a.c), resent: (a, b) => again(b.c) - again(a.c)};
  const rows = s.cables.map((c, i) => ({c, i})).filter(({c, i}) => !chosen.filter || m.cables[i].name.toLowerCase().includes(chosen.filter) || c.state.includes(chosen.filter) || c.cut && "cut".includes(chosen.filter))
    .sort((a, b) => rank[chosen.sort](a, b) || a.i - b.i);
  const most = Math.max(1, ...s.cables.map(load));
  return [
    el("div", {class: "row"},
      el("label", {}, "Order ", el("select", {id: "link-order", onchange: e => { chosen.sort = e.target.value; redraw(); }}, ["state", "load", "resent"].map(k => el("option", {value: k, selected: k === chosen.sort}, k === "resent" ? "sent again" : k)))),
      el("label", {}, "Show ", el("input", {id: "link-filter", value: chosen.filter, placeholder: "M0D3, held …", size: 9, oninput: e => { chosen.filter = e.target.value.toLowerCase(); redraw(); }}))),
    el("p", {class: "soft"}, Object.entries(s.total.states).sort((a, b) => order[b[0]] - order[a[0]]).map(([k, n]) => `${count(n)} ${k}`).join(", "), s.total.cut ? `, ${count(s.total.cut)} cut` : "", s.total.impaired ? `, ${count(s.total.impaired)} impaired` : ""),
    el("table", {}, el("thead", {}, el("tr", {}, el("th", {}, "Cable"), el("th", {}, "State"), el("th", {}, "Load"), el("th", {class: "n"}, "Rate"), el("th", {class: "n"}, "Resent"))),
      el("tbody", {}, rows.slice(0, mostRows).map(({c, i}) => el("tr", {title: explain(c)}, el("td", {}, cableLink(i)), el("td", {}, tagOf(c), c.impaired && !c.cut ? el("span", {class: "s-impaired"}, " ~") : null),
        el("td", {}, tiny(store.loads[i], most)), el("td", {class: "n"}, rate(load(c))), el("td", {class: "n"}, perSecond(again(c))))))),
    rows.length > mostRows ? el("p", {class: "soft"}, `and ${plural(rows.length - mostRows, "cable")} more; filter to see them`) : null,
  ];
}

export const eventView = {at: -1};

export function events(redraw) {
  const names = {fault: "faults", loss: "losses", down: "failures", good: "recoveries", other: "others"};
  const list = store.events.map((e, i) => ({e, i})).filter(({e}) => chosen.kinds.has(e.kind));
  const end = eventView.at < 0 ? list.length : Math.min(list.length, list.findIndex(x => x.i >= eventView.at) + 40);
  const shown = list.slice(Math.max(0, end - mostRows), end).reverse();
  const pick = e => e.cable >= 0 ? pickCable(e.cable) : e.about >= 0 ? pickChip(e.about) : null;
  return [
    el("div", {class: "row", role: "group", "aria-label": "Kinds of events"}, Object.entries(names).map(([k, name]) => el("label", {}, el("input", {type: "checkbox", id: "kind-" + k, checked: chosen.kinds.has(k),
      onchange: e => { if (e.target.checked) chosen.kinds.add(k); else chosen.kinds.delete(k); redraw(); }}), " " + name))),
    eventView.at >= 0 ? el("button", {id: "newest", onclick: () => { eventView.at = -1; redraw(); }}, "Back to the newest") : null,
    shown.length === 0 ? el("p", {class: "soft"}, "No event.") : el("ul", {class: "events"}, shown.map(({e, i}) => {
      const act = pick(e);
      return el("li", {class: "k-" + e.kind + (act ? " pick" : ""), id: "event-" + i, "aria-current": i === eventView.at ? "true" : null, onclick: act},
        el("time", {}, clock(e.t)), act ? el("button", {class: "link", onclick: act}, e.text) : e.text, e.lost ? el("b", {class: "s-cut"}, ` ${count(e.lost)} lost`) : null);
    })),
  ];
}

// losses shows the balance of all packets. The server asks the chips for the balance at most once a
// second.
let balance = null, asking = false, failed = "";
export function losses(redraw) {
  if (!asking && (!balance || Date.now() - balance.at > 2000)) {
    asking = true;
    call("api/losses").then(b => { balance = {...b, at: Date.now()}; failed = ""; }).catch(e => { failed = e.message; }).finally(() => { asking = false; redraw(); });
  }
  if (failed) return [el("p", {class: "note"}, failed)];
  if (!balance) return [el("p", {class: "soft"}, "Asking the chips.")];
  const t = balance.total, entered = t.injected + t.copied + t.from_gone;
  const rows = [["Delivered", t.delivered], ["On the way", t.in_flight], ["Dropped by routers", t.dropped], ["Lost on links", t.lost], ["Outcome unknown", t.unknown], ["To chips that restarted or died", t.to_gone]];
  const bad = balance.links.filter(l => sum(l.lost) + sum(l.unknown) > 0);
  return [
    el("p", {}, el("b", {}, count(entered)), " packets entered the fabric since its chips started."),
    el("table", {}, el("tbody", {}, rows.map(([name, n], i) => el("tr", {class: i > 1 && i < 5 && n > 0 ? "s-cut" : ""}, el("td", {}, name), el("td", {class: "n"}, count(n)), el("td", {class: "n"}, entered ? (100 * n / entered).toFixed(i > 1 && n > 0 ? 4 : 1) + " %" : ""))))),
    balance.at_rest || t.unexplained === 0 ? null : el("p", {class: "soft"}, `The chips answered at different instants while packets moved, so the sum differs by ${count(Math.abs(t.unexplained))}.`),
    el("h3", {}, "Dropped, by reason"),
    t.dropped === 0 ? el("p", {class: "soft"}, "none") : el("table", {}, el("tbody", {}, Object.entries(balance.dropped).filter(([, n]) => n > 0).map(([k, n]) => el("tr", {}, el("td", {}, k), el("td", {class: "n"}, count(n)))))),
    el("h3", {}, "Lost on links, or of unknown outcome"),
    bad.length === 0 ? el("p", {class: "soft"}, "none") : el("table", {}, el("thead", {}, el("tr", {}, el("th", {}, "From"), el("th", {}, "To"), el("th", {class: "n"}, "Lost"), el("th", {class: "n"}, "Unknown"))),
      el("tbody", {}, bad.map(l => el("tr", {}, el("td", {}, `${l.src}/${l.src_channel}`), el("td", {}, `${l.dst}/${l.dst_channel}`), el("td", {class: "n"}, count(sum(l.lost))), el("td", {class: "n"}, count(sum(l.unknown))))))),
    balance.no_answer.length ? el("p", {class: "note"}, "No answer: " + balance.no_answer.join(", ")) : null,
  ];
}
const sum = o => Object.values(o).reduce((n, v) => n + v, 0);
