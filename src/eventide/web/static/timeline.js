// Windows in time. To the right the clock goes on, upwards event time: a window is a band that opens when its first
// row could come, and ends where the watermark has passed it. Rows that fall below that line come too late.

import { clock, colour, el, moment, num, prepare, span, timeMark, timeStep } from "./format.js";
import { cursor, moveCursor } from "./charts.js";

const LEFT = 58, RIGHT = 10, TOP = 10, BOTTOM = 22, MOST_BANDS = 400;

function firstAt(points, test) {
  // The first point for which a test holds that, once true, stays so.
  let low = 0, high = points.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (test(points[middle])) high = middle; else low = middle + 1;
  }
  return low < points.length ? points[low] : null;
}

export class Timeline {
  constructor(canvas, legend, hint) {
    this.canvas = canvas; this.hint = hint; this.legend = legend;
    this.points = []; this.range = [0, 1]; this.shape = null; this.given = new Map(); this.late = []; this.sessions = [];
    this.pointer = null; this.seen = 0; this.view = null;
    for (const [name, label] of [["open", "open"], ["closing", "closing"], ["closed", "closed"], ["mark", "watermark"], ["newest", "newest row"], ["late", "late rows"]]) {
      legend.append(el("span", { class: `key t-${name}` }, el("i"), label));
    }
    canvas.addEventListener("pointermove", (event) => {
      const box = canvas.getBoundingClientRect();
      this.pointer = [event.clientX - box.left, event.clientY - box.top];
      if (this.view) moveCursor(this.view.time(this.pointer[0]));
    });
    canvas.addEventListener("pointerleave", () => { this.pointer = null; moveCursor(null); });
    cursor.listeners.add(() => this.draw());
  }

  reset() { this.given = new Map(); this.late = []; this.sessions = []; this.level = null; }

  add(batches, atOf) {
    for (const told of batches) {
      for (const [end, rows] of told.windows ?? []) this.given.set(end, (this.given.get(end) ?? 0) + rows);
      for (const [at, event] of told.late ?? []) this.late.push({ at, event, born: performance.now() });
      for (const [start, end] of told.spans ?? []) this.sessions.push({ start, end, at: atOf(told.batch) });
    }
    if (this.late.length > 1500) this.late.splice(0, this.late.length - 1500);
    if (this.sessions.length > 1500) this.sessions.splice(0, this.sessions.length - 1500);
    if (this.given.size > 2000) for (const end of [...this.given.keys()].sort((a, b) => a - b).slice(0, this.given.size - 2000)) this.given.delete(end);
  }

  update(points, shape, from, to) {
    this.points = points.filter((point) => point.newest !== null || point.watermark !== null);
    this.shape = shape; this.range = [from, to];
    this.draw();
  }

  bounds() {
    // Event times in view: from a little below the watermark that was, to a little above the newest row; smoothly.
    const [from, to] = this.range, shown = this.points.filter(({ at }) => at >= from && at <= to);
    const rows = shown.length ? shown : this.points.slice(-1);
    if (!rows.length) return null;
    const marks = rows.map(({ watermark, newest }) => watermark ?? newest).filter((value) => value !== null);
    const tops = rows.map(({ newest, watermark }) => newest ?? watermark).filter((value) => value !== null);
    let low = Math.min(...marks), high = Math.max(...tops);
    const size = this.shape?.size ?? 0, range = Math.max(high - low, size, 1000);
    const late = this.late.filter(({ at, event }) => at >= from && event < low && event > low - range * 0.45).map(({ event }) => event);
    low = Math.min(low - Math.min(size, range * 0.15), ...late) - range * 0.03;
    high += Math.min(Math.max(size * 0.4, range * 0.05), range * 0.3);
    if (!this.level) this.level = [low, high];
    const pace = Math.abs(high - this.level[1]) > (high - low) ? 1 : 0.25;
    this.level = [this.level[0] + (low - this.level[0]) * pace, this.level[1] + (high - this.level[1]) * pace];
    return this.level;
  }

  bands(low, high) {
    const { shape } = this;
    if (!shape || !shape.step) return [];
    const offset = shape.offset ?? 0, found = [];
    let start = Math.floor((low - shape.size - offset) / shape.step) * shape.step + offset;
    if ((high - start) / shape.step > MOST_BANDS) return [];
    for (; start < high; start += shape.step) {
      const end = start + shape.size;
      if (end <= low) continue;
      const begun = firstAt(this.points, ({ newest }) => newest !== null && newest >= start);
      if (!begun) break;
      const due = firstAt(this.points, ({ watermark }) => watermark !== null && watermark >= end);
      const gone = firstAt(this.points, ({ watermark }) => watermark !== null && watermark >= end + shape.lateness);
      found.push({ start, end, begun: begun.at, due: due?.at ?? null, gone: gone?.at ?? null, rows: this.given.get(end) ?? null });
    }
    return found;
  }

