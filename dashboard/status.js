// Whether what the page shows is true now: connected, waiting to connect again, out of date, paused.
import {byId, setAttribute, setText} from "./dom.js";
import {plural, uptime} from "./format.js";

// A snapshot comes every second.
const STALE_MS = 3_500;

export class Status {
  paused = false;
  #connection = {kind: "connecting", reason: ""};
  #lastWordAt = null;

  constructor(store, held) {
    this.store = store;
    this.held = held;
    setInterval(() => this.draw(), 500);
  }

  set connection(connection) {
    this.#connection = connection;
    this.draw();
  }

  heard() {
    this.#lastWordAt = performance.now();
    this.draw();
  }

  get isStale() {
    return this.#lastWordAt !== null && performance.now() - this.#lastWordAt > STALE_MS;
  }

  draw() {
    const {state, text} = this.#describe();
    const status = byId("status");
    setText(status, text);
    setAttribute(status, "data-state", state);
    document.body.classList.toggle("stale", this.isStale);
    document.body.classList.toggle("paused", this.paused);
    const notice = this.#notice();
    byId("notice").hidden = notice === "";
    // Screen readers announce it when it changes, so the seconds in it are counted elsewhere.
    setText(byId("notice"), notice);
  }

  #describe() {
    const latest = this.store.latest;
    if (this.isStale) {
      const silent = Math.floor((performance.now() - this.#lastWordAt) / 1000);
      return {state: "stale", text: `Stale: ${silent} s old${this.#retry()}`};
    }
    if (this.paused) {
      return {state: "paused", text: `Paused, ${plural(this.held().arrived, "request")} held`};
    }
    if (!latest) {
      return this.#connection.kind === "waiting" ? {state: "stale", text: `Not connected${this.#retry()}`}
                                                 : {state: "connecting", text: "Connecting"};
    }
    if (!latest.serving) return {state: "waits", text: "Not serving"};
    return {state: "serving", text: `Serving for ${uptime(latest.uptimeS)}`};
  }

  #retry() {
    if (this.#connection.kind !== "waiting") return "";
    const seconds = Math.max(0, Math.ceil((this.#connection.retryAt - performance.now()) / 1000));
    return `, tries again in ${seconds} s`;
  }

  #notice() {
    const latest = this.store.latest;
    if (this.#connection.kind === "waiting" && (this.isStale || !latest)) {
      const reason = this.#connection.reason;
      return `${reason.charAt(0).toUpperCase()}${reason.slice(1)}. ${latest ? "What you see is out of date." : ""}`;
    }
    if (this.isStale) return "The router has said nothing for a while. What you see is out of date.";
    if (latest && !latest.serving) {
      return `The cluster cannot serve${latest.waitsFor ? `: it waits for ${latest.waitsFor}` : ""}.`;
    }
    return "";
  }
}
