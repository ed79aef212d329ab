// Small plots on canvases.
import {el, css} from "./dom.js";

// fitted returns the pen of a canvas, with the size of the canvas on the screen.
export function fitted(canvas) {
  const ratio = window.devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
  if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
    canvas.width = Math.round(w * ratio);
    canvas.height = Math.round(h * ratio);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, w, h);
  return {pen, w, h};
}

// curve draws values as an area.
export function curve(pen, values, most, x, y, w, h, colour, filled) {
  if (values.length < 2 || most <= 0) return;
  pen.beginPath();
  values.forEach((v, i) => {
    const px = x + w * i / (values.length - 1), py = y + h - h * Math.min(1, v / most);
    if (i === 0) pen.moveTo(px, py); else pen.lineTo(px, py);
  });
  pen.strokeStyle = colour;
  pen.lineWidth = 1.5;
  pen.stroke();
  if (!filled) return;
  pen.lineTo(x + w, y + h);
  pen.lineTo(x, y + h);
  pen.fillStyle = colour;
  pen.globalAlpha = .2;
  pen.fill();
  pen.globalAlpha = 1;
}

// tiny returns a plot for a row of a table.
export function tiny(values, most) {
  const c = el("canvas", {class: "tiny", "aria-hidden": "true"});
  c.paint = function () { // "this" is the canvas on the page, see fill
    const {pen, w, h} = fitted(this);
    curve(pen, values, most, 0, 1, w, h - 2, css("--bytes"), true);
  };
  return c;
}

// plot returns a plot with a label for people who cannot see it.
export function plot(lists, most, label) {
  const c = el("canvas", {class: "plot", role: "img", "aria-label": label});
  c.paint = function () {
    const {pen, w, h} = fitted(this);
    pen.strokeStyle = css("--line");
    pen.strokeRect(.5, .5, w - 1, h - 1);
    for (const {values, colour, scale} of lists) curve(pen, values, scale ?? most, 0, 2, w, h - 3, css(colour), colour === "--bytes");
  };
  return c;
}
