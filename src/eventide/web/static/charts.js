// Small curves over time on a canvas: lines, areas, stacked bars. One cursor for all of them.

import { clock, colour, el, niceTop, prepare, timeMark, timeStep } from "./format.js";

export const cursor = { at: null, listeners: new Set() };
export function moveCursor(at) {
  cursor.at = at;
  for (const listener of cursor.listeners) listener();
}

const LEFT = 6, RIGHT = 6, TOP = 17, BOTTOM = 18;

export class Chart {
  // series: [{key, label, colour, area?}]; value(point, key, before) gives a number or null; format shows it.
  constructor(title, series, value, format, stacked = false) {
    this.series = series; this.value = value; this.format = format; this.stacked = stacked;
    this.canvas = el("canvas", { role: "img", "aria-label": title });
    this.readout = el("span", { class: "readout" });
    this.legend = el("div", { class: "legend" });
    this.marks = series.map(({ label, colour: name }) => {
      const shown = el("b", {}, "");
      this.legend.append(el("span", { class: `key c-${name}` }, el("i"), label, " ", shown));
      return shown;
    });
    this.figure = el("figure", { class: "card chart" }, el("figcaption", {}, el("h2", {}, title), this.readout), this.canvas, this.legend);
    this.range = [0, 1]; this.points = [];
    this.canvas.addEventListener("pointermove", (event) => {
      const box = this.canvas.getBoundingClientRect();
      const share = (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT);
      moveCursor(this.range[0] + share * (this.range[1] - this.range[0]));
    });
    this.canvas.addEventListener("pointerleave", () => moveCursor(null));
    cursor.listeners.add(() => this.draw());
  }

  update(points, from, to) {
    this.points = points; this.range = [from, to];
    this.draw();
  }

  visible() {
    const [from, to] = this.range, rows = this.points;
    let first = rows.findIndex((point) => point.at >= from);
    if (first < 0) return [];
    first = Math.max(0, first - 1);
    const found = [];
    for (let place = first; place < rows.length && rows[place].at <= to; place += 1) {
      const before = rows[place - 1];
      found.push({ at: rows[place].at, values: this.series.map(({ key }) => this.value(rows[place], key, before)) });
    }
    return found;
  }

  draw() {
    const [context, width, height] = prepare(this.canvas);
    if (width < 20) return;
    const [from, to] = this.range, rows = this.visible();
    const x = (at) => LEFT + (at - from) / (to - from) * (width - LEFT - RIGHT);
    const sums = rows.map(({ values }) => this.stacked ? values.reduce((sum, value) => sum + (value ?? 0), 0) : Math.max(0, ...values.map((value) => value ?? 0)));
    const top = niceTop(Math.max(0, ...sums));
    const y = (value) => height - BOTTOM - value / top * (height - TOP - BOTTOM);
    this.grid(context, width, height, x, y, top);
    context.save();
    context.beginPath(); context.rect(LEFT, 0, width - LEFT - RIGHT, height - BOTTOM + 1); context.clip();
    if (this.stacked) this.bars(context, rows, x, y, width);
    else this.series.forEach((series, place) => this.line(context, rows, place, series, x, y, height));
    context.restore();
    this.scale(context, y, top);
    this.read(context, rows, x, y, height);
  }

  grid(context, width, height, x, y, top) {
    context.strokeStyle = colour("grid"); context.fillStyle = colour("dim"); context.lineWidth = 1;
    context.font = "10px system-ui, sans-serif"; context.textBaseline = "alphabetic";
    for (const share of [0, 0.5, 1]) {
      const at = Math.round(y(top * share)) + 0.5;
      context.beginPath(); context.moveTo(LEFT, at); context.lineTo(width - RIGHT, at); context.stroke();
    }
    const [from, to] = this.range, step = timeStep(to - from, Math.max(2, width / 110));
    context.textAlign = "center";
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
      if (x(at) > 30 && x(at) < width - 30) context.fillText(timeMark(at, step), x(at), height - 5);
    }
  }

  scale(context, y, top) {
    // After the curves, with a rim, so that it can be read above them.
    context.font = "10px system-ui, sans-serif"; context.textAlign = "left"; context.lineJoin = "round";
    context.lineWidth = 3; context.strokeStyle = colour("card"); context.fillStyle = colour("dim");
    for (const share of [0.5, 1]) {
      const text = this.format(top * share), at = Math.round(y(top * share)) - 3;
      context.strokeText(text, LEFT + 2, at); context.fillText(text, LEFT + 2, at);
    }
  }

  line(context, rows, place, { colour: name, area }, x, y, height) {
    const tone = colour(name);
    const known = rows.filter(({ values }) => values[place] !== null && values[place] !== undefined);
    if (!known.length) return;
    context.beginPath();
    known.forEach(({ at, values }, number) => number ? context.lineTo(x(at), y(values[place])) : context.moveTo(x(at), y(values[place])));
    if (known.length === 1) context.lineTo(x(known[0].at) + 2, y(known[0].values[place]));
    context.strokeStyle = tone; context.lineWidth = 1.6; context.lineJoin = "round"; context.stroke();
    if (area) {
      const fill = context.createLinearGradient(0, TOP, 0, height - BOTTOM);
      fill.addColorStop(0, tone); fill.addColorStop(1, "transparent");
      context.lineTo(x(known[known.length - 1].at), y(0)); context.lineTo(x(known[0].at), y(0)); context.closePath();
      context.globalAlpha = 0.22; context.fillStyle = fill; context.fill(); context.globalAlpha = 1;
    }
  }

  bars(context, rows, x, y, width) {
    const gaps = rows.slice(1).map(({ at }, place) => x(at) - x(rows[place].at)).sort((a, b) => a - b);
    const wide = Math.max(1.5, Math.min(14, (gaps[Math.floor(gaps.length / 2)] ?? 6) - 1));
    for (const { at, values } of rows) {
      let below = 0;
      values.forEach((value, place) => {
        if (!value) return;
        context.fillStyle = colour(this.series[place].colour);
        const low = y(below), high = y(below + value);
        context.fillRect(x(at) - wide / 2, high, wide, Math.max(0.5, low - high));
        below += value;
      });
    }
  }

  read(context, rows, x, y, height) {
    const at = cursor.at;
    let shown = rows[rows.length - 1];
    if (at !== null && rows.length) {
      shown = rows.reduce((best, row) => Math.abs(row.at - at) < Math.abs(best.at - at) ? row : best);
      context.strokeStyle = colour("dim"); context.setLineDash([2, 3]);
      context.beginPath(); context.moveTo(x(shown.at), TOP); context.lineTo(x(shown.at), height - BOTTOM); context.stroke();
      context.setLineDash([]);
    }
    this.readout.textContent = at === null || !shown ? "" : clock(shown.at);
    this.marks.forEach((mark, place) => {
      const value = shown?.values[place];
      mark.textContent = value === null || value === undefined ? "–" : this.format(value);
    });
  }
}
