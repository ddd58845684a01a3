// The stacked bars of the phases over the last five minutes, with a reading for one bar: under the pointer, or chosen
// by the arrow keys.
import {colour, niceCeiling, phaseColour, prepare} from "./canvas.js";
import {make, setAttribute} from "./dom.js";
import {clock, durationText, joined, percent, plural, roundDuration} from "./format.js";
import {bucketed, sum} from "./phase_means.js";
import {PHASES} from "./wire.js";

const SPAN_S = 300;
const LEAST_BAR_PX = 5;
const AXIS_PX = 62;
const BELOW_PX = 30;
const ABOVE_PX = 8;
const BETWEEN_PX = 26;
const DECODE = PHASES.indexOf("decode");
const ALL = PHASES.map((_, index) => index);

// What is stacked in each panel, from the top. Decode takes nearly all of the time, so that by default it has a panel
// and a scale of its own.
const FORMS = {
  split: [{indices: ALL.filter((index) => index !== DECODE), share: 0.66, title: ["without", "decode"]},
          {indices: [DECODE], share: 0.34, title: ["decode"]}],
  stacked: [{indices: ALL, share: 1, title: []}],
  share: [{indices: ALL, share: 1, title: [], relative: true}],
};

export class PhaseChart {
  form = "split";
  #buckets = [];
  #seconds = 1;
  #nowMs = 0;
  #edgeMs = 0;
  // The start of the bucket that is read, or null.
  #reading = null;

