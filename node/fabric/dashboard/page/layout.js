// Places of chips and lines of cables, in the units of the picture.
export const chipW = 74, chipH = 48;
const pitchX = 118, pitchY = 94, pad = 40, head = 18, gap = 70, cableGap = 11, stub = 16;

const steps = {E: [1, 0], W: [-1, 0], N: [0, -1], S: [0, 1]};

// arrange returns {chips: [{x, y}], cables: [{points: [...], mid, ...}], meshes, width, height}. The
// points x and y of a chip are its centre.
export function arrange(machine) {
  const size = m => ({w: (m.cols - 1) * pitchX + chipW + 2 * pad, h: (m.rows - 1) * pitchY + chipH + 2 * pad + head});
  const least = {row: Math.min(...machine.meshes.map(m => m.cell_row)), col: Math.min(...machine.meshes.map(m => m.cell_col))};
  const widths = [], heights = [];
  for (const m of machine.meshes) {
    const r = m.cell_row - least.row, c = m.cell_col - least.col, s = size(m);
    widths[c] = Math.max(widths[c] || 0, s.w);
    heights[r] = Math.max(heights[r] || 0, s.h);
  }
  const starts = list => { let at = 0; return Array.from(list, v => { const s = at; at += (v || 0) + gap; return s; }); };
  const xs = starts(widths), ys = starts(heights);
  const meshes = machine.meshes.map(m => ({...size(m), x: xs[m.cell_col - least.col], y: ys[m.cell_row - least.row], mesh: m}));
  const chips = machine.chips.map(c => {
    const p = meshes[c.mesh];
    return {x: p.x + pad + chipW / 2 + c.col * pitchX, y: p.y + pad + head + chipH / 2 + c.row * pitchY};
  });
  const cables = ways(machine, chips);
  const width = Math.max(...meshes.map(p => p.x + p.w)), height = Math.max(...meshes.map(p => p.y + p.h));
  return {chips, cables, meshes, width, height};
}

// ways returns the line that stands for each cable. Cables between the same sides of two chips lie
// side by side.
function ways(machine, chips) {
  const total = new Map(), seen = new Map();
  const key = c => `${c.a} ${c.b} ${c.dir} ${c.back}`;
  for (const c of machine.cables) total.set(key(c), (total.get(key(c)) || 0) + 1);
  return machine.cables.map(c => {
    const k = key(c), n = total.get(k), i = seen.get(k) || 0;
    seen.set(k, i + 1);
    const room = Math.min(cableGap, 38 / n), off = (i - (n - 1) / 2) * room;
    const mesh = machine.meshes[machine.chips[c.a].mesh];
    if (c.external) return curve(side(chips[c.a], c.dir, off), c.dir, side(chips[c.b], c.back, off), c.back);
    if (c.wrap) return wrap(c, mesh, chips, off);
    return line([side(chips[c.a], c.dir, off), side(chips[c.b], c.back, off)]);
  });
}

// side returns the point at which a cable leaves a chip.
function side(p, dir, off) {
  const [dx, dy] = steps[dir];
  return {x: p.x + dx * chipW / 2 + (dx ? 0 : off), y: p.y + dy * chipH / 2 + (dy ? 0 : off)};
}

const middle = (p, q) => ({x: (p.x + q.x) / 2, y: (p.y + q.y) / 2});

function line(points) { return {points, mid: middle(points[0], points[1])}; }

// curve returns a curve between two meshes, as many short lines.
function curve(p, dir, q, back) {
  const reach = Math.min(Math.max(36, Math.hypot(p.x - q.x, p.y - q.y) / 2.4), 150);
  const pc = {x: p.x + steps[dir][0] * reach, y: p.y + steps[dir][1] * reach}, qc = {x: q.x + steps[back][0] * reach, y: q.y + steps[back][1] * reach};
  const points = [];
  for (let k = 0; k <= 16; k++) {
    const t = k / 16, u = 1 - t;
    points.push({x: u * u * u * p.x + 3 * u * u * t * pc.x + 3 * u * t * t * qc.x + t * t * t * q.x,
      y: u * u * u * p.y + 3 * u * u * t * pc.y + 3 * u * t * t * qc.y + t * t * t * q.y});
  }
  return {points, mid: points[8], external: true};
}

// wrap returns the line of a cable between the two ends of a row or column. In a mesh of one row or
// one column, the line leads round all chips. Otherwise the line has two parts: a stub at each end.
function wrap(c, mesh, chips, off) {
  const a = side(chips[c.a], c.dir, off), b = side(chips[c.b], c.back, off), far = stub + 4 + off;
  if (mesh.rows === 1 || mesh.cols === 1) {
    const [dx, dy] = steps[c.dir], out = p => ({x: p.x, y: p.y});
    const a1 = out(a), b1 = out(b);
    a1.x += dx * far; a1.y += dy * far; b1.x -= dx * far; b1.y -= dy * far;
    const down = mesh.rows === 1 ? {x: 0, y: chipH / 2 + far} : {x: chipW / 2 + far, y: 0};
    const a2 = mesh.rows === 1 ? {x: a1.x, y: chips[c.a].y + down.y} : {x: chips[c.a].x + down.x, y: a1.y};
    const b2 = mesh.rows === 1 ? {x: b1.x, y: chips[c.b].y + down.y} : {x: chips[c.b].x + down.x, y: b1.y};
    return {points: [a, a1, a2, b2, b1, b], mid: middle(a2, b2)};
  }
  const end = (p, dir) => ({x: p.x + steps[dir][0] * stub, y: p.y + steps[dir][1] * stub});
  return {points: [a, end(a, c.dir)], more: [b, end(b, c.back)], mid: middle(a, end(a, c.dir)), wrap: true};
}

// nearest returns the position of the chip at a point, or -1.
export function chipAt(layout, x, y) {
  return layout.chips.findIndex(p => Math.abs(p.x - x) <= chipW / 2 + 2 && Math.abs(p.y - y) <= chipH / 2 + 2);
}

// cableAt returns the position of the cable nearest to a point, within the distance "most", or -1.
export function cableAt(layout, x, y, most) {
  let best = -1, least = most;
  layout.cables.forEach((w, i) => {
    for (const points of [w.points, w.more || []]) {
      for (let k = 0; k + 1 < points.length; k++) {
        const d = distance(points[k], points[k + 1], x, y);
        if (d < least) { least = d; best = i; }
      }
    }
  });
  return best;
}

function distance(p, q, x, y) {
  const dx = q.x - p.x, dy = q.y - p.y;
  const t = Math.max(0, Math.min(1, ((x - p.x) * dx + (y - p.y) * dy) / (dx * dx + dy * dy || 1)));
  return Math.hypot(p.x + t * dx - x, p.y + t * dy - y);
}

// neighbour returns the chip nearest to chip i in the direction of an arrow key, or i.
export function neighbour(layout, i, dx, dy) {
  const from = layout.chips[i];
  let best = i, least = Infinity;
  layout.chips.forEach((p, k) => {
    const along = (p.x - from.x) * dx + (p.y - from.y) * dy, across = Math.abs((p.x - from.x) * dy) + Math.abs((p.y - from.y) * dx);
    if (k !== i && along > 1 && along + 3 * across < least) { least = along + 3 * across; best = k; }
  });
  return best;
}
