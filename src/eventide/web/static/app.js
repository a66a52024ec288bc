// The page: listens to the server, keeps a quarter of an hour of points, and draws.

import { Chart, cursor } from "./charts.js";
import { bytes, clock, colour, COLUMNS, compact, el, moment, num, rate, setColumns, span } from "./format.js";
import { Graph } from "./graph.js";
import { PANELS, Panels } from "./panels.js";
import { Timeline } from "./timeline.js";

const $ = (id) => document.getElementById(id);
const KINDS = ["late", "duplicate", "error", "evicted", "rejected", "shed"];
const MOST_POINTS = 900;
const page = { streams: new Map(), order: [], chosen: null, graph: null, ahead: 0, paused: false, seconds: 180, kind: "live", after: -1, asking: false };

const now = () => Date.now() + page.ahead;
const keep = (name, value) => { try { localStorage.setItem(`eventide ${name}`, value); } catch { /* private mode */ } };
const kept = (name) => { try { return localStorage.getItem(`eventide ${name}`); } catch { return null; } };

// Curves ----------------------------------------------------------------------------------------------------------

const seconds = (point, before) => before ? Math.max(1, (point.at - before.at) / 1000) : 1;
const perSecond = (point, key, before) => point[key] / seconds(point, before);
const perBatch = (point, key) => point[key] / Math.max(1, point.batches);
const CHARTS = [
  new Chart("Rows per second", [{ key: "rows_in", label: "in", colour: "accent", area: true }, { key: "given", label: "out", colour: "blue" }], perSecond, compact),
  new Chart("Watermark behind the clock", [{ key: "lag", label: "lag", colour: "mark", area: true }], (point) => point.watermark === null ? null : Math.max(0, point.at - point.watermark), span),
  new Chart("Time per batch", [{ key: "plan", label: "plan", colour: "violet" }, { key: "compute", label: "compute", colour: "accent" }, { key: "sinks", label: "sinks", colour: "warn" }, { key: "store", label: "store", colour: "blue" }], perBatch, span, true),
  new Chart("Open", [{ key: "open", label: "windows or rows", colour: "open", area: true }], (point, key) => point[key], compact),
  new Chart("State", [{ key: "state_bytes", label: "bytes", colour: "violet", area: true }], (point, key) => point[key], bytes),
  new Chart("Rows not used, per second", [{ key: "late", label: "late", colour: "late" }, { key: "error", label: "error", colour: "bad" }, { key: "duplicate", label: "duplicate", colour: "blue" }, { key: "evicted", label: "evicted", colour: "violet" }, { key: "rejected", label: "rejected", colour: "warn" }, { key: "shed", label: "shed", colour: "dim" }], perSecond, compact),
];
$("charts").append(...CHARTS.map(({ figure }) => figure));
const timeline = new Timeline($("timeline"), $("timeline-legend"), $("timeline-hint"));
const graph = new Graph($("graph"), choose);
const panels = new Panels($("panel"));
panels.onfilter = () => current() && panels.update(current(), true);
panels.now = now;

// Data ------------------------------------------------------------------------------------------------------------

function current() { return page.streams.get(page.chosen); }

function asPoint(row) {
  const at = COLUMNS.at, point = {};
  for (const name of COLUMNS.list) point[name] = row[at[name]];
  return point;
}

function take(message, whole) {
  setColumns(message.columns);
  page.ahead = message.now - Date.now(); page.graph = message.graph; page.kind = message.kind;
  $("place").textContent = message.place; $("version").textContent = `Eventide ${message.version}`;
  document.title = `${message.place} – Eventide`;
  const before = page.streams;
  page.streams = new Map();
  for (const info of message.streams) {
    const stream = before.get(info.name) ?? { points: [] };
    const fresh = info.points.map(asPoint), first = fresh[0]?.second ?? Infinity;
    stream.points = whole ? fresh : [...stream.points.filter(({ second }) => second < first), ...fresh].slice(-MOST_POINTS);
    stream.info = info; info.points = null;
    page.streams.set(info.name, stream);
  }
  page.order = [...page.streams.keys()];
  if (!page.streams.has(page.chosen)) {
    const asked = decodeURIComponent(location.hash.slice(1)), named = page.order.filter((name) => !page.streams.get(name).info.inner);
    choose(page.streams.has(asked) ? asked : named[0] ?? page.order[0] ?? null);
  }
  if (!page.paused) show();
}

