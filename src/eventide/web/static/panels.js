// What is below the curves: results, side output, lateness, sources and partitions, the plan, the SQL.

import { bytes, clock, compact, el, moment, num, rate, span } from "./format.js";

const KINDS = ["late", "duplicate", "error", "evicted", "rejected", "shed"];

async function ask(what, stream, query = {}) {
  const parameters = new URLSearchParams({ stream, ...query });
  const answer = await fetch(`api/${what}?${parameters}`, { headers: { accept: "application/json" } });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error ?? answer.statusText);
  return found;
}

function table(columns, rows, classes = "") {
  const head = el("tr", {}, ...columns.map(({ label, right }) => el("th", { scope: "col", class: right ? "right" : null }, label)));
  return el("div", { class: "scroll" }, el("table", { class: classes }, el("thead", {}, head), el("tbody", {}, ...rows)));
}

const cell = (value, right = false) => value === null || value === undefined
  ? el("td", { class: "null" }, "NULL") : el("td", { class: right ? "right" : null }, value);

export const PANELS = [
  { id: "rows", label: "Results" }, { id: "side", label: "Side output" }, { id: "late", label: "Lateness" },
  { id: "sources", label: "Sources" }, { id: "plan", label: "Plan" }, { id: "sql", label: "SQL" },
];

export class Panels {
  constructor(root) { this.root = root; this.open = "rows"; this.filter = { kind: "", reason: "", source: "", text: "" }; this.stamp = ""; this.busy = false; this.searching = null; }

  show(id) { this.open = id; this.stamp = ""; }

  choose() { this.stamp = ""; this.filter = { kind: "", reason: "", source: "", text: "" }; this.form = null; this.root.replaceChildren(); }

  async update(stream, force = false) {
    const info = stream.info, stamp = `${this.open} ${info.name} ${info.batch} ${JSON.stringify(this.filter)}`;
    if (this.open === "sources") { this.stamp = stamp; this.sources(info); return; }
    if (!force && (stamp === this.stamp || this.busy)) return;
    this.busy = true;
    try {
      const open = this.open;
      if (open === "sql") this.sql(info);
      else {
        const found = await ask(open, info.name, open === "side" ? { ...Object.fromEntries(Object.entries(this.filter).filter(([, value]) => value)), limit: 60 } : {});
        if (open === this.open) this[open](found, info);
      }
      this.stamp = stamp;
    } catch (error) {
      this.root.replaceChildren(el("p", { class: "quiet" }, String(error.message)));
      this.form = null;
    } finally { this.busy = false; }
  }

  rows({ columns, types, rows, total }) {
    const numeric = columns.map((name) => /^(u?int|float|double|halffloat|decimal)/.test(types[name]));
    const body = rows.map((row) => el("tr", {}, ...row.map((value, place) => cell(typeof value === "number" ? (Number.isInteger(value) ? num(value) : String(Math.round(value * 1e6) / 1e6)) : value === true ? "true" : value === false ? "false" : value, numeric[place]))));
    this.root.replaceChildren(rows.length
      ? el("p", { class: "quiet" }, `the latest ${num(rows.length)} of ${num(total)} rows, the newest first`)
      : el("p", { class: "quiet" }, "nothing has come out yet"),
      ...(rows.length ? [table(columns.map((name, place) => ({ label: name, right: numeric[place] })), body)] : []));
    this.form = null;
  }

  choice(label, name, options) {
    const made = el("select", { name, "aria-label": label, onchange: (event) => { this.filter = { ...this.filter, [name]: event.target.value, ...(name === "kind" ? { reason: "" } : {}) }; this.stamp = ""; this.onfilter(); } },
      el("option", { value: "" }, `every ${label}`),
      ...options.map(([value, count]) => el("option", { value, selected: value === this.filter[name] }, count === null ? value : `${value} (${num(count)})`)));
    made.value = this.filter[name];
    return made;
  }

