// Puts the page together: events fill the store, the store's changes mark parts of the page, and frames draw them.
import {forgetColours} from "./canvas.js";
import {detail} from "./detail.js";
import {byId, download, make, setAttribute, setText} from "./dom.js";
import {Events} from "./events.js";
import {toChromeTrace, toCsv} from "./exports.js";
import {bytesPerS, count, durationText, joined, memory, plural} from "./format.js";
import {Frames} from "./frames.js";
import {headline} from "./headline.js";
import {learnNames, nameOf} from "./names.js";
import {phases} from "./phases.js";
import {RequestView, SORTS} from "./request_view.js";
import {RequestList, describeView} from "./requests.js";
import {Status} from "./status.js";
import {Held, Store} from "./store.js";
import {makeThemeSwitch} from "./theme_switch.js";
import {Timeline} from "./timeline.js";
import {transfers} from "./transfers.js";
import {OUTCOMES, readHistory, readRequests, readSnapshot} from "./wire.js";
import {workers} from "./workers.js";

const store = new Store();
const view = new RequestView(store);
const frames = new Frames();
let held = new Held();
const status = new Status(store, () => held);

function redraw(...names) {
  frames.invalidate(...names);
}

const detailPanel = detail(() => {
  byId("request-grid").focus({preventScroll: true});
  redraw("requests");
});

function open(request) {
  detailPanel.show(request);
  timeline.goTo(request);
  redraw("requests");
}

const list = new RequestList(view, () => redraw("requests"), open);
const timeline = new Timeline(store, view, () => redraw("timeline"), (request) => {
  list.active = request;
  open(request);
});

// What arrives.

// Names of the cluster, its workers, and this page.
function learnIdentity() {
  const {workers: present, transfers: moved} = store.latest ?? {};
  learnNames([...[...(present ?? []), ...store.departed].map(({address}) => address),
              ...(moved ?? []).flatMap(({source, target}) => [source, target])]);
  const model = store.latest?.model ?? "";
  setText(byId("model"), model);
  const title = model ? `Baton · ${model}` : "Baton";
  if (document.title !== title) document.title = title;
}

const readers = {history: readHistory, snapshot: readSnapshot, requests: readRequests};

const takers = {
  history(history) {
    store.load(history);
    view.rebuild();
    learnIdentity();
    redraw();
  },
  snapshot(snapshot) {
    store.addSnapshot(snapshot);
    learnIdentity();
    redraw("headline", "phases", "workers", "transfers", "timeline", "cost");
  },
  requests(requests) {
    view.update(requests, store.addRequests(requests));
    redraw("requests", "timeline");
  },
};

function onEvent(name, raw) {
  if (!Object.hasOwn(readers, name)) return;
  const value = readers[name](raw);
  if (status.paused) held.hold(name, value);
  else takers[name](value);
  status.heard();
}

function resume() {
  const {history, snapshots, requests} = held;
  held = new Held();
  if (history) takers.history(history);
  if (requests.length > 0) takers.requests(requests);
  for (const snapshot of snapshots) takers.snapshot(snapshot);
}

byId("pause").addEventListener("click", () => {
  status.paused = !status.paused;
  if (!status.paused) resume();
  setAttribute(byId("pause"), "aria-pressed", String(status.paused));
  setText(byId("pause"), status.paused ? "Resume" : "Pause");
  status.draw();
});

// Filters.

function fillFilters() {
  const option = (value, label) => make("option", {value}, label);
  const outcomes = OUTCOMES.map((name) => option(name, name));
  byId("filter-outcome").append(option("", "all"), option("not ok", "not ok"), ...outcomes);
  for (const [name, {label}] of SORTS) byId("sort-by").append(option(name, label));
}

const MOST_FILTER_WORKERS = 256;
let offered = "";

// The workers that can be chosen are those that are there, and the one that is chosen.
function drawFilters() {
  const select = byId("filter-worker"), {worker} = view.filter;
  const addresses = new Set([...(store.latest?.workers ?? []), ...store.departed].map(({address}) => address));
  if (worker) addresses.add(worker);
  const choices = ["", ...[...addresses].filter(Boolean).sort().slice(0, MOST_FILTER_WORKERS)];
  if (choices.join("\n") !== offered) {
    offered = choices.join("\n");
    select.replaceChildren(...choices.map(
      (address) => make("option", {value: address}, address ? nameOf(address) : "all")));
  }
  if (select.value !== worker) select.value = worker;
}