async function askTimeline() {
  const stream = current();
  if (!stream || page.asking || stream.info.batch <= page.after) return;
  page.asking = true;
  const name = page.chosen;
  try {
    const answer = await fetch(`api/timeline?${new URLSearchParams({ stream: name, after: page.after })}`);
    if (answer.ok) {
      const found = await answer.json();
      if (name === page.chosen) {
        const ended = (batch) => stream.points.find((point) => point.batch >= batch)?.at ?? null;
        timeline.add(found.batches, ended); page.after = found.last;
      }
    }
  } catch { /* the connection tells */ } finally { page.asking = false; }
}

// Drawing ---------------------------------------------------------------------------------------------------------

function choose(name) {
  if (name === null || name === page.chosen) return;
  page.chosen = name; page.after = -1;
  timeline.reset(); panels.choose();
  history.replaceState(null, "", `#${encodeURIComponent(name)}`);
  if (page.graph) show();
}

function range(stream) {
  const last = stream.points[stream.points.length - 1];
  const to = stream.info.state === "running" || !last ? now() : last.at + page.seconds * 20;
  return [to - page.seconds * 1000, to];
}

function windowRange(stream) {
  // About ten windows: more would be too thin to see.
  const [from, to] = range(stream), { window: shape, sources } = stream.info;
  if (!shape?.step) return [from, to];
  const lag = Math.max(0, ...sources.map((source) => source.lag ?? 0));
  return [Math.max(from, to - Math.max(40000, 9 * shape.step + shape.size + shape.lateness + lag)), to];
}

function notices() {
  const found = [];
  for (const { info } of page.streams.values()) {
    if (info.state === "failed") found.push(el("article", { class: "notice failed" }, el("h2", {}, `${info.name} has failed`), el("p", {}, info.error ?? ""), info.help ? el("p", { class: "way-out" }, info.help) : null));
    else if (info.standing && (info.state === "running" || info.name === page.chosen)) {
      const [first, ...rest] = info.standing;
      found.push(el("article", { class: `notice ${info.state === "running" ? "waiting" : "resting"}` }, el("h2", {}, info.state === "running" ? `Why ${info.name} gives nothing now` : info.state === "new" ? `${info.name} has not run yet` : `${info.name} is stopped`),
        el("p", {}, first), rest.length ? el("details", { open: info.state === "running" && info.name === page.chosen }, el("summary", {}, "more"), ...rest.map((line) => el("p", {}, line))) : null));
    }
  }
  const text = found.map((each) => each.textContent).join("\n");
  if (text !== notices.shown) { notices.shown = text; $("notices").replaceChildren(...found); }
}

function equation(info) {
  const counts = info.accounting, parts = [["used", counts.used], ...KINDS.filter((kind) => counts[kind]).map((kind) => [kind, counts[kind]])];
  const off = counts.rows_in - parts.reduce((sum, [, value]) => sum + value, 0), total = Math.max(1, counts.rows_in);
  $("equation").replaceChildren(
    el("div", { class: "sum" }, el("span", { class: "term" }, el("b", {}, num(counts.rows_in)), " rows in"), el("span", { class: "op" }, "="),
      ...parts.flatMap(([kind, value], place) => [place ? el("span", { class: "op" }, "+") : null, el("span", { class: `term k-${kind}` }, el("b", {}, num(value)), ` ${kind}`)]),
      off ? el("span", { class: "verdict bad" }, `✗ off by ${num(off)}`) : el("span", { class: "verdict ok" }, "✓ balanced")),
    el("div", { class: "share", role: "img", "aria-label": parts.map(([kind, value]) => `${kind} ${(100 * value / total).toFixed(1)} %`).join(", ") },
      ...parts.map(([kind, value]) => el("i", { class: `k-${kind}`, width: `${100 * value / total}%`, title: `${kind} ${(100 * value / total).toFixed(2)} %` }))));
}

