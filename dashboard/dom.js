// Small helpers for building the page. Whatever the router says becomes text nodes only; nothing here parses markup.

export const byId = (id) => document.getElementById(id);

// An element with attributes and children. A string child is text; `on` adds listeners.
export function make(name, {on = {}, ...attributes} = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  for (const [event, listener] of Object.entries(on)) element.addEventListener(event, listener);
  element.append(...children.filter((child) => child !== null));
  return element;
}

// Touches the page only when the text is another one.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setAttribute(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

// Makes `parent` have one child for each item, in order; children are reused by key. create(item) and
// update(child, item).
export function reconcile(parent, items, {key, create, update}) {
  const old = new Map([...parent.children].map((child) => [child.reconcileKey, child]));
  let next = parent.firstElementChild;
  for (const item of items) {
    const itemKey = key(item);
    let child = old.get(itemKey);
    old.delete(itemKey);
    if (!child) {
      child = create(item);
      child.reconcileKey = itemKey;
    }
    if (child === next) next = next.nextElementSibling;
    else parent.insertBefore(child, next);
    update(child, item);
  }
  for (const child of old.values()) child.remove();
}

// Offers `text` as a file.
export function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], {type}));
  make("a", {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export const reducedMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