function filter(change) {
  view.setFilter(change);
  redraw("requests", "timeline");
}

function showRequestsOf(address) {
  filter({worker: address});
  byId("requests").scrollIntoView();
  byId("request-grid").focus({preventScroll: true});
}

fillFilters();
byId("filters").addEventListener("submit", (event) => event.preventDefault());
byId("filter-outcome").addEventListener("change", (event) => filter({outcome: event.target.value}));
byId("filter-worker").addEventListener("change", (event) => filter({worker: event.target.value}));
byId("filter-text").addEventListener("input", (event) => filter({text: event.target.value}));
byId("sort-by").addEventListener("change", (event) => {
  view.setSort(event.target.value);
  byId("request-scroll").scrollTop = 0;
  redraw("requests");
});
byId("filter-clear").addEventListener("click", () => {
  for (const id of ["filter-outcome", "filter-worker", "filter-text"]) byId(id).value = "";
  filter({outcome: "", worker: "", text: ""});
});
byId("without-decode").addEventListener("click", () => {
  list.withoutDecode = !list.withoutDecode;
  setAttribute(byId("without-decode"), "aria-pressed", String(list.withoutDecode));
  redraw("requests");
});
list.onSorted = () => { byId("sort-by").value = view.sort; };

function drawRequests() {
  drawFilters();
  const empty = view.rows.length === 0;
  byId("requests-empty").hidden = !empty;
  byId("request-grid").classList.toggle("none", empty);
  setText(byId("requests-empty"), store.size === 0
    ? "No request yet. Send one: baton generate --prompt \"Once upon a time\""
    : "No request passes the filter. Clear it to see all.");
  setText(byId("requests-hint"), store.size === 0 ? "" : describeView(view));
  for (const id of ["export-csv", "export-trace"]) byId(id).disabled = empty;
  list.draw();
}

// Exports have what the list shows, in its order.

const fileTime = () => new Date(store.latest?.t ?? 0).toISOString().slice(0, 19).replaceAll(":", "-");
byId("export-csv").addEventListener("click",
  () => download(`baton-requests-${fileTime()}.csv`, "text/csv", toCsv(view.rows)));
byId("export-trace").addEventListener("click",
  () => download(`baton-trace-${fileTime()}.json`, "application/json", toChromeTrace(view.rows)));

// What it costs.

const events = new Events("events", {onEvent, onState: (state) => { status.connection = state; }});

function drawCost() {
  const latest = store.latest;
  if (!latest) return;
  const {cost} = latest, frame = frames.cost();
  const cores = (value) => (value === null ? "–" : `${value.toFixed(value < 0.1 ? 4 : 2)} cores`);
  const facts = [
    ["router, all of it", cores(cost.cpuCores)], ["its telemetry", cores(cost.telemetryCpuCores)],
    ["its memory", joined(memory(cost.rssBytes))], ["viewers", count(cost.viewers)],
    ["sent to them", joined(bytesPerS(cost.bytesPerS))],
    ["a frame of this page", frame ? `${durationText(frame.p50)}, P95 ${durationText(frame.p95)}` : "–"],
    ["kept in this page", plural(store.size, "request")],
  ];
  byId("cost").replaceChildren(...facts.map(
    ([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
  setText(byId("about"), `baton ${latest.version}`);
}

frames.add("headline", byId("headline"), headline(store));
frames.add("phases", byId("phases"), phases(store, () => redraw("phases")));
frames.add("workers", byId("workers"), workers(store, () => redraw("workers"), showRequestsOf));
frames.add("transfers", byId("transfers"), transfers(store));
frames.add("requests", byId("requests"), drawRequests);
frames.add("timeline", byId("timeline"), () => timeline.draw());
frames.add("cost", document.querySelector("footer"), drawCost);
addEventListener("resize", () => redraw());
makeThemeSwitch(byId("theme"), () => {
  forgetColours();
  redraw();
});
events.run();

// For tests and for the curious.
window.batonDebug = {
  sizes: () => ({
    requests: store.size, snapshots: store.snapshots.length, rows: view.rows.length, renderedRows: list.renderedRows,
    held: held.requests.length + held.snapshots.length, departed: store.departed.length,
    elements: document.getElementsByTagName("*").length,
  }),
  frameCost: () => frames.cost(),
  newest: () => store.newest?.id ?? "",
  framesDrawn: () => frames.drawn,
  received: () => ({bytes: events.bytes, snapshotAt: store.latest?.t ?? 0}),
};
