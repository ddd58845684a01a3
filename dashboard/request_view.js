// The requests that a filter lets through, in the order of a column. It is kept up to date one request at a time: a
// binary search and a shift in an array of at most 10,000.
import {PHASES} from "./wire.js";
import {Quantiles} from "./quantiles.js";

// Values by which requests are sorted; null sorts below everything.
export const SORTS = new Map([
  ["total", {label: "Slowest", key: (request) => request.total}],
  ["end", {label: "Newest", key: (request) => request.end}],
  ["ttft", {label: "TTFT", key: (request) => request.ttft}],
  ["itl", {label: "ITL", key: (request) => request.itl}],
  ["tokens", {label: "Output tokens", key: (request) => request.outputTokens}],
  ["prompt", {label: "Prompt tokens", key: (request) => request.promptTokens}],
  ["attempts", {label: "Attempts", key: (request) => request.attempts}],
  ...PHASES.map((phase, index) =>
    [phase, {label: `Phase: ${phase}`, key: (request) => request.phases[index]}]),
]);

export class RequestView {
  rows = [];
  ttft = new Quantiles();
  total = new Quantiles();
  filter = {outcome: "", worker: "", text: ""};
  sort = "total";
  descending = true;

  constructor(store) {
    this.store = store;
  }

  get isFiltered() {
    return Boolean(this.filter.outcome || this.filter.worker || this.filter.text);
  }

  setFilter(filter) {
    this.filter = {...this.filter, ...filter, text: (filter.text ?? this.filter.text).trim().toLowerCase()};
    this.rebuild();
  }

  setSort(sort, descending = true) {
    this.sort = sort;
    this.descending = descending;
    this.rebuild();
  }

  rebuild() {
    this.ttft.clear();
    this.total.clear();
    this.rows = this.store.all().filter((request) => this.#passes(request));
    for (const request of this.rows) this.#count(request);
    this.rows.sort((a, b) => this.#compare(a, b));
  }

  // After the store took `added` and gave up `removed`.
  update(added, removed) {
    if (added.length + removed.length > 400) return this.rebuild();
    for (const request of removed) {
      const index = this.indexOf(request);
      if (index < 0) continue;
      this.rows.splice(index, 1);
      this.ttft.remove(request.ttft);
      this.total.remove(request.total);
    }
    for (const request of added) {
      if (!this.#passes(request)) continue;
      this.rows.splice(this.#lowerBound(request), 0, request);
      this.#count(request);
    }
  }

  // -1 when the filter hides it or it has made room.
  indexOf(request) {
    const index = this.#lowerBound(request);
    return this.rows[index] === request ? index : -1;
  }

  #count(request) {
    this.ttft.add(request.ttft);
    this.total.add(request.total);
  }

  #passes(request) {
    const {outcome, worker, text} = this.filter;
    if (outcome === "not ok" ? request.outcome === "ok" : outcome && request.outcome !== outcome) return false;
    if (worker && request.prefillWorker !== worker && request.decodeWorker !== worker) return false;
    if (!text) return true;
    return [request.traceId, request.id, request.error, request.outcome, request.finish, request.prefillWorker,
            request.decodeWorker].some((value) => value.toLowerCase().includes(text));
  }

  // Equal keys: the newer first, so that the order is total.
  #compare(a, b) {
    const {key} = SORTS.get(this.sort);
    const difference = (key(b) ?? -1) - (key(a) ?? -1);
    return (this.descending ? difference : -difference) || b.seq - a.seq;
  }

  // The first place that `request` may take without breaking the order.
  #lowerBound(request) {
    let low = 0, high = this.rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#compare(this.rows[middle], request) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