  side({ rows, kinds, sources, totals, searched }) {
    const reasons = {};
    for (const [kind, found] of Object.entries(kinds)) if (!this.filter.kind || kind === this.filter.kind) for (const [reason, count] of Object.entries(found)) if (reason) reasons[reason] = (reasons[reason] ?? 0) + count;
    const choices = el("span", { class: "choices" },
      this.choice("kind", "kind", KINDS.filter((kind) => totals[kind] || kinds[kind]).map((kind) => [kind, totals[kind] ?? 0])),
      this.choice("reason", "reason", Object.entries(reasons)),
      this.choice("source", "source", sources.map((name) => [name, null])));
    if (!this.form || !this.form.isConnected) {
      this.search = el("input", { type: "search", placeholder: "search rows, keys, details", "aria-label": "search the side output", maxlength: 200, oninput: (event) => {
        clearTimeout(this.searching);
        this.searching = setTimeout(() => { this.filter = { ...this.filter, text: event.target.value }; this.stamp = ""; this.onfilter(); }, 250);
      } });
      this.search.value = this.filter.text;
      this.choices = el("span");
      this.form = el("div", { class: "filters" }, this.choices, this.search);
      this.list = el("div");
      this.root.replaceChildren(this.form, this.list);
    }
    if (!this.choices.contains(document.activeElement)) this.choices.replaceChildren(choices);
    const body = rows.map((row) => el("tr", {},
      el("td", {}, el("span", { class: `tag k-${KINDS.includes(row.kind) ? row.kind : "other"}` }, row.kind)), cell(row.reason ?? ""), cell(row.event_time === null ? "–" : moment(row.event_time)),
      el("td", { class: "right" }, row.behind === null ? "–" : span(row.behind)), cell(row.window ? `[${clock(row.window[0])}, ${clock(row.window[1])})` : "–"),
      el("td", { class: "code" }, row.row ?? row.detail ?? "–"), el("td", { class: "code" }, row.detail && row.row ? row.detail : "")));
    this.list.replaceChildren(rows.length
      ? table(["kind", "reason", "event time", "behind the watermark", "window", "row", "detail"].map((label) => ({ label, right: label.startsWith("behind") })), body, "side")
      : el("p", { class: "quiet" }, searched ? "no payload is like that" : "every row was used: there is no side output"));
  }

  late(found) {
    this.form = null;
    if (found.on_time === null) { this.root.replaceChildren(el("p", { class: "quiet" }, "no row has come in yet, so there is no history to learn from")); return; }
    const most = Math.max(1, ...found.histogram.map(([, count]) => count)), share = Math.round(found.on_time * 10000) / 10000;
    const bars = found.histogram.map(([bound, count]) => el("div", { class: "hbar" }, el("span", {}, bound === null ? "more" : `up to ${span(bound)}`),
      el("i", {}, el("b", { width: `${Math.max(0.5, 100 * count / most)}%` })), el("em", {}, num(count))));
    const advice = found.advice.map(({ percent, extra, wait, windows, bytes: more }) => el("tr", {}, el("td", { class: "right" }, `${percent} %`),
      el("td", { class: "right" }, extra ? span(extra) : "–"), el("td", { class: "right" }, extra ? wait : "as it is"), el("td", { class: "right" }, extra ? `${num(windows)}${more === null ? "" : `, ${bytes(more)}`}` : "0")));
    const best = found.advice.find(({ percent, extra }) => percent === 99.9 && extra) ?? found.advice.find(({ extra }) => extra);
    this.root.replaceChildren(el("div", { class: "split" },
      el("div", {}, el("h3", {}, found.rows ? `How late the ${num(found.rows)} late rows were` : "No row was late"),
        ...bars, found.rows ? el("p", { class: "quiet" }, `half within ${span(found.quantiles.half)}, 99 % within ${span(found.quantiles.most)}, the latest ${span(found.quantiles.latest)} behind the watermark`) : null,
        found.total > found.rows ? el("p", { class: "quiet" }, `of ${num(found.total)} late rows, those that are kept`) : null),
      el("div", { class: "advice" }, el("h3", {}, "What would have caught them"),
        el("p", {}, `${share} % of the rows were on time.`, best ? ` Waiting ${span(best.extra)} longer would have caught ${best.percent} %.` : ""),
        table(["to use", "wait longer by", "allowed lateness", "more open windows"].map((label) => ({ label, right: true })), advice),
        ...found.remedies.map((text) => el("pre", { class: "remedy" }, text)))));
  }

