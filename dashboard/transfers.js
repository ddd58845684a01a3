// Which prefill worker handed how much KV to which decode worker, and how fast. It is a table, and its cells are tinted
// by the bytes of the last minute.
import {byId, make, setText} from "./dom.js";
import {bytes, count, durationText, gigabytesPerS, joined, plural} from "./format.js";
import {nameOf} from "./names.js";

// A matrix up to this size; beyond it, or where most cells would be empty, a list of the busiest pairs.
const MOST_SIDE = 10;
const MOST_LISTED = 64;
const STEPS = 5;

const speed = ({bytes: moved, seconds}) => (seconds > 0 ? moved / seconds : null);
const meanMs = ({seconds, reads}) => (reads > 0 ? (seconds / reads) * 1000 : null);

// 0 for nothing, then 1 to STEPS by the share of the busiest pair.
const tint = (pair, busiest) => (pair.bytes > 0 ? Math.max(1, Math.ceil((pair.bytes / busiest) * STEPS)) : 0);

function cell(pair, busiest) {
  if (!pair) return make("td", {class: "tint-0"}, make("span", {class: "none"}, "–"));
  const {value, unit} = gigabytesPerS(speed(pair));
  const title = `${pair.source} to ${pair.target}, since the start: ${joined(bytes(pair.totalBytes))} in `
    + plural(pair.totalReads, "read");
  if (pair.reads === 0 && pair.bytes === 0) {
    return make("td", {class: "tint-0", title}, make("span", {class: "none"}, "idle"));
  }
  return make(
    "td", {class: `tint-${tint(pair, busiest)}`, title},
    make("b", {}, value, make("span", {class: "unit"}, unit ? ` ${unit}` : "")),
    make("span", {}, joined(bytes(pair.bytes))), make("span", {}, plural(pair.reads, "read")),
    make("span", {}, meanMs(pair) === null ? "–" : `${durationText(meanMs(pair))} each`));
}

function matrix(pairs, sources, targets, busiest) {
  const of = new Map(pairs.map((pair) => [`${pair.source}\n${pair.target}`, pair]));
  const corner = make("td", {class: "corner"}, make("span", {}, "decode →"), make("span", {}, "prefill ↓"));
  const head = make("tr", {}, corner, ...targets.map(
    (target) => make("th", {scope: "col", title: target}, nameOf(target))));
  const rows = sources.map((source) => make(
    "tr", {}, make("th", {scope: "row", title: source}, nameOf(source)),
    ...targets.map((target) => cell(of.get(`${source}\n${target}`), busiest))));
  return [make("thead", {}, head), make("tbody", {}, ...rows)];
}

function pairList(pairs, busiest) {
  const head = ["Prefill", "Decode", "GB/s", "Bytes", "Reads", "Mean"].map((name) => make("th", {scope: "col"}, name));
  const rows = [...pairs].sort((a, b) => b.bytes - a.bytes).slice(0, MOST_LISTED).map((pair) => make(
    "tr", {}, make("th", {scope: "row", title: pair.source}, nameOf(pair.source)),
    make("td", {title: pair.target}, nameOf(pair.target)),
    make("td", {class: `tint-${tint(pair, busiest)}`}, gigabytesPerS(speed(pair)).value),
    make("td", {}, joined(bytes(pair.bytes))), make("td", {}, count(pair.reads)),
    make("td", {}, durationText(meanMs(pair)))));
  return [make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows)];
}

const distinct = (values) => [...new Set(values)].sort((a, b) => (a < b ? -1 : 1));

export function transfers(store) {
  const table = byId("transfer-matrix");
  return function draw() {
    if (!store.latest) return;
    const {seconds, pairs} = store.transfersOfLastMinute();
    const sources = distinct(pairs.map(({source}) => source)), targets = distinct(pairs.map(({target}) => target));
    const busiest = Math.max(1, ...pairs.map((pair) => pair.bytes));
    const isMatrix = Math.max(sources.length, targets.length) <= MOST_SIDE;
    const total = pairs.reduce((sum, pair) => ({bytes: sum.bytes + pair.bytes, seconds: sum.seconds + pair.seconds}),
                               {bytes: 0, seconds: 0});
    const window = seconds === 0 ? "since the router started" : `in the last ${Math.round(seconds)} s`;
    setText(byId("transfers-hint"), pairs.length === 0 ? "" :
      `prefill to decode, ${joined(bytes(total.bytes))} ${window}`
      + (total.seconds > 0 ? ` at ${joined(gigabytesPerS(speed(total)))}` : "")
      + (isMatrix || pairs.length <= MOST_LISTED ? ""
         : `; the busiest ${MOST_LISTED} of ${count(pairs.length)} pairs`));
    byId("transfers-scroll").hidden = pairs.length === 0;
    byId("transfers-empty").hidden = pairs.length > 0;
    setText(byId("transfers-empty"), "No KV has moved. It does when a prefill worker and a decode worker serve a "
      + "request together: baton serve --prefill 1 --decode 1");
    table.className = isMatrix ? "matrix" : "listed";
    table.replaceChildren(...(isMatrix ? matrix(pairs, sources, targets, busiest) : pairList(pairs, busiest)));
  };
}
