// The graph: sources to the left, streams in the middle by who reads whom, sinks to the right.

import { rate, svg } from "./format.js";

const WIDE = 168, TALL = 46, GAP_X = 104, GAP_Y = 16, EDGE = 8;

function columnsOf({ nodes, edges }) {
  const level = new Map();
  const inputs = (id) => edges.filter((edge) => edge.to === id).map((edge) => edge.from);
  const depth = (id, trail = new Set()) => {
    if (level.has(id)) return level.get(id);
    if (trail.has(id)) return 1;
    trail.add(id);
    const found = id.startsWith("source:") ? 0 : 1 + Math.max(0, ...inputs(id).map((from) => depth(from, trail)));
    level.set(id, found);
    return found;
  };
  const last = Math.max(1, ...nodes.filter(({ kind }) => kind === "stream").map(({ id }) => depth(id))) + 1;
  const columns = [];
  for (const node of nodes) {
    const place = node.kind === "sink" ? last : depth(node.id);
    (columns[place] ??= []).push(node);
  }
  return columns.map((column) => column ?? []);
}

export function layout(graph) {
  // An edge that passes a column has a place of its own there, so that it runs beside the nodes and not behind them.
  const columns = columnsOf(graph).filter((column) => column.length), level = new Map(), via = new Map(), places = new Map();
  columns.forEach((column, number) => column.forEach(({ id }) => level.set(id, number)));
  const rows = columns.map((column) => [...column]), inputs = new Map();
  const feed = (id, from) => inputs.set(id, [...(inputs.get(id) ?? []), from]);
  graph.edges.forEach((edge, number) => {
    let before = edge.from;
    const passed = [];
    for (let at = level.get(edge.from) + 1; at < level.get(edge.to); at += 1) {
      const id = `edge:${number}:${at}`;
      rows[at].push({ id, passes: true });
      feed(id, before); passed.push(id); before = id;
    }
    feed(edge.to, before); via.set(number, passed);
  });
  const heights = rows.map((column) => column.reduce((sum, { passes }) => sum + (passes ? 26 : TALL) + GAP_Y, -GAP_Y)), tallest = Math.max(TALL, ...heights);
  rows.forEach((column, number) => {
    const middle = ({ id }) => {
      const from = (inputs.get(id) ?? []).map((each) => places.get(each)?.y).filter((y) => y !== undefined);
      return from.length ? from.reduce((sum, y) => sum + y, 0) / from.length : 0;
    };
    let y = EDGE + (tallest - heights[number]) / 2;
    for (const node of number ? [...column].sort((a, b) => middle(a) - middle(b)) : column) {
      const tall = node.passes ? 26 : TALL;
      places.set(node.id, { x: EDGE + number * (WIDE + GAP_X), y: y + tall / 2 });
      y += tall + GAP_Y;
    }
  });
  return { places, via, width: 2 * EDGE + columns.length * (WIDE + GAP_X) - GAP_X, height: 2 * EDGE + tallest };
}

const cut = (text, most) => text.length > most ? `${text.slice(0, most - 1)}…` : text;

export class Graph {
  constructor(root, choose) { this.root = root; this.choose = choose; this.key = ""; this.parts = new Map(); }

  update(graph, streams, chosen) {
    const key = JSON.stringify([graph.nodes, graph.edges.map(({ from, to }) => [from, to])]);
    if (key !== this.key) { this.key = key; this.build(graph); }
    for (const edge of graph.edges) {
      const part = this.parts.get(`${edge.from}>${edge.to}${edge.late}`);
      if (!part) continue;
      part.label.textContent = rate(edge.rate);
      part.path.classList.toggle("flowing", edge.rate > 0);
      part.box.classList.toggle("flowing", edge.rate > 0);
    }
    for (const node of graph.nodes) {
      const part = this.parts.get(node.id), stream = node.kind === "stream" ? streams.get(node.name) : null;
      part.setAttribute("class", `node ${node.kind} ${stream ? `is-${stream.info.state}` : ""} ${stream?.info.standing && stream.info.state === "running" ? "is-waiting" : ""}`);
      if (stream) part.setAttribute("aria-pressed", String(node.name === chosen));
    }
  }

  build(graph) {
    const { places, via, width, height } = layout(graph);
    this.root.replaceChildren(); this.parts = new Map();
    this.root.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.root.setAttribute("width", width); this.root.setAttribute("height", height);
    const labels = graph.edges.map((edge, number) => this.edge(edge, places, via.get(number)));
    this.root.append(...labels.flat());
    for (const node of graph.nodes) this.node(node, places.get(node.id));
  }

  edge(edge, places, passed) {
    const from = places.get(edge.from), to = places.get(edge.to);
    if (!from || !to) return [];
    const stops = [[from.x + WIDE, from.y], ...passed.flatMap((id) => { const { x, y } = places.get(id); return [[x, y], [x + WIDE, y]]; }), [to.x, to.y]];
    let line = `M${stops[0][0]} ${stops[0][1]}`;
    for (let place = 1; place < stops.length; place += 1) {
      const [x1, y1] = stops[place - 1], [x2, y2] = stops[place], bend = (x2 - x1) / 2;
      line += place % 2 ? `C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}` : `L${x2} ${y2}`;
    }
    const path = svg("path", { d: line, class: `edge${edge.late ? " late" : ""}` });
    const [a, b] = passed.length ? [stops[1], stops[2]] : [stops[0], stops[1]], x = (a[0] + b[0]) / 2, y = (a[1] + b[1]) / 2;
    const label = svg("text", { x, y: y + 3.5, class: "rate", "text-anchor": "middle" });
    const box = svg("rect", { x: x - 29, y: y - 10, width: 58, height: 20, rx: 10, class: "ratebox" });
    this.root.append(path);
    this.parts.set(`${edge.from}>${edge.to}${edge.late}`, { path, label, box });
    return [box, label];
  }

  node(node, place) {
    const name = svg("text", { x: 16, y: 20, class: "name" }), what = svg("text", { x: 16, y: 35, class: "what" }), title = svg("title");
    name.textContent = cut(node.name, 20); what.textContent = cut(`${node.kind} · ${node.what}`, 26); title.textContent = node.name;
    const group = svg("g", { transform: `translate(${place.x} ${place.y - TALL / 2})`, class: `node ${node.kind}` }, title,
      svg("rect", { width: WIDE, height: TALL, rx: 10, class: "box" }), svg("rect", { width: 4, height: TALL - 20, x: 0, y: 10, rx: 2, class: "edge-mark" }),
      name, what, svg("circle", { cx: WIDE - 14, cy: 14, r: 4, class: "dot" }));
    if (node.kind === "stream") {
      group.setAttribute("tabindex", "0"); group.setAttribute("role", "button"); group.setAttribute("aria-label", `stream ${node.name}`);
      group.addEventListener("click", () => this.choose(node.name));
      group.addEventListener("keydown", (event) => { if (event.key === "Enter") this.choose(node.name); });
    }
    this.root.append(group);
    this.parts.set(node.id, group);
  }
}