  // `hidden` has the indices of phases that are not drawn.
  constructor(canvas, readout, hidden, invalidate) {
    this.canvas = canvas;
    this.readout = readout;
    this.hidden = hidden;
    this.invalidate = invalidate;
    canvas.addEventListener("pointermove", (event) => this.#read(this.#bucketAt(event.offsetX)));
    canvas.addEventListener("pointerleave", () => this.#read(null));
    canvas.addEventListener("blur", () => this.#read(null));
    canvas.addEventListener("keydown", (event) => this.#onKey(event));
  }

  draw(snapshots) {
    const prepared = prepare(this.canvas);
    if (!prepared) return;
    const {context} = prepared, width = prepared.width - AXIS_PX, bottom = prepared.height - BELOW_PX;
    this.#seconds = Math.max(1, Math.ceil((LEAST_BAR_PX * SPAN_S) / width));
    this.#nowMs = snapshots.at(-1)?.t ?? 0;
    const length = this.#seconds * 1000;
    // The right edge is where the newest bar ends, so that all of it is in the chart.
    this.#edgeMs = Math.floor(this.#nowMs / length) * length + length;
    const oldest = this.#edgeMs - SPAN_S * 1000;
    this.#buckets = bucketed(snapshots.filter((snapshot) => snapshot.t >= oldest), this.#seconds);
    const panels = FORMS[this.form], free = bottom - ABOVE_PX - BETWEEN_PX * (panels.length - 1);
    let top = ABOVE_PX;
    for (const panel of panels) {
      const plot = {context, width, top, bottom: Math.round(top + free * panel.share)};
      this.#drawPanel(plot, panel);
      top = plot.bottom + BETWEEN_PX;
    }
    this.#drawTimes({context, width, bottom});
    this.#drawReading({context, width, bottom});
  }

  #x(startMs, width) {
    return width - ((this.#edgeMs - startMs) / 1000 / SPAN_S) * width;
  }

  #drawPanel(plot, {indices, title, relative}) {
    const {context, width, top, bottom} = plot;
    const drawn = indices.filter((index) => !this.hidden.has(index));
    const heights = this.#buckets.map(({means}) => (means ? sum(drawn.map((index) => means[index])) : 0));
    const tallest = Math.max(0, ...heights), most = relative ? 1 : niceCeiling(tallest);
    this.#drawScale(plot, tallest > 0 ? most : null, relative);
    const barWidth = Math.max(1, (this.#seconds / SPAN_S) * width - 1);
    for (const index of drawn) {
      context.fillStyle = phaseColour(PHASES[index]);
      this.#buckets.forEach(({start, means}, i) => {
        if (heights[i] === 0) return;
        const scale = (bottom - top) / (relative ? heights[i] : most);
        const below = sum(drawn.slice(0, drawn.indexOf(index)).map((lower) => means[lower]));
        const height = means[index] * scale;
        context.fillRect(this.#x(start, width), bottom - below * scale - height, barWidth, height);
      });
    }
    context.fillStyle = colour("quiet");
    const middle = (top + bottom) / 2;
    title.forEach((line, i) => context.fillText(line, width + 8, middle + (i - (title.length - 1) / 2) * 15));
  }

  // `most` is null where there is nothing to scale.
  #drawScale({context, width, top, bottom}, most, relative) {
    context.textBaseline = "middle";
    context.textAlign = "left";
    for (const share of [0, 0.5, 1]) {
      if (share > 0 && most === null) continue;
      const y = Math.round(bottom - share * (bottom - top));
      context.fillStyle = colour("line");
      context.fillRect(0, y, width, 1);
      if (share === 0.5) continue;
      context.fillStyle = colour("quiet");
      context.fillText(relative ? joined(percent(share)) : share === 0 ? "0" : roundDuration(most), width + 8, y);
    }
  }

  #drawTimes({context, width, bottom}) {
    const barWidth = Math.max(3, (this.#seconds / SPAN_S) * width - 1);
    context.fillStyle = colour("bad");
    for (const {start, failed} of this.#buckets) {
      if (failed > 0) context.fillRect(this.#x(start, width), bottom + 4, barWidth, 5);
    }
    context.fillStyle = colour("quiet");
    context.textBaseline = "alphabetic";
    for (const minutes of [5, 4, 3, 2, 1, 0]) {
      context.textAlign = minutes === 5 ? "left" : minutes === 0 ? "right" : "center";
      context.fillText(minutes === 0 ? "now" : `−${minutes} min`, width - (minutes / 5) * width, bottom + 25);
    }
  }

  #drawReading({context, width, bottom}) {
    const bucket = this.#buckets.find(({start}) => start === this.#reading);
    this.readout.hidden = !bucket;
    if (!bucket) return;
    const x = this.#x(bucket.start, width) + ((this.#seconds / SPAN_S) * width) / 2;
    context.fillStyle = colour("text");
    context.fillRect(Math.round(x), ABOVE_PX, 1, bottom - ABOVE_PX);
    this.#fillReadout(bucket);
    const left = x + 14 + this.readout.offsetWidth < width ? x + 14 : x - 14 - this.readout.offsetWidth;
    this.readout.style.transform = `translate(${Math.round(Math.max(0, left))}px, ${ABOVE_PX}px)`;
    const spoken = bucket.means ? PHASES.map((phase, i) => `${phase} ${durationText(bucket.means[i])}`).join(", ")
                                : "no request ended";
    setAttribute(this.canvas, "aria-valuetext", `${clock(bucket.start)}: ${spoken}`);
    setAttribute(this.canvas, "aria-valuenow", String(Math.round((bucket.start - this.#nowMs) / 1000)));
  }

  #fillReadout({start, means, ended, failed}) {
    const row = (name, chip, value) =>
      make("div", {}, make("i", {class: chip}), make("span", {}, name), make("b", {}, value));
    this.readout.replaceChildren(
      make("p", {}, `${clock(start)} · ${plural(ended, "request")}${failed > 0 ? `, ${failed} failed` : ""}`),
      ...(means ? PHASES.map((phase, index) => row(phase, `chip phase-${phase}`, durationText(means[index]))) : []),
      row("total", "chip", means ? durationText(sum(means)) : "–"));
  }

  #bucketAt(x) {
    const width = this.canvas.clientWidth - AXIS_PX;
    const time = this.#edgeMs - ((width - x) / width) * SPAN_S * 1000;
    return this.#buckets.find(({start}) => start <= time && time < start + this.#seconds * 1000)?.start ?? null;
  }

  #read(start) {
    if (this.#reading === start) return;
    this.#reading = start;
    this.invalidate();
  }

  #onKey(event) {
    const steps = {ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageUp: 10, PageDown: -10, Home: -Infinity,
                   End: Infinity};
    if (event.key === "Escape") return this.#read(null);
    if (!(event.key in steps) || this.#buckets.length === 0) return;
    event.preventDefault();
    const last = this.#buckets.length - 1;
    const at = this.#buckets.findIndex(({start}) => start === this.#reading);
    const next = at < 0 ? last : Math.min(last, Math.max(0, at + steps[event.key]));
    this.#read(this.#buckets[next].start);
  }
}
