// The waterfall: ended requests, slowest first, their phases as bars. Only the rows on the screen exist, however many
// requests there are. Focus stays on the grid, and aria-activedescendant names the row, because rows are reused.
import {niceCeiling} from "./canvas.js";
import {byId, make, setAttribute, setText} from "./dom.js";
import {clock, count, duration, durationText, plural, roundDuration, shortId} from "./format.js";
import {nameOf} from "./names.js";
import {PHASES} from "./wire.js";

const SPARE_ROWS = 4;
const DECODE = PHASES.indexOf("decode");

// Cells of a row besides the bar. `sort` names the column of RequestView that a press on the heading sorts by.
const COLUMNS = [
  {name: "time", label: "Ended", sort: "end", text: (request) => clock(request.end)},
  {name: "outcome", label: "Outcome", text: (request) => request.outcome},
  {name: "trace", label: "Trace", text: shortId},
  {name: "bar", label: "Phases", text: null},
  {name: "total", label: "Total", sort: "total", text: (request) => durationText(request.total)},
  {name: "ttft", label: "TTFT", sort: "ttft", text: (request) => durationText(request.ttft)},
  {name: "itl", label: "ITL", sort: "itl", text: (request) => durationText(request.itl)},
  {name: "tokens", label: "Tokens", sort: "tokens", title: "prompt → output",
   text: (request) => `${count(request.promptTokens)} → ${count(request.outputTokens)}`},
  {name: "where", label: "Workers", text: (request) => [...new Set([request.prefillWorker, request.decodeWorker])]
    .filter(Boolean).map(nameOf).join(" → ")},
];

export class RequestList {
  // The request of the highlighted row, or null.
  active = null;
  // Decode usually takes nearly all of the time. Without it the bars show what is before and after.
  withoutDecode = false;
  #rows = [];
  #shown = null;
  #anchor = null;
  #scale = 1;

  // onOpen(request) when somebody wants to see all of one.
  constructor(view, invalidate, onOpen) {
    this.view = view;
    this.invalidate = invalidate;
    this.onOpen = onOpen;
    this.grid = byId("request-grid");
    this.scroller = byId("request-scroll");
    this.spacer = byId("request-spacer");
    this.#makeHead();
    this.scroller.addEventListener("scroll", () => {
      this.#anchor = null;
      invalidate();
    }, {passive: true});
    new ResizeObserver(() => invalidate()).observe(this.scroller);
    this.grid.addEventListener("keydown", (event) => this.#onKey(event));
    this.grid.addEventListener("focus", () => {
      this.active ??= this.view.rows[this.#firstVisible()] ?? null;
      invalidate();
    });
  }

  get renderedRows() {
    return this.#rows.length;
  }

  draw() {
    const {rows} = this.view, height = this.#rowHeight();
    const contentHeight = `${rows.length * height}px`;
    if (this.spacer.style.height !== contentHeight) this.spacer.style.height = contentHeight;
    this.#keepPlace(height);
    const first = Math.max(0, this.#firstVisible() - SPARE_ROWS);
    const visible = Math.ceil(this.#viewportHeight() / height);
    const last = Math.min(rows.length, first + visible + 2 * SPARE_ROWS);
    this.#resizePool(last - first);
    this.#scale = niceCeiling(Math.max(0, ...rows.slice(first, last).map((request) => this.#barMs(request))));
    this.#rows.forEach((row, index) => this.#fill(row, rows[first + index], first + index, height));
    setAttribute(this.grid, "aria-rowcount", String(rows.length + 1));
    const activeRow = this.#rows.find((row) => row.request === this.active);
    setAttribute(this.grid, "aria-activedescendant", activeRow?.id ?? "");
    const what = this.withoutDecode ? "Without decode" : "Phases";
    setText(this.axis, rows.length === 0 ? what : `${what}, 0 to ${roundDuration(this.#scale)}`);
    this.#drawHead();
  }

  #makeHead() {
    const cells = COLUMNS.map(({name, label, sort, title}) => {
      const content = sort ? make("button", {type: "button", tabindex: "-1"}, label) : make("span", {}, label);
      if (sort) content.addEventListener("click", () => this.sortBy(sort));
      if (name === "bar") this.axis = content;
      return make("div", {role: "columnheader", class: `cell ${name}`, title: title ?? null, "data-sort": sort ?? null},
                  content);
    });
    byId("request-head").append(...cells);
  }

  sortBy(sort) {
    this.view.setSort(sort, this.view.sort === sort ? !this.view.descending : true);
    this.scroller.scrollTop = 0;
    this.onSorted?.();
    this.invalidate();
  }

  #drawHead() {
    for (const cell of byId("request-head").children) {
      const {sort} = cell.dataset;
      if (!sort) continue;
      const order = this.view.descending ? "descending" : "ascending";
      setAttribute(cell, "aria-sort", sort === this.view.sort ? order : "none");
    }
  }

  #rowHeight() {
    return parseFloat(getComputedStyle(this.scroller).getPropertyValue("--row-height")) || 32;
  }

  // What the heading leaves of the list.
  #viewportHeight() {
    return this.scroller.clientHeight - byId("request-head").offsetHeight;
  }

