// The tab "Route": the route between two chips, by the present tables, with the virtual channels.
import {store, on, emit} from "./store.js";
import {el} from "./dom.js";
import {call} from "./key.js";
import {cableLink, chipLink} from "./details.js";
import {plural} from "./format.js";

const wanted = {src: -1, dst: -1, plane: 0, all: 0};
let picking = "", failed = "", redraw = () => {}, asked = "";
export const onRoute = f => { redraw = f; };

// The page asks for the route again after each new state, because the tables may have changed.
on("state", () => { if (store.route) ask(); });

// routeFrom makes chip i the source. The next chip that a person picks is the destination.
export function routeFrom(i) {
  Object.assign(wanted, {src: i, dst: -1});
  picking = "dst";
  store.route = null;
  emit("route");
  redraw();
}

// pick takes a picked chip as an end of the route. The result is false if the route needs no chip.
export function pick(i) {
  if (!picking) return false;
  wanted[picking] = i;
  picking = picking === "src" && wanted.dst < 0 ? "dst" : "";
  ask();
  redraw();
  return true;
}

async function ask() {
  const m = store.machine;
  if (wanted.src < 0 || wanted.dst < 0) return;
  const q = `api/route?src=${m.chips[wanted.src].name}&dst=${m.chips[wanted.dst].name}&plane=${wanted.plane}&all=${wanted.all}`;
  asked = q;
  try {
    const r = await call(q);
    if (asked !== q) return;
    failed = "";
    const changed = JSON.stringify(r) !== JSON.stringify(store.route);
    store.route = r;
    if (changed) { emit("route"); redraw(); }
  } catch (e) { failed = e.message; redraw(); }
}

export function route() {
  const m = store.machine, r = store.route;
  const choice = (key, label) => el("label", {}, label + " ", el("select", {id: "route-" + key, onchange: e => { wanted[key] = +e.target.value; ask(); }},
    el("option", {value: -1, selected: wanted[key] < 0}, "choose"), m.chips.map((c, i) => el("option", {value: i, selected: wanted[key] === i}, c.name))));
  return [
    el("div", {class: "row"}, choice("src", "From"), choice("dst", "To"),
      el("label", {}, "Plane ", el("select", {id: "route-plane", onchange: e => { wanted.plane = +e.target.value; ask(); }}, Array.from({length: Math.max(1, m.planes)}, (_, p) => el("option", {value: p, selected: wanted.plane === p}, p)))),
      el("label", {}, "As ", el("select", {id: "route-as", onchange: e => { wanted.all = +e.target.value; ask(); }},
        ["unicast", "multicast"].map((text, k) => el("option", {value: k, selected: wanted.all === k}, text))))),
    el("div", {class: "row"},
      el("button", {id: "route-pick", "aria-pressed": picking ? "true" : "false", onclick: () => { picking = picking ? "" : "src"; if (picking) { Object.assign(wanted, {src: -1, dst: -1}); store.route = null; emit("route"); } redraw(); }},
        picking === "src" ? "Now pick the first chip" : picking === "dst" ? "Now pick the other chip" : "Pick two chips on the map"),
      el("button", {id: "route-swap", disabled: wanted.src < 0 || wanted.dst < 0, onclick: () => { [wanted.src, wanted.dst] = [wanted.dst, wanted.src]; ask(); }}, "Way back"),
      el("button", {id: "route-clear", disabled: !r, onclick: () => { store.route = null; Object.assign(wanted, {src: -1, dst: -1}); picking = ""; emit("route"); redraw(); }}, "Clear")),
    failed ? el("p", {class: "note"}, failed) : null,
    r?.none ? el("p", {class: "note"}, r.none) : null,
    r?.hops.length ? [
      el("p", {}, r.all ? `A tree of ${plural(r.hops.length, "hop")} from ${r.src} to the ${plural(r.hops.filter(h => h.member).length, "chip")} ${m.chips[wanted.src]?.mesh === m.chips[wanted.dst]?.mesh ? "of the rectangle with the corners " + r.src + " and " + r.dst : "of the mesh of " + r.dst}, on plane ${r.plane}, by the present tables.`
        : `${plural(r.hops.length, "hop")} from ${r.src} to ${r.dst} on plane ${r.plane}, for requests, by the present tables.`),
      el("table", {}, el("thead", {}, el("tr", {}, el("th", {}, "Hop"), el("th", {}, "From"), el("th", {}, ""), el("th", {}, "To"), el("th", {}, "Virtual channel"), el("th", {}, "By"))),
        el("tbody", {}, r.hops.map((h, i) => el("tr", {}, el("td", {}, i + 1), el("td", {}, chipLink(m.chipByName.get(h.from), h.from)), el("td", {}, h.direction), el("td", {class: r.all && !h.member ? "soft" : ""}, chipLink(m.chipByName.get(h.to), h.to)),
          el("td", {class: h.detour ? "s-fallback" : ""}, h.vc), el("td", {}, h.cable >= 0 ? cableLink(h.cable, "channel " + (h.from_a ? m.cables[h.cable].a_channel : m.cables[h.cable].b_channel)) : ""))))),
      r.hops.some(h => h.detour) ? el("p", {class: "soft"}, "A detour channel leads round a fault.") : null,
    ] : null,
  ];
}
