// The stream of events: server-sent events read by fetch, which unlike EventSource says why it was refused. It connects
// again with back-off for as long as the page is open.

const FIRST_RETRY_MS = 500;
const MOST_RETRY_MS = 15_000;
// The router speaks every second. A connection that is silent for this long is taken for dead.
const SILENCE_MS = 10_000;
const MOST_EVENT_CHARS = 64 << 20;

// Cuts a stream of text into events. A line is searched once, however many pieces it comes in.
export class EventParser {
  #pieces = [];
  #chars = 0;
  #name = "";
  #data = [];

  // Calls onEvent(name, data) for each event that `text` completes.
  feed(text, onEvent) {
    let start = 0;
    for (let end; (end = text.indexOf("\n", start)) >= 0; start = end + 1) {
      this.#pieces.push(text.slice(start, end));
      this.#line(this.#pieces.join("").replace(/\r$/, ""), onEvent);
      this.#pieces = [];
      this.#chars = 0;
    }
    this.#pieces.push(text.slice(start));
    this.#chars += text.length - start;
    if (this.#chars > MOST_EVENT_CHARS) throw new Error("an event is too long");
  }

  #line(line, onEvent) {
    if (line === "") {
      if (this.#data.length > 0) onEvent(this.#name, this.#data.join("\n"));
      this.#name = "";
      this.#data = [];
    } else if (line.startsWith("event:")) {
      this.#name = line.slice(6).trimStart();
    } else if (line.startsWith("data:")) {
      this.#data.push(line.slice(line[5] === " " ? 6 : 5));
    }
  }
}

export class Events {
  // onEvent(name, value) gets the parsed data. onState({kind, reason, retryAt}) is told "connecting", "open" and
  // "waiting"; retryAt is in the time of performance.now().
  constructor(url, {onEvent, onState}) {
    this.url = url;
    this.onEvent = onEvent;
    this.onState = onState;
    this.bytes = 0;
    this.attempts = 0;
    this.wake = () => {};
    addEventListener("online", () => this.wake());
    document.addEventListener("visibilitychange", () => document.hidden || this.wake());
  }

  async run() {
    for (;;) {
      this.onState({kind: "connecting", reason: ""});
      const reason = await this.#readOnce();
      const base = Math.min(MOST_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(this.attempts, 10));
      ++this.attempts;
      const wait = base * (0.75 + Math.random() / 2);
      this.onState({kind: "waiting", reason, retryAt: performance.now() + wait});
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, wait);
        this.wake = () => { clearTimeout(timer); resolve(); };
      });
      this.wake = () => {};
    }
  }

  // Reads one connection to its end and returns why it ended.
  async #readOnce() {
    const controller = new AbortController();
    let silence = 0;
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(() => controller.abort(), SILENCE_MS);
    };
    heard();
    try {
      const response = await fetch(this.url, {
        signal: controller.signal, cache: "no-store", credentials: "omit", headers: {Accept: "text/event-stream"},
      });
      if (response.status === 503) return "the router has as many viewers as it serves";
      if (!response.ok) return `the router answered ${response.status}`;
      this.onState({kind: "open", reason: ""});
      await this.#readBody(response.body.getReader(), heard);
      return "the router ended the connection";
    } catch (error) {
      if (controller.signal.aborted) return "the router has gone silent";
      return error instanceof SyntaxError ? "the router sent what is not JSON" : "the router cannot be reached";
    } finally {
      clearTimeout(silence);
      controller.abort();
    }
  }

  async #readBody(reader, heard) {
    const decoder = new TextDecoder(), parser = new EventParser();
    for (;;) {
      const {done, value} = await reader.read();
      if (done) return;
      heard();
      this.bytes += value.byteLength;
      parser.feed(decoder.decode(value, {stream: true}), (name, data) => {
        this.attempts = 0;
        this.onEvent(name, JSON.parse(data));
      });
    }
  }
}
