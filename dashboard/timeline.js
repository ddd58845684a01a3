// Lanes over time: one lane for each slot in which requests followed each other, or one for each worker with how many
// requests it worked on at a time.
import {colour, phaseColour, prepare} from "./canvas.js";
import {byId, make, setAttribute, setText} from "./dom.js";
import {clock, durationText, plural, shortId} from "./format.js";
import {phaseIntervals} from "./lanes.js";
import {nameOf} from "./names.js";
import {PHASES} from "./wire.js";

const MOST_LANES = 120;
// How often lanes are sorted in the time that the chart shows.
const ORDERS = 4;
const MOST_WORKERS = 24;
const SLOT_PX = {least: 4, most: 18};
const WORKER_PX = 44;
const MOST_HEIGHT_PX = 480;
const LEAST_HEIGHT_PX = 120;
const BELOW_PX = 26;
const LABEL_PX = 12;
// The hand-off stands out from the long decode by height too, as in the list of requests.
const TALL = new Set(["prefill", "transfer"]);
// Phases that a worker works on, and whose address it is.
const WORK = [["decode", (request) => request.decodeWorker], ["transfer", (request) => request.decodeWorker],
              ["prefill", (request) => request.prefillWorker]];

export class Timeline {
  byWorker = false;
  spanMs = 60_000;
  // The right edge when somebody has moved back, or null for now.
  #endMs = null;
  #drawnSlots = [];
  #lane = {height: 0, count: 0};
  #pointer = null;
  #orderKey = "";
  #slotRanks = new Map();