  sources(info) {
    this.form = null;
    const now = this.now();
    const blocks = info.sources.map((source) => {
      const facts = [["rows", num(source.rows)], ["rows per second", rate(source.rate)], ["newest row", moment(source.newest)], ["watermark", moment(source.watermark)],
        ["behind the clock", source.watermark === null ? "–" : span(now - source.watermark)], ["lag", span(source.lag ?? 0)]];
      if (source.idle_timeout !== null) facts.push(["idle after", span(source.idle_timeout)]);
      for (const [name, value] of Object.entries(source.admission)) if (!name.startsWith("lag_")) facts.push([name.replaceAll("_", " "), compact(value)]);
      return el("div", { class: "source" }, el("h3", {}, source.name, " ", el("small", {}, source.connector), source.idle ? el("span", { class: "tag k-late" }, "idle") : null),
        el("dl", { class: "facts-grid" }, ...facts.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
        source.partitions.length ? this.partitions(source, now) : null);
    });
    const tables = Object.entries(info.tables).map(([name, figures]) => el("div", { class: "source" }, el("h3", {}, name, " ", el("small", {}, "table that is looked up")),
      el("dl", { class: "facts-grid" }, ...[["version", figures.version ?? "–"], ["rows", num(figures.rows)], ["read at", moment(figures.read_at)], ["failures in a row", num(figures.refresh_failures)]].flatMap(([label, value]) => [el("dt", {}, label), el("dd", {}, value)])),
      figures.refresh_error ? el("p", { class: "bad" }, figures.refresh_error) : null));
    this.root.replaceChildren(...blocks, ...tables);
  }

  partitions(source, now) {
    const marks = source.partitions.map(({ watermark }) => watermark).filter((value) => value !== null);
    const low = Math.min(...marks), high = Math.max(...marks);
    return el("div", { class: "lanes" }, ...source.partitions.map(({ name, watermark, unread, idle }) => {
      const share = watermark === null ? 0 : high > low ? 8 + 92 * (watermark - low) / (high - low) : 100;
      return el("div", { class: `hbar lane ${name === source.holder ? "holder" : ""} ${idle ? "idle" : ""}` }, el("span", {}, name),
        el("i", {}, el("b", { width: `${share}%` })),
        el("em", {}, watermark === null ? "no row yet" : `${clock(watermark, true)}, ${span(now - watermark)} behind`, unread ? ` · ${num(unread)} unread` : "", idle ? " · idle" : "", name === source.holder && source.partitions.length > 1 ? " · holds it back" : ""));
    }));
  }

  plan(found) {
    this.form = null;
    const value = (shown) => shown && typeof shown === "object" ? moment(shown.time) : typeof shown === "number" ? compact(shown) : String(shown);
    const draw = (node) => el("li", {}, el("div", { class: "stage" }, el("b", {}, node.title),
      ...node.figures.map(([name, shown]) => el("span", { class: "figure" }, `${name} `, el("strong", {}, value(shown)))),
      node.facts.length ? el("details", { open: false }, el("summary", {}, `${node.facts.length} ${node.facts.length === 1 ? "fact" : "facts"}`), el("dl", {}, ...node.facts.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]))) : null),
      node.inputs.length ? el("ul", {}, ...node.inputs.map(draw)) : null);
    const opened = [...this.root.querySelectorAll("details")].map((each) => each.open);
    this.root.replaceChildren(el("ul", { class: "plan" }, draw(found)));
    [...this.root.querySelectorAll("details")].forEach((each, place) => { each.open = opened[place] ?? false; });
  }

  sql(info) { this.form = null; this.root.replaceChildren(el("pre", { class: "sql" }, info.sql)); }
}
