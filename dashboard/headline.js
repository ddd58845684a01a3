// The large numbers: latencies, goodput, tokens and requests, each with its course over the last five minutes.
import {drawSparkline} from "./canvas.js";
import {byId, setText} from "./dom.js";
import {NONE, count, duration, durationText, percent, plural, rate, rateParts, roundDuration} from "./format.js";
import {MAX_SNAPSHOTS} from "./wire.js";

function objective({ttftTargetMs, itlTargetMs}) {
  const targets = [];
  if (ttftTargetMs) targets.push(`TTFT ≤ ${roundDuration(ttftTargetMs)}`);
  if (itlTargetMs) targets.push(`ITL ≤ ${roundDuration(itlTargetMs)}`);
  return targets.join("\n");
}

// For each tile: the large number, the smaller one, and what the line shows.
const TILES = {
  ttft: {big: (h) => duration(h.ttft.p50), more: (h) => durationText(h.ttft.p99), line: (h) => h.ttft.p50},
  itl: {big: (h) => duration(h.itl.p50), more: (h) => durationText(h.itl.p99), line: (h) => h.itl.p50},
  e2e: {big: (h) => duration(h.e2e.p50), more: (h) => durationText(h.e2e.p99), line: (h) => h.e2e.p50},
  goodput: {big: (h) => percent(h.goodput), more: objective, line: (h) => h.goodput, fill: true},
  tokens: {
    big: (h) => rateParts(h.outputTokensPerS, "tokens/s"),
    more: (h) => (h.promptTokensPerS === null ? NONE : `${rate(h.promptTokensPerS)} tokens/s`),
    line: (h) => h.outputTokensPerS, fill: true,
  },
  running: {
    big: (h) => ({value: count(h.running), unit: h.running === 1 ? "request" : "requests"}),
    more: (h) => plural(h.waiting, "request"), line: (h) => h.running, fill: true,
  },
};

export function headline(store) {
  const tiles = Object.entries(TILES).map(([name, tile]) => {
    const element = byId(`tile-${name}`);
    const find = (selector) => element.querySelector(selector);
    return {...tile, value: find(".value"), unit: find(".unit"), second: find(".more"), canvas: find("canvas")};
  });
  return function draw() {
    const latest = store.latest;
    if (!latest) return;
    for (const {big, more, line, fill, value, unit, second, canvas} of tiles) {
      const number = big(latest.headline);
      setText(value, number.value);
      setText(unit, number.value === NONE ? "" : number.unit);
      setText(second, more(latest.headline) || NONE);
      drawSparkline(canvas, store.snapshots.map((snapshot) => line(snapshot.headline)), MAX_SNAPSHOTS, {fill});
    }
  };
}
