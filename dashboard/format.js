// Numbers as people read them, always with a unit. Every function takes null for "not known" and shows a dash for it.

export const NONE = "–";

// Three significant digits without an exponent.
function significant(value) {
  const rounded = Number(value.toPrecision(3));
  if (rounded >= 100 || rounded === 0) return String(Math.round(rounded));
  return rounded.toFixed(rounded >= 10 ? 1 : 2);
}

// {value, unit} of a duration in milliseconds.
export function duration(ms) {
  if (ms === null) return {value: NONE, unit: ""};
  if (ms < 999.5) return {value: ms > 0 && ms < 0.005 ? "<0.01" : significant(ms), unit: "ms"};
  if (ms < 99_950) return {value: significant(ms / 1000), unit: "s"};
  if (ms < 999_500) return {value: String(Math.round(ms / 1000)), unit: "s"};
  if (ms < 5_970_000) return {value: significant(ms / 60_000), unit: "min"};
  return ms < 3_600_000 * 999.5 ? {value: significant(ms / 3_600_000), unit: "h"} : {value: ">999", unit: "h"};
}

// Of a round number, such as a target or a mark of an axis: without zeros that say nothing.
export function roundDuration(ms) {
  const {value, unit} = duration(ms);
  return unit ? `${Number(value)} ${unit}` : value;
}

const SCALES = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

function scaled(value, unit) {
  if (value >= 999.5e15) return {value: ">999", unit: `P${unit}`};
  for (const [factor, prefix] of SCALES) {
    if (value >= factor * 0.9995) return {value: significant(value / factor), unit: prefix + unit};
  }
  return {value: significant(value), unit};
}

export const bytes = (value) => (value === null ? {value: NONE, unit: ""} : scaled(value, "B"));
export const bytesPerS = (value) => (value === null ? {value: NONE, unit: ""} : scaled(value, "B/s"));

// GB/s whatever the size, because a matrix compares its cells.
export function gigabytesPerS(value) {
  if (value === null) return {value: NONE, unit: ""};
  const gigabytes = value / 1e9;
  return {value: gigabytes > 0 && gigabytes < 0.005 ? "<0.01" : significant(gigabytes), unit: "GB/s"};
}

export function memory(value) {
  if (value === null) return {value: NONE, unit: ""};
  const mebibytes = value / (1 << 20);
  return mebibytes < 1023.5 ? {value: significant(mebibytes), unit: "MiB"}
                            : {value: significant(mebibytes / 1024), unit: "GiB"};
}

// Whole things: 99,999 and then 100 k.
export function count(value) {
  if (value === null) return NONE;
  if (value < 99_999.5) return Math.round(value).toLocaleString("en-US");
  const {value: digits, unit} = scaled(value, "");
  return `${digits} ${unit}`;
}

// Things a second: 9,999 and then 10.0 k.
export function rate(value) {
  if (value === null) return NONE;
  if (value < 99.95) return significant(value);
  if (value < 9_999.5) return Math.round(value).toLocaleString("en-US");
  return joined(scaled(value, ""));
}

// The same with the thousands in the unit: {value: "12.3", unit: "k tokens/s"}.
export function rateParts(value, unit) {
  const [digits, thousands] = rate(value).split(" ");
  return {value: digits, unit: thousands ? `${thousands} ${unit}` : unit};
}

// A share of 0 to 1. 100 % only when it is all, so that one failure in a thousand shows.
export function percent(share) {
  if (share === null) return {value: NONE, unit: ""};
  const value = Math.min(share, 1) * 100;
  if (value === 100 || value === 0) return {value: String(value), unit: "%"};
  const digits = value >= 99.95 ? "99.9" : value < 0.1 ? "<0.1" : value.toFixed(1);
  return {value: digits, unit: "%"};
}

export const joined = ({value, unit}) => (unit ? `${value} ${unit}` : value);
export const durationText = (ms) => joined(duration(ms));

export function uptime(seconds) {
  const days = Math.floor(seconds / 86_400), hours = Math.floor(seconds / 3600) % 24;
  const minutes = Math.floor(seconds / 60) % 60;
  if (days > 0) return `${days} d ${hours} h`;
  if (hours > 0) return `${hours} h ${minutes} min`;
  if (minutes > 0) return `${minutes} min ${Math.floor(seconds) % 60} s`;
  return `${Math.floor(seconds)} s`;
}

export function clock(unixMs) {
  const time = new Date(unixMs);
  const two = (number) => String(number).padStart(2, "0");
  return `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
}

export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

// The beginning of the id by which people know a request.
export const shortId = (request) => (request.traceId || request.id).slice(0, 12) || "no id";
