// What leaves the page: CSV for spreadsheets, and Chrome's trace format, which Perfetto opens.
import {shortId} from "./format.js";
import {assignLanes, phaseIntervals} from "./lanes.js";
import {PHASES} from "./wire.js";

const CSV_COLUMNS = [
  ["id", (r) => r.id], ["trace_id", (r) => r.traceId], ["end", (r) => new Date(Math.min(r.end, 8.64e15)).toISOString()],
  ["outcome", (r) => r.outcome], ["finish", (r) => r.finish], ["error", (r) => r.error],
  ["prompt_tokens", (r) => r.promptTokens], ["output_tokens", (r) => r.outputTokens],
  ["cached_tokens", (r) => r.cachedTokens], ["attempts", (r) => r.attempts], ["prefill_worker", (r) => r.prefillWorker],
  ["decode_worker", (r) => r.decodeWorker], ["ttft_ms", (r) => r.ttft ?? ""], ["itl_ms", (r) => r.itl ?? ""],
  ["total_ms", (r) => r.total], ...PHASES.map((phase, index) => [`${phase}_ms`, (r) => r.phases[index]]),
  ["transfer_bytes", (r) => r.transferBytes],
];

// A text that begins like a formula gets a quote in front, because spreadsheets would run it.
function csvField(value) {
  if (typeof value === "number") return String(value);
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

// RFC 4180, with the units in the names of the columns.
export function toCsv(requests) {
  const lines = [CSV_COLUMNS.map(([name]) => name).join(",")];
  for (const request of requests) lines.push(CSV_COLUMNS.map(([, read]) => csvField(read(request))).join(","));
  return `${lines.join("\r\n")}\r\n`;
}

class TraceWriter {
  events = [];
  #process = 0;

  constructor(originMs) {
    this.originMs = originMs;
  }

  // Whole microseconds, so that an event that ends where the next begins does so to the digit.
  #us(ms) {
    return Math.round((ms - this.originMs) * 1000);
  }

  #interval(pid, tid, name, category, {begin, end}, args) {
    const ts = this.#us(begin);
    this.events.push({ph: "X", pid, tid, ts, dur: this.#us(end) - ts, name, cat: category, args});
  }

  // One process of the trace; its lanes are its threads. write(interval, add) adds the events of an interval.
  addProcess(name, laneName, intervals, write) {
    const pid = ++this.#process;
    this.events.push({ph: "M", pid, tid: 0, name: "process_name", args: {name}});
    this.events.push({ph: "M", pid, tid: 0, name: "process_sort_index", args: {sort_index: pid}});
    assignLanes(intervals).forEach((lane, index) => {
      const tid = index + 1;
      this.events.push({ph: "M", pid, tid, name: "thread_name", args: {name: `${laneName} ${tid}`}});
      for (const interval of lane) {
        write(interval, (label, category, span, args) => this.#interval(pid, tid, label, category, span, args));
      }
    });
  }
}

const requestArgs = (request) => ({
  id: request.id, trace_id: request.traceId, outcome: request.outcome, finish: request.finish, error: request.error,
  prompt_tokens: request.promptTokens, output_tokens: request.outputTokens, cached_tokens: request.cachedTokens,
  attempts: request.attempts, ttft_ms: request.ttft, itl_ms: request.itl, transfer_bytes: request.transferBytes,
});

// Intervals of the phases that a worker works on, by "ROLE ADDRESS".
function workIntervals(requests) {
  const byWorker = new Map();
  for (const request of requests) {
    for (const {index, begin, end} of phaseIntervals(request)) {
      const phase = PHASES[index];
      const address = phase === "prefill" ? request.prefillWorker
                      : phase === "transfer" || phase === "decode" ? request.decodeWorker : "";
      if (!address) continue;
      if (!byWorker.has(address)) byWorker.set(address, []);
      byWorker.get(address).push({begin, end, phase, request});
    }
  }
  return [...byWorker].sort(([a], [b]) => (a < b ? -1 : 1));
}

// Chrome's JSON trace. The process "requests" has a track for each request slot, on which the phases nest in their
// request; each worker is a process with the phases that it worked on. Times are microseconds from the first begin.
export function toChromeTrace(requests) {
  const spans = requests.map((request) => ({request, begin: request.end - request.total, end: request.end}));
  const originMs = spans.reduce((least, {begin}) => Math.min(least, begin), Infinity);
  const writer = new TraceWriter(Number.isFinite(originMs) ? originMs : 0);
  writer.addProcess("requests", "slot", spans, ({request, ...span}, add) => {
    add(`request ${shortId(request)}`, "request", span, requestArgs(request));
    for (const {index, ...phase} of phaseIntervals(request)) {
      add(PHASES[index], "phase", phase, {trace_id: request.traceId});
    }
  });
  for (const [address, intervals] of workIntervals(requests)) {
    writer.addProcess(`worker ${address}`, "sequence", intervals, ({phase, request, ...span}, add) =>
      add(`${phase} ${shortId(request)}`, phase, span, {id: request.id, trace_id: request.traceId}));
  }
  return JSON.stringify({
    displayTimeUnit: "ms", otherData: {source: "baton dashboard", origin_unix_ms: writer.originMs},
    traceEvents: writer.events,
  });
}
