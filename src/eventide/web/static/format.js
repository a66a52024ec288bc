// Numbers, times and elements. Text from data becomes text nodes only: nothing here parses HTML.

export const COLUMNS = { list: [], at: {} };

export function setColumns(names) {
  COLUMNS.list = names;
  COLUMNS.at = Object.fromEntries(names.map((name, place) => [name, place]));
}

export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "width") made.style.width = value;
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== undefined).map((child) =>
    child instanceof Node ? child : document.createTextNode(String(child))));
  return made;
}

const SVG = "http://www.w3.org/2000/svg";
export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
export const num = (value) => value === null || value === undefined ? "–" : whole.format(value);
export const compact = (value) => Math.abs(value) < 10000 ? (Math.abs(value) < 10 && value % 1 ? value.toFixed(1) : whole.format(value)) : short.format(value);
export const rate = (value) => value ? `${value < 10 ? value.toFixed(1) : compact(value)}/s` : "0/s";

export function bytes(value) {
  if (value < 1000) return `${Math.round(value)} B`;
  const units = ["kB", "MB", "GB", "TB"];
  let place = -1;
  do { value /= 1000; place += 1; } while (value >= 999.5 && place < units.length - 1);
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[place]}`;
}

export function span(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 0) return `−${span(-ms)}`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(ms < 10000 ? 1 : 0)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min${seconds % 60 ? ` ${String(seconds % 60).padStart(2, "0")} s` : ""}`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${String(Math.floor(seconds % 3600 / 60)).padStart(2, "0")} min`;
  return `${whole.format(Math.floor(seconds / 86400))} d ${Math.floor(seconds % 86400 / 3600)} h`;
}

const two = (value) => String(value).padStart(2, "0");
export function clock(ms, fraction = false) {
  const at = new Date(ms);
  const text = `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}:${two(at.getUTCSeconds())}`;
  return fraction && at.getUTCMilliseconds() ? `${text}.${String(at.getUTCMilliseconds()).padStart(3, "0")}` : text;
}
export function day(ms) {
  const at = new Date(ms);
  return `${at.getUTCFullYear()}-${two(at.getUTCMonth() + 1)}-${two(at.getUTCDate())}`;
}
export const moment = (ms) => ms === null || ms === undefined ? "–" : `${day(ms)} ${clock(ms, true)}`;

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

export function prepare(canvas) {
  // The canvas in the pixels of the screen; returns its context and its size in CSS pixels.
  const box = canvas.getBoundingClientRect(), ratio = Math.min(window.devicePixelRatio || 1, 3);
  const wide = Math.max(1, Math.round(box.width * ratio)), high = Math.max(1, Math.round(box.height * ratio));
  if (canvas.width !== wide || canvas.height !== high) { canvas.width = wide; canvas.height = high; }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, box.width, box.height);
  return [context, box.width, box.height];
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];
export function timeStep(range, most) {
  // The smallest round step, in ms, that gives at most so many marks.
  return (STEPS.find((seconds) => range / (seconds * 1000) <= most) ?? Math.ceil(range / most / 604800000) * 604800) * 1000;
}
export const timeMark = (ms, step) => step >= 86400000 ? day(ms).slice(5) : step >= 60000 ? clock(ms).slice(0, 5) : clock(ms);

export function niceTop(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((top) => top >= value * 0.999);
}