  draw() {
    const [context, width, height] = prepare(this.canvas);
    if (width < 40) return;
    const bounds = this.bounds();
    context.font = "11px system-ui, sans-serif";
    if (!bounds) {
      context.fillStyle = colour("dim"); context.textAlign = "center";
      context.fillText("no row with an event time has come yet", width / 2, height / 2);
      return;
    }
    const [from, to] = this.range, [low, high] = bounds;
    const x = (at) => LEFT + (at - from) / (to - from) * (width - LEFT - RIGHT);
    const y = (event) => height - BOTTOM - (event - low) / (high - low) * (height - TOP - BOTTOM);
    this.view = {
      time: (place) => from + (place - LEFT) / (width - LEFT - RIGHT) * (to - from),
      event: (place) => low + (height - BOTTOM - place) / (height - TOP - BOTTOM) * (high - low),
    };
    this.axes(context, width, height, x, y, low, high);
    context.save();
    context.beginPath(); context.rect(LEFT, TOP, width - LEFT - RIGHT, height - TOP - BOTTOM); context.clip();
    this.past(context, x, y, height, width);
    const bands = this.bands(low, high);
    for (const band of bands) this.band(context, band, x, y, width);
    this.spans(context, x, y);
    this.curve(context, "newest", x, y, width);
    this.curve(context, "watermark", x, y, width);
    this.dots(context, x, y, from);
    for (const band of bands) this.verdict(context, band, x, y);
    this.cross(context, x, y, width, height);
    context.restore();
    this.tell(bands);
  }

