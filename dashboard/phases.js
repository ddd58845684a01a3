// Where the time goes: one bar for the last minute, the phases by name, and the bars of the last five minutes.
import {byId, make, setAttribute, setText} from "./dom.js";
import {clock, durationText, joined, percent, plural} from "./format.js";
import {PhaseChart} from "./phase_chart.js";
import {bucketed, meanOf, sum} from "./phase_means.js";
import {PHASES} from "./wire.js";

const WINDOW_MS = 60_000;
const TABLE_SECONDS = 10;
// Below this share a part of the bar has no room for its name.
const NAMED_SHARE = 0.07;

export const MEANINGS = {
  queue: "waits at the router for a pair of workers",
  admission: "the decode worker reserves its blocks",
  prefill: "the prompt is computed",
  transfer: "KV blocks still move after the prompt is done",
  decode: "tokens are generated",
  network: "the rest: the way between router and workers",
};

const DECODE = PHASES.indexOf("decode");

// A bar of some phases, whose lengths are their shares of the bar. draw(means) with null for nothing.
function makeRelay(title, indices) {
  const total = make("b"), bar = make("div", {class: "relay"});
  const parts = indices.map((index) => {
    const label = make("span"), part = make("div", {class: `part phase-${PHASES[index]}`}, label);
    bar.append(part);
    return {index, part, label};
  });
  byId("relay").append(make("p", {}, title, " ", total), bar);
  return (means) => {
    const whole = means ? sum(indices.map((index) => means[index])) : 0;
    for (const {index, part, label} of parts) {
      const share = whole > 0 ? means[index] / whole : 0;
      part.style.flexGrow = share;
      part.hidden = share === 0;
      setText(label, share >= NAMED_SHARE ? PHASES[index] : "");
    }
    bar.classList.toggle("none", whole === 0);
    setText(total, means ? durationText(whole) : "");
  };
}

// A button for each phase that hides it in the chart and shows it again.
function makeLegend(hidden, changed) {
  return PHASES.map((phase, index) => {
    const value = make("b", {}, "–"), share = make("span", {class: "share"});
    const button = make("button", {type: "button", "aria-pressed": "true", title: MEANINGS[phase]},
                        make("i", {class: `chip phase-${phase}`}), make("span", {class: "name"}, phase), value, share);
    button.addEventListener("click", () => {
      if (!hidden.delete(index)) hidden.add(index);
      setAttribute(button, "aria-pressed", String(!hidden.has(index)));
      changed();
    });
    byId("phase-legend").append(make("li", {}, button));
    return {value, share};
  });
}

export function phases(store, invalidate) {
  const hidden = new Set();
  // Decode usually takes nearly all of the time, so a second bar shows the rest by itself.
  const relays = [makeRelay("All phases", PHASES.map((_, index) => index)),
                  makeRelay("Without decode", PHASES.map((_, index) => index).filter((index) => index !== DECODE))];
  const legend = makeLegend(hidden, invalidate);
  const chart = new PhaseChart(byId("phase-chart"), byId("phase-readout"), hidden, invalidate);
  const forms = ["split", "stacked", "share"];
  for (const form of forms) {
    byId(`phases-${form}`).addEventListener("click", () => {
      chart.form = form;
      for (const other of forms) setAttribute(byId(`phases-${other}`), "aria-pressed", String(other === form));
      invalidate();
    });
  }
  byId("phases-table-box").addEventListener("toggle", invalidate);

  function drawRelay({means, ended}) {
    const total = means ? sum(means) : 0;
    for (const draw of relays) draw(means);
    legend.forEach(({value, share}, index) => {
      setText(value, means ? durationText(means[index]) : "–");
      setText(share, means ? joined(percent(total > 0 ? means[index] / total : 0)) : "");
    });
    setText(byId("phases-hint"), means ? `mean of ${plural(ended, "request")} that ended well in the last 60 s` : "");
    setAttribute(byId("relay"), "aria-label", means ? PHASES.map(
      (phase, index) => `${phase} ${durationText(means[index])}`).join(", ") : "No request has ended yet");
  }

  return function draw() {
    const latest = store.latest;
    if (!latest) return;
    drawRelay(meanOf(store.snapshots.filter((snapshot) => snapshot.t > latest.t - WINDOW_MS)));
    const any = store.snapshots.some((snapshot) => snapshot.phases || snapshot.newlyFailed > 0);
    byId("phases-empty").hidden = any;
    setText(byId("phases-empty"), store.size > 0
      ? "No request has ended in the last five minutes."
      : "No request yet. Send one: baton generate --prompt \"Once upon a time\"");
    chart.draw(store.snapshots);
    if (byId("phases-table-box").open) drawTable(store.snapshots);
  };
}

function drawTable(snapshots) {
  const head = make("tr", {}, ...["Time", ...PHASES, "total", "requests", "failed"].map(
    (name) => make("th", {scope: "col"}, name)));
  const rows = bucketed(snapshots, TABLE_SECONDS).reverse().map(({start, means, ended, failed}) => make(
    "tr", {}, make("th", {scope: "row"}, clock(start)),
    ...PHASES.map((_, index) => make("td", {}, means ? durationText(means[index]) : "–")),
    make("td", {}, means ? durationText(sum(means)) : "–"), make("td", {}, String(ended)),
    make("td", {}, String(failed))));
  byId("phases-table").replaceChildren(
    make("caption", {}, `Mean of each phase, every ${TABLE_SECONDS} s`), make("thead", {}, head),
    make("tbody", {}, ...rows));
}