  // `view` says which requests pass the filter: the others are faint. onOpen(request) when one is pressed.
  constructor(store, view, invalidate, onOpen) {
    this.store = store;
    this.view = view;
    this.invalidate = invalidate;
    this.canvas = byId("timeline-chart");
    this.readout = byId("timeline-readout");
    this.#wireControls();
    this.canvas.addEventListener("pointermove", (event) => this.#point(event));
    this.canvas.addEventListener("pointerleave", () => this.#point(null));
    this.canvas.addEventListener("click", () => {
      const hit = this.#hit();
      if (hit) onOpen(hit);
    });
  }

  #wireControls() {
    const press = (id, action) => byId(id).addEventListener("click", () => {
      action();
      this.#showControls();
      this.invalidate();
    });
    press("lanes-slots", () => { this.byWorker = false; });
    press("lanes-workers", () => { this.byWorker = true; });
    press("timeline-back", () => this.#move(-0.5));
    press("timeline-forward", () => this.#move(0.5));
    press("timeline-live", () => { this.#endMs = null; });
    byId("timeline-span").addEventListener("change", (event) => {
      this.spanMs = Number(event.target.value) * 1000;
      this.invalidate();
    });
  }

  #showControls() {
    setAttribute(byId("lanes-slots"), "aria-pressed", String(!this.byWorker));
    setAttribute(byId("lanes-workers"), "aria-pressed", String(this.byWorker));
    setAttribute(byId("timeline-live"), "aria-pressed", String(this.#endMs === null));
  }

  #nowMs() {
    return this.store.latest?.t ?? 0;
  }

  #move(spans) {
    const end = (this.#endMs ?? this.#nowMs()) + spans * this.spanMs;
    this.#endMs = end >= this.#nowMs() ? null : end;
  }

  // Moves to where the request is.
  goTo(request) {
    const end = this.#endMs ?? this.#nowMs();
    if (request.end <= end && request.end - request.total >= end - this.spanMs) return;
    this.#endMs = request.end + this.spanMs * 0.1;
    this.#showControls();
    this.invalidate();
  }

  draw() {
    const end = this.#endMs ?? this.#nowMs(), begin = end - this.spanMs;
    const requests = [];
    let sawOlder = 0;
    // Requests come in the order of their ends, apart from a few milliseconds.
    this.store.eachNewest((request) => {
      if (request.end < begin) return ++sawOlder < 64;
      if (request.end - request.total <= end) requests.push(request);
      return true;
    });
    byId("timeline-empty").hidden = requests.length > 0;
    setText(byId("timeline-empty"), this.store.size === 0
      ? "No request yet. Each one appears here when it has ended: baton generate --prompt \"Once upon a time\""
      : "No request in this time.");
    if (this.byWorker) this.#drawWorkers(requests, begin, end);
    else this.#drawSlots(requests, begin, end);
  }

  #prepare(height) {
    const pixels = `${Math.max(LEAST_HEIGHT_PX, Math.min(MOST_HEIGHT_PX, height)) + BELOW_PX}px`;
    if (this.canvas.style.height !== pixels) this.canvas.style.height = pixels;
    return prepare(this.canvas);
  }

  #drawAxis({context, width, height}, begin, end) {
    context.textBaseline = "alphabetic";
    for (let i = 0; i <= 4; ++i) {
      const x = Math.min(width - 1, (i / 4) * width);
      context.fillStyle = colour("line");
      context.fillRect(Math.round(x), 0, 1, height - BELOW_PX + 4);
      context.fillStyle = colour("quiet");
      context.textAlign = i === 0 ? "left" : i === 4 ? "right" : "center";
      context.fillText(clock(begin + (i / 4) * (end - begin)), x, height - 6);
    }
  }

  // Slots are numbered over all of history. Those in use now get a lane, the busiest on top, so that what only a burst
  // needed is below. The order is made anew a few times in the width of the chart, because lanes that jump every second
  // cannot be followed.
  #orderedSlots(requests, begin, end) {
    const busyMs = new Map();
    for (const request of requests) {
      const ms = Math.min(end, request.end) - Math.max(begin, request.end - request.total);
      busyMs.set(request.slot, (busyMs.get(request.slot) ?? 0) + ms);
    }
    const key = `${this.spanMs} ${Math.floor((end / this.spanMs) * ORDERS)}`;
    if (key !== this.#orderKey) {
      const sorted = [...busyMs].sort(([a, aMs], [b, bMs]) => bMs - aMs || a - b);
      this.#slotRanks = new Map(sorted.map(([slot], rank) => [slot, rank]));
      this.#orderKey = key;
    }
    const rank = (slot) => this.#slotRanks.get(slot) ?? this.#slotRanks.size + slot;
    return [...busyMs.keys()].sort((a, b) => rank(a) - rank(b));
  }

  #drawSlots(requests, begin, end) {
    const used = this.#orderedSlots(requests, begin, end);
    const slots = used.slice(0, MOST_LANES);
    const laneOf = new Map(slots.map((slot, lane) => [slot, lane]));
    const height = Math.min(SLOT_PX.most, Math.max(SLOT_PX.least, MOST_HEIGHT_PX / Math.max(1, slots.length)));
    const plot = this.#prepare(height * slots.length);
    if (!plot) return;
    this.#drawAxis(plot, begin, end);
    const scale = plot.width / (end - begin), gap = height > 8 ? 2 : 1;
    const shown = requests.filter((request) => laneOf.has(request.slot));
    this.#drawnSlots = shown.map((request) => ({
      request, lane: laneOf.get(request.slot), x: (request.end - request.total - begin) * scale,
      width: Math.max(1, request.total * scale),
    }));
    this.#lane = {height, count: slots.length};
    const {context} = plot;
    PHASES.forEach((phase, index) => {
      context.fillStyle = phaseColour(phase);
      const full = height - gap, tall = TALL.has(phase) ? full : Math.max(2, Math.round(full * 0.5));
      for (const {request, lane} of this.#drawnSlots) {
        let before = 0;
        for (let i = 0; i < index; ++i) before += request.phases[i];
        const width = Math.min(request.phases[index], request.total - before) * scale;
        if (width < 0.3) continue;
        const x = (request.end - request.total + before - begin) * scale, y = lane * height + (full - tall) / 2;
        context.globalAlpha = this.view.isFiltered && this.view.indexOf(request) < 0 ? 0.2 : 1;
        context.fillRect(x, y, width, tall);
      }
    });
    context.globalAlpha = 1;
    context.fillStyle = colour("bad");
    for (const {request, lane, x, width} of this.#drawnSlots) {
      if (request.outcome !== "ok") context.fillRect(x + width - 2, lane * height, 3, height - gap);
    }
    const left = used.length > slots.length ? `, of which ${slots.length} are shown` : "";
    this.#describe(requests.length, plural(used.length, "lane") + left);
    this.#drawHit(plot);
  }

  // How many requests each worker worked on at a time, stacked by phase, one column of pixels after the other.
  #drawWorkers(requests, begin, end) {
    const addresses = [...new Set(WORK.flatMap(([, address]) => requests.map(address)))].filter(Boolean).sort();
    const shown = addresses.slice(0, MOST_WORKERS);
    this.#drawnSlots = [];
    const plot = this.#prepare(WORKER_PX * shown.length);
    if (!plot) return;
    this.#drawAxis(plot, begin, end);
    const columns = Math.max(1, Math.floor(plot.width));
    const deltas = new Map(shown.map((address) => [address, WORK.map(() => new Int32Array(columns + 1))]));
    const columnOf = (ms) => Math.min(columns, Math.max(0, Math.floor(((ms - begin) / (end - begin)) * columns)));
    for (const request of requests) {
      for (const {index, begin: from, end: to} of phaseIntervals(request)) {
        const work = WORK.findIndex(([phase]) => phase === PHASES[index]);
        const delta = work < 0 ? null : deltas.get(WORK[work][1](request))?.[work];
        if (!delta || to < begin) continue;
        ++delta[columnOf(from)];
        --delta[Math.max(columnOf(from) + 1, columnOf(to))];
      }
    }
    const height = (plot.height - BELOW_PX) / Math.max(1, shown.length);
    shown.forEach((address, lane) => {
      this.#drawWorker(plot, address, deltas.get(address), {top: lane * height, height});
    });
    this.#describe(requests.length, plural(addresses.length, "worker"));
    this.readout.hidden = true;
  }

  #drawWorker({context, width}, address, deltas, {top, height}) {
    const columns = deltas[0].length - 1, area = height - LABEL_PX - 8;
    const levels = deltas.map((delta) => {
      let level = 0;
      return delta.map((change) => (level += change));
    });
    let most = 1;
    for (let x = 0; x < columns; ++x) most = Math.max(most, levels.reduce((total, level) => total + level[x], 0));
    const base = top + height - 4, unit = area / most, bottoms = new Float64Array(columns).fill(base);
    levels.forEach((level, work) => {
      context.fillStyle = phaseColour(WORK[work][0]);
      for (let x = 0; x < columns; ++x) {
        if (level[x] <= 0) continue;
        bottoms[x] -= level[x] * unit;
        context.fillRect((x * width) / columns, bottoms[x], width / columns + 0.5, level[x] * unit);
      }
    });
    context.fillStyle = colour("line");
    context.fillRect(0, base, width, 1);
    context.fillStyle = colour("text");
    context.textAlign = "left";
    context.fillText(`${nameOf(address)}, at most ${plural(most, "request")} at a time`, 0, top + LABEL_PX - 1);
  }

  #describe(number, lanes) {
    const said = `${plural(number, "request")} on ${lanes}`;
    setText(byId("timeline-hint"), number === 0 ? "" : `${said}. A request appears when it has ended.`);
    setAttribute(this.canvas, "aria-label", `${said}; the list of requests has the same as text`);
  }

  #point(event) {
    this.#pointer = event ? {x: event.offsetX, y: event.offsetY} : null;
    this.invalidate();
  }

  #hit() {
    if (!this.#pointer || this.#lane.count === 0) return null;
    const {x, y} = this.#pointer, lane = Math.floor(y / this.#lane.height);
    return this.#drawnSlots.find((drawn) => drawn.lane === lane && x >= drawn.x - 1 && x <= drawn.x + drawn.width + 1)
      ?.request ?? null;
  }

  #drawHit({context, width}) {
    const request = this.#hit();
    this.readout.hidden = !request;
    this.canvas.classList.toggle("pressable", Boolean(request));
    if (!request) return;
    const drawn = this.#drawnSlots.find((slot) => slot.request === request);
    context.strokeStyle = colour("text");
    context.lineWidth = 1.5;
    context.strokeRect(drawn.x - 1, drawn.lane * this.#lane.height - 1, drawn.width + 2, this.#lane.height);
    this.readout.replaceChildren(
      make("p", {}, [shortId(request), request.outcome, durationText(request.total)].join(" · ")),
      ...PHASES.map((phase, index) => make(
        "div", {}, make("i", {class: `chip phase-${phase}`}), make("span", {}, phase),
        make("b", {}, durationText(request.phases[index])))));
    const left = Math.max(0, Math.min(this.#pointer.x + 14, width - this.readout.offsetWidth));
    const top = Math.min(this.#pointer.y + 14, this.canvas.clientHeight - this.readout.offsetHeight);
    this.readout.style.transform = `translate(${Math.round(left)}px, ${Math.round(Math.max(0, top))}px)`;
  }
}