  #barMs(request) {
    return request.total - (this.withoutDecode ? request.phases[DECODE] : 0);
  }

  #firstVisible() {
    return Math.floor(this.scroller.scrollTop / this.#rowHeight());
  }

  // While somebody has scrolled into the list, requests that come in above do not move what is read.
  #keepPlace(height) {
    if (this.#anchor && this.scroller.scrollTop > 0) {
      const index = this.view.indexOf(this.#anchor.request);
      if (index >= 0 && index !== this.#anchor.index) {
        this.scroller.scrollTop += (index - this.#anchor.index) * height;
      }
    }
    const index = this.#firstVisible();
    this.#anchor = index < this.view.rows.length ? {request: this.view.rows[index], index} : null;
  }

  #resizePool(size) {
    while (this.#rows.length < size) {
      const row = this.#makeRow(this.#rows.length);
      this.#rows.push(row);
      this.spacer.append(row.element);
    }
    while (this.#rows.length > size) this.#rows.pop().element.remove();
  }

  #makeRow(number) {
    const row = {id: `request-row-${number}`, cells: [], parts: [], request: null, index: -1, scale: 0};
    const children = COLUMNS.map(({name, text}) => {
      const cell = make("div", {role: "gridcell", class: `cell ${name}`});
      if (text) row.cells.push({cell, text});
      else {
        row.parts = PHASES.map((phase) => make("i", {class: `phase-${phase}`}));
        row.spoken = make("span", {class: "visually-hidden"});
        cell.append(...row.parts, row.spoken);
      }
      return cell;
    });
    row.element = make("div", {role: "row", class: "row", id: row.id}, ...children);
    row.element.addEventListener("click", () => this.#open(row.request));
    return row;
  }

  #fill(row, request, index, height) {
    const {element} = row;
    setAttribute(element, "aria-selected", String(request === this.active));
    if (row.index !== index || row.height !== height) {
      element.style.transform = `translateY(${index * height}px)`;
      setAttribute(element, "aria-rowindex", String(index + 2));
    }
    if (row.request !== request) {
      for (const {cell, text} of row.cells) setText(cell, text(request));
      setAttribute(element, "data-outcome", request.outcome);
      setText(row.spoken, PHASES.map((phase, i) => `${phase} ${durationText(request.phases[i])}`).join(", "));
    }
    if (row.request !== request || row.scale !== this.#scale || row.withoutDecode !== this.withoutDecode) {
      row.parts.forEach((part, i) => {
        const ms = this.withoutDecode && i === DECODE ? 0 : request.phases[i];
        part.style.width = `${(ms / this.#scale) * 100}%`;
      });
    }
    Object.assign(row, {request, index, height, scale: this.#scale, withoutDecode: this.withoutDecode});
  }

  #open(request) {
    this.active = request;
    this.onOpen(request);
    this.invalidate();
  }

  #onKey(event) {
    const {rows} = this.view;
    if (event.target !== this.grid || rows.length === 0) return;
    const page = Math.max(1, Math.floor(this.#viewportHeight() / this.#rowHeight()) - 1);
    const steps = {ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity};
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      if (this.active) this.#open(this.active);
    } else if (event.key in steps) {
      event.preventDefault();
      const at = this.active ? this.view.indexOf(this.active) : -1;
      const next = Math.min(rows.length - 1, Math.max(0, (at < 0 ? this.#firstVisible() - 1 : at) + steps[event.key]));
      this.active = rows[next];
      this.#reveal(next);
      this.invalidate();
    }
  }

  #reveal(index) {
    const height = this.#rowHeight(), top = index * height;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    const bottom = top + height - this.#viewportHeight();
    if (bottom > this.scroller.scrollTop) this.scroller.scrollTop = bottom;
  }
}

// "812 of 10,000 requests · TTFT P50 ... P99 ... · E2E P50 ... P99 ..."
export function describeView(view) {
  const quantiles = (name, set) => {
    const p50 = duration(set.at(0.5)), p99 = duration(set.at(0.99));
    return ` · ${name} P50 ${p50.value} ${p50.unit}, P99 ${p99.value} ${p99.unit}`;
  };
  const number = view.isFiltered ? `${count(view.rows.length)} of ${plural(view.store.size, "request")}`
                                 : plural(view.store.size, "request");
  return number + (view.ttft.size > 0 ? quantiles("TTFT", view.ttft) : "")
         + (view.total.size > 0 ? quantiles("E2E", view.total) : "");
}