  axes(context, width, height, x, y, low, high) {
    context.fillStyle = colour("dim"); context.strokeStyle = colour("grid"); context.lineWidth = 1;
    const [from, to] = this.range;
    let step = timeStep(to - from, Math.max(2, width / 120));
    context.textAlign = "center"; context.textBaseline = "alphabetic";
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
      const place = Math.round(x(at)) + 0.5;
      context.beginPath(); context.moveTo(place, TOP); context.lineTo(place, height - BOTTOM); context.stroke();
      if (place > LEFT + 20 && place < width - 24) context.fillText(timeMark(at, step), place, height - 7);
    }
    step = timeStep(high - low, Math.max(2, height / 44));
    context.textAlign = "right"; context.textBaseline = "middle";
    for (let at = Math.ceil(low / step) * step; at <= high; at += step) {
      if (y(at) > TOP + 6 && y(at) < height - BOTTOM - 6) context.fillText(timeMark(at, step), LEFT - 6, y(at));
    }
  }

  past(context, x, y, height, width) {
    // What lies below the watermark has passed.
    const points = this.points.filter(({ watermark }) => watermark !== null);
    if (!points.length) return;
    context.beginPath(); context.moveTo(x(points[0].at), height);
    let level = y(points[0].watermark);
    for (const point of points) { context.lineTo(x(point.at), level); level = y(point.watermark); context.lineTo(x(point.at), level); }
    context.lineTo(width, level); context.lineTo(width, height); context.closePath();
    context.fillStyle = colour("past"); context.fill();
  }

  band(context, { start, end, begun, due, gone, rows }, x, y, width) {
    const high = y(end), tall = Math.max(1, y(start) - high), gap = tall > 6 ? 1.5 : 0.5, overlapping = this.shape.kind !== "tumble";
    const right = x(this.range[1]);
    const piece = (since, until, name, alpha, round) => {
      const left = Math.max(LEFT - 8, x(since)), wide = Math.min(width + 8, until) - left;
      if (wide <= 0) return;
      context.globalAlpha = overlapping ? alpha * 0.55 : alpha; context.fillStyle = colour(name);
      context.beginPath(); context.roundRect(left, high + gap, wide, Math.max(0.5, tall - 2 * gap), round); context.fill();
      context.globalAlpha = 1;
    };
    const soft = Math.min(5, tall / 3), ends = due === null ? right : x(due), over = gone === null ? right : x(gone);
    piece(begun, Math.max(ends, x(begun) + 2), "open", 0.3, due === null ? [soft, 0, 0, soft] : over > ends + 1 ? [soft, 0, 0, soft] : soft);
    if (due !== null && over > ends + 1) piece(due, over, "closing", 0.42, gone === null ? 0 : [0, soft, soft, 0]);
    if (gone === null) return;
    piece(gone, right, "closed", 0.07, 0);
  }

  verdict(context, { start, end, gone, rows }, x, y) {
    // What a window gave when it closed, beside its end.
    const high = y(end), tall = y(start) - high, overlapping = this.shape.kind !== "tumble";
    if (gone === null || tall < (overlapping ? 30 : 12)) return;
    const text = rows === null ? "✓" : `✓ ${num(rows)} ${rows === 1 ? "row" : "rows"}`, at = [x(gone) + 7, overlapping ? high + 8 : high + tall / 2];
    context.textAlign = "left"; context.textBaseline = "middle"; context.lineJoin = "round";
    context.lineWidth = 4; context.strokeStyle = colour("card"); context.globalAlpha = 0.8; context.strokeText(text, ...at);
    context.globalAlpha = 1; context.fillStyle = colour("text"); context.fillText(text, ...at);
  }

  spans(context, x, y) {
    if (!["session", "slide", "calendar"].includes(this.shape?.kind)) return;
    context.strokeStyle = colour("closed"); context.lineWidth = 2.5; context.lineCap = "round";
    for (const { start, end, at } of this.sessions) {
      if (at === null || at < this.range[0]) continue;
      context.globalAlpha = 0.55;
      context.beginPath(); context.moveTo(x(at), y(start)); context.lineTo(x(at), y(end)); context.stroke();
    }
    context.globalAlpha = 1;
  }

  curve(context, key, x, y, width) {
    const points = this.points.filter((point) => point[key] !== null);
    if (!points.length) return;
    context.beginPath(); context.moveTo(x(points[0].at), y(points[0][key]));
    let level = y(points[0][key]);
    for (const point of points) { context.lineTo(x(point.at), level); level = y(point[key]); context.lineTo(x(point.at), level); }
    context.lineTo(x(this.range[1]), level);
    const strong = key === "watermark";
    context.strokeStyle = colour(strong ? "mark" : "newest"); context.lineWidth = strong ? 2.4 : 1.1; context.lineJoin = "round";
    if (strong) { context.shadowColor = colour("mark"); context.shadowBlur = 8; } else context.setLineDash([4, 3]);
    context.stroke(); context.shadowBlur = 0; context.setLineDash([]);
    if (!strong) return;
    context.beginPath(); context.arc(Math.min(x(this.range[1]), width - RIGHT - 1), level, 4, 0, 7); context.fillStyle = colour("mark"); context.fill();
  }

  markAt(at) {
    const after = firstAt(this.points, (point) => point.at > at);
    const place = after === null ? this.points.length : this.points.indexOf(after);
    return this.points[place - 1]?.watermark ?? null;
  }

  dots(context, x, y, from) {
    const tone = colour("late"), now = performance.now(), shown = this.late.filter(({ at }) => at >= from);
    const every = Math.ceil(shown.length / 500);
    for (const [number, { at, event, born }] of shown.entries()) {
      if (number % every) continue;
      const mark = this.markAt(at), place = x(at) + (Math.sin(event * 0.013) * 3), level = y(event);
      if (mark !== null && mark > event) {
        const tail = context.createLinearGradient(0, y(mark), 0, level);
        tail.addColorStop(0, "transparent"); tail.addColorStop(1, tone);
        context.strokeStyle = tail; context.globalAlpha = 0.25; context.lineWidth = 1;
        context.beginPath(); context.moveTo(place, y(mark)); context.lineTo(place, level); context.stroke();
      }
      const fresh = Math.max(0, 1 - (now - born) / 1500);
      if (fresh) { context.globalAlpha = fresh * 0.4; context.fillStyle = tone; context.beginPath(); context.arc(place, level, 3 + 9 * (1 - fresh), 0, 7); context.fill(); }
      context.globalAlpha = 0.8; context.fillStyle = tone;
      context.beginPath(); context.arc(place, level, 1.9, 0, 7); context.fill();
    }
    context.globalAlpha = 1;
  }

  cross(context, x, y, width, height) {
    if (cursor.at === null) return;
    context.strokeStyle = colour("dim"); context.setLineDash([2, 3]); context.lineWidth = 1;
    context.beginPath(); context.moveTo(x(cursor.at), TOP); context.lineTo(x(cursor.at), height - BOTTOM);
    if (this.pointer) { context.moveTo(LEFT, this.pointer[1]); context.lineTo(width - RIGHT, this.pointer[1]); }
    context.stroke(); context.setLineDash([]);
  }

  tell(bands) {
    if (!this.pointer || !this.view) { this.hint.textContent = ""; return; }
    const at = this.view.time(this.pointer[0]), event = this.view.event(this.pointer[1]);
    const band = bands.find(({ start, end, begun }) => start <= event && event < end && begun <= at);
    const mark = this.markAt(at), words = [`at ${clock(at)}`];
    if (mark !== null) words.push(`watermark ${moment(mark)}`);
    if (band) {
      const state = band.gone !== null && band.gone <= at ? "closed" : band.due !== null && band.due <= at ? "closing" : "open";
      words.push(`[${clock(band.start)}, ${clock(band.end)}) ${state}${band.rows !== null && state === "closed" ? `, ${num(band.rows)} rows` : ""}`);
    } else if (mark !== null) words.push(`${span(Math.abs(mark - event))} ${event <= mark ? "behind" : "ahead of"} it`);
    this.hint.textContent = words.join(" · ");
  }
}
