// Numbers and states as text.

const scale = (n, units, step) => {
  let i = 0;
  while (n >= step && i < units.length - 1) { n /= step; i++; }
  return (n >= 100 || i === 0 ? Math.round(n) : n.toPrecision(3)) + " " + units[i];
};

// rate returns bytes per second as bits per second, as the tables of the commands do.
export const rate = bytes => scale((bytes || 0) * 8, ["b/s", "kb/s", "Mb/s", "Gb/s"], 1000);
export const count = n => (n || 0).toLocaleString("en");
export const perSecond = n => scale(n || 0, ["/s", "k/s", "M/s"], 1000).replace(" ", "");
export const bytes = n => scale(n || 0, ["B", "KiB", "MiB", "GiB"], 1024);
export const percent = share => Math.round((share || 0) * 100) + " %";
export const plural = (n, noun) => count(n) + " " + noun + (n === 1 ? "" : "s");

export function clock(t) {
  const d = new Date(t), two = n => String(n).padStart(2, "0");
  return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}.${String(d.getMilliseconds()).padStart(3, "0")}`;
}

export function duration(seconds) {
  if (seconds < 1) return Math.round(seconds * 1000) + " ms";
  if (seconds < 120) return seconds.toFixed(seconds < 10 ? 1 : 0) + " s";
  if (seconds < 7200) return Math.round(seconds / 60) + " min";
  return Math.round(seconds / 3600) + " h";
}

const words = {up: "up", fallback: "by fallback", "out of service": "out of service", training: "training", held: "held", off: "off", unknown: "unknown", unused: "unused"};
export const stateWord = c => words[c.state] || c.state;
export const stateClass = c => "s-" + (c.cut ? "cut" : c.state === "out of service" ? "out" : c.state);

// explain says in a sentence what is special about a cable.
export function explain(c) {
  const said = [];
  if (c.cut) said.push("cut on purpose");
  if (c.state === "fallback") said.push("its frames go by " + (c.by || "another cable"));
  if (c.state === "out of service") said.push(c.avoided ? "an operator took it out of service" : "the routes avoid it");
  if (c.state === "held") said.push("held, because it failed too often");
  if (c.training && c.state !== "held") said.push("its ends train" + (c.last_down && c.last_down !== "none" ? " after: " + c.last_down : ""));
  if (c.state === "unknown") said.push("no chip at the cable answers");
  if (c.impaired) said.push("impaired: " + c.impaired);
  if (c.silent) said.push("an end hears nothing from the other");
  if (c.unreliable) said.push("unreliable");
  if (c.miswired) said.push("leads to " + c.miswired);
  if (c.raw) said.push("in compliance mode");
  if (c.router) said.push("a router is " + c.router);
  return said.join("; ");
}