function tiles(stream) {
  const { info, points } = stream, recent = points.slice(-20), batches = recent.reduce((sum, point) => sum + point.batches, 0);
  const took = recent.reduce((sum, { plan, compute, sinks, store }) => sum + plan + compute + sinks + store, 0);
  const unused = KINDS.reduce((sum, kind) => sum + info.accounting[kind], 0);
  const lag = info.watermark === null ? null : now() - info.watermark, live = info.state === "running";
  const shown = [
    ["rows in", live ? rate(info.rates.rows_in ?? 0) : num(info.accounting.rows_in), `${num(info.given)} out`],
    [live ? "watermark lag" : "watermark", info.watermark === null ? "–" : live ? span(lag) : clock(info.watermark), moment(info.watermark)],
    [`open ${info.open_what}`, num(info.open), info.groups ? `${num(info.groups)} groups` : `${num(info.closed)} closed`],
    ["state", bytes(info.state_bytes), "in the state store"],
    ["batch", batches ? span(took / batches) : "–", `${num(info.batch + 1)} so far`],
    ["not used", num(unused), info.accounting.rows_in ? `${(100 * unused / info.accounting.rows_in).toFixed(2)} % of the rows` : "of no rows"],
  ];
  if (info.figures.load !== undefined) shown.push(["load", Number(info.figures.load).toFixed(2), `${(100 * Number(info.figures.shed_share ?? 0)).toFixed(0)} % shed`]);
  if (info.figures.side_sinks_failing) shown.push(["side sinks failing", num(info.figures.side_sinks_failing), `${num(info.figures.side_waiting)} payloads wait`]);
  $("tiles").replaceChildren(...shown.map(([label, value, detail]) => el("div", { class: "card tile" }, el("span", {}, label), el("b", {}, value), el("small", {}, detail))));
}

const STATES = { running: "running", stopped: "stopped", failed: "failed", new: "not run yet" };
function facts(info) {
  const shape = info.window, words = [];
  if (shape) words.push(shape.kind === "hop" ? `hop ${span(shape.step)} of ${span(shape.size)}` : shape.kind === "calendar" ? `every ${shape.count} ${shape.unit}` : `${shape.kind} ${span(shape.size)}`);
  if (shape?.lateness) words.push(`${span(shape.lateness)} allowed lateness`);
  words.push(`emit ${info.emit}`);
  return words.join(" · ");
}

function show() {
  const stream = current();
  $("empty").hidden = page.order.length > 0; $("stream").hidden = !stream;
  notices();
  if (page.graph) graph.update(page.graph, page.streams, page.chosen);
  $("streams").replaceChildren(...page.order.map((name) => el("button", { type: "button", class: `chip is-${page.streams.get(name).info.state}`, "aria-pressed": String(name === page.chosen), onclick: () => choose(name) }, el("i"), name)));
  if (!stream) return;
  const { info } = stream;
  $("name").textContent = info.name; $("state").textContent = STATES[info.state] ?? info.state; $("state").className = `pill is-${info.state}`;
  $("facts").textContent = facts(info);
  equation(info); tiles(stream);
  const [from, to] = range(stream);
  for (const chart of CHARTS) chart.update(stream.points, from, to);
  timeline.update(stream.points, info.window, ...windowRange(stream));
  askTimeline();
  panels.update(stream);
}

