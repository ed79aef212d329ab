// Makes elements. Every text becomes a text node, never HTML.

// el makes an element. Properties that begin with "on" are listeners; properties that are not texts are
// set on the element; all others become attributes. Children are elements, texts or lists of them; null
// and false are left out.
export function el(name, props, ...children) {
  const e = document.createElement(name);
  e.handlers = {};
  e.values = {};
  for (const [k, v] of Object.entries(props || {})) {
    if (v === null || v === undefined) continue;
    if (k.startsWith("on")) listen(e, k.slice(2), v);
    else if (k in e && typeof v !== "string" || k === "value") e[k] = e.values[k] = v;
    else if (v !== false) e.setAttribute(k, v);
  }
  add(e, children);
  return e;
}

function listen(e, kind, f) {
  if (!(kind in e.handlers)) e.addEventListener(kind, event => e.handlers[kind]?.(event));
  e.handlers[kind] = f;
}

function add(e, children) {
  for (const c of children.flat(Infinity)) {
    if (c === null || c === undefined || c === false) continue;
    e.append(c instanceof Node ? c : document.createTextNode(String(c)));
  }
}

// fill makes the children of an element equal to new children. Elements that stay alike are kept, so
// that the focus, a selection and the scroll position stay, and a screen reader reads only what is new.
export function fill(e, ...children) {
  const next = document.createElement("div");
  add(next, children);
  match(e, next);
  requestAnimationFrame(() => { for (const c of e.querySelectorAll("canvas")) c.paint?.(); });
}

// match makes the children of an element equal to those of another.
function match(e, next) {
  const old = [...e.childNodes], wanted = [...next.childNodes];
  wanted.forEach((w, i) => {
    const o = old[i];
    if (!o) e.append(w);
    else if (o.nodeName !== w.nodeName || (o.id || "") !== (w.id || "")) o.replaceWith(w);
    else if (o.nodeType === Node.TEXT_NODE) { if (o.data !== w.data) o.data = w.data; }
    else become(o, w);
  });
  for (const o of old.slice(wanted.length)) o.remove();
}

// become makes an element equal to another of the same name.
function become(e, w) {
  for (const {name} of [...e.attributes]) if (name !== "style" && !w.hasAttribute(name)) e.removeAttribute(name);
  for (const {name, value} of w.attributes) if (name !== "style" && e.getAttribute(name) !== value) e.setAttribute(name, value);
  if (w.style && e.style.cssText !== w.style.cssText) e.style.cssText = w.style.cssText;
  e.handlers ||= {};
  for (const kind of Object.keys(e.handlers)) if (!(kind in (w.handlers || {}))) e.handlers[kind] = null;
  for (const [kind, f] of Object.entries(w.handlers || {})) listen(e, kind, f);
  match(e, w);
  for (const [k, v] of Object.entries(w.values || {})) if (e[k] !== v && !(k === "value" && e === document.activeElement)) e[k] = v;
  if (w.paint) e.paint = w.paint;
}

export const get = id => document.getElementById(id);

// css returns the value of a colour of the style sheet.
const colours = new Map();
export function css(name) {
  if (!colours.has(name)) colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return colours.get(name);
}
export const forgetColours = () => colours.clear();
