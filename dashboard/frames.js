// Draws what has changed, once a frame and only where it can be seen, and counts what that costs.

const KEPT = 240;

export class Frames {
  #parts = new Map();
  #requested = false;
  #costs = new Float64Array(KEPT);
  #drawn = 0;
  #observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const part = [...this.#parts.values()].find(({element}) => element === entry.target);
      part.visible = entry.isIntersecting;
      if (part.visible && part.dirty) this.#request();
    }
  }, {rootMargin: "200px"});

  // `draw` runs when `element` is on the screen or near it and invalidate(name) was called.
  add(name, element, draw) {
    this.#parts.set(name, {element, draw, dirty: true, visible: false});
    this.#observer.observe(element);
  }

  invalidate(...names) {
    for (const name of names.length > 0 ? names : this.#parts.keys()) this.#parts.get(name).dirty = true;
    this.#request();
  }

  get drawn() {
    return this.#drawn;
  }

  // {p50, p95, worst} in milliseconds of the last frames in which this page drew something; null before the first.
  cost() {
    const costs = this.#costs.slice(0, Math.min(this.#drawn, KEPT)).sort();
    if (costs.length === 0) return null;
    const at = (share) => costs[Math.min(costs.length - 1, Math.floor(share * costs.length))];
    return {p50: at(0.5), p95: at(0.95), worst: costs.at(-1)};
  }

  #request() {
    if (this.#requested) return;
    this.#requested = true;
    requestAnimationFrame(() => {
      this.#requested = false;
      const begin = performance.now();
      let drew = false;
      for (const part of this.#parts.values()) {
        if (!part.dirty || !part.visible) continue;
        part.dirty = false;
        part.draw();
        drew = true;
      }
      if (drew) this.#costs[this.#drawn++ % KEPT] = performance.now() - begin;
    });
  }
}