function animate() {
  // The picture of windows moves on between updates, a few times a second.
  const stream = current();
  if (stream && !page.paused && !document.hidden && stream.info.state === "running" && cursor.at === null) timeline.update(stream.points, stream.info.window, ...windowRange(stream));
  $("clock").textContent = page.graph ? `${clock(now())} UTC` : "";
}
setInterval(animate, matchMedia("(prefers-reduced-motion: reduce)").matches ? 1000 : 125);

// The connection --------------------------------------------------------------------------------------------------

function link(state, text) { $("link").className = `pill ${state}`; $("link").textContent = text; }

function listen() {
  const events = new EventSource("events");
  const words = () => page.paused ? link("is-stopped", "paused") : link("is-running", page.kind === "live" ? "live" : page.kind === "remote" ? "live, from afar" : "from the checkpoint");
  for (const kind of ["snapshot", "update"]) events.addEventListener(kind, (event) => { take(JSON.parse(event.data), kind === "snapshot"); words(); });
  events.addEventListener("trouble", (event) => link("is-failed", JSON.parse(event.data).error));
  events.onerror = () => link("is-failed", "connection lost, trying again");
  addEventListener("pagehide", () => events.close());
}

// Keys and buttons ------------------------------------------------------------------------------------------------

function setTheme(theme) {
  document.documentElement.dataset.theme = theme; keep("theme", theme);
  $("theme").textContent = theme === "dark" ? "Light" : "Dark";
  if (page.graph) show();
}
function setSpan(value) {
  page.seconds = value; keep("span", value); timeline.level = null;
  for (const button of $("spans").children) button.setAttribute("aria-pressed", String(Number(button.dataset.span) === value));
  if (page.graph) show();
}
function openTab(id) {
  panels.show(id); keep("tab", id);
  for (const tab of $("tabs").children) { const on = tab.dataset.id === id; tab.setAttribute("aria-selected", String(on)); tab.tabIndex = on ? 0 : -1; }
  if (current()) panels.update(current(), true);
}
function pause() { page.paused = !page.paused; $("pause").setAttribute("aria-pressed", String(page.paused)); $("pause").textContent = page.paused ? "Go on" : "Pause"; if (!page.paused) show(); }
function step(by) { if (page.order.length) choose(page.order[(page.order.indexOf(page.chosen) + by + page.order.length) % page.order.length]); }

$("tabs").append(...PANELS.map(({ id, label }) => el("button", { type: "button", role: "tab", "data-id": id, "aria-controls": "panel", onclick: () => openTab(id) }, label)));
$("tabs").addEventListener("keydown", (event) => {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key], tabs = [...$("tabs").children];
  if (by) { const next = tabs[(tabs.findIndex((tab) => tab.tabIndex === 0) + by + tabs.length) % tabs.length]; openTab(next.dataset.id); next.focus(); }
});
for (const button of $("spans").children) button.addEventListener("click", () => setSpan(Number(button.dataset.span)));
$("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
$("pause").addEventListener("click", pause);
$("help").addEventListener("click", () => $("keys").showModal());
addEventListener("resize", () => page.graph && show());
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || $("keys").open) return;
  const spans = [60, 180, 900], at = spans.indexOf(page.seconds);
  const keys = {
    j: () => step(1), k: () => step(-1), t: () => $("theme").click(), "?": () => $("keys").showModal(),
    "[": () => setSpan(spans[Math.max(0, at - 1)]), "]": () => setSpan(spans[Math.min(spans.length - 1, at + 1)]),
    "/": () => { openTab("side"); setTimeout(() => document.querySelector("#panel input")?.focus(), 300); },
    " ": () => { if (!/^(BUTTON|SUMMARY|A)$/.test(event.target.tagName)) pause(); else return false; },
  };
  PANELS.forEach(({ id }, place) => { keys[String(place + 1)] = () => openTab(id); });
  if (keys[event.key] && keys[event.key]() !== false) event.preventDefault();
});

setTheme(kept("theme") ?? (matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark"));
setSpan(Number(kept("span")) || 180);
openTab(PANELS.some(({ id }) => id === kept("tab")) ? kept("tab") : "rows");
listen();
