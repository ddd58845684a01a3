// Turns the Markdown of an answer into elements. Models say what strangers told them to say, so nothing here parses
// markup: every word of an answer becomes a text node, and the elements are only those that are named below.

const element = (name, ...children) => {
  const made = document.createElement(name);
  made.append(...children);
  return made;
};

// An address that a browser opens as a page of the web; null for every other, such as javascript:.
function webAddress(text) {
  try {
    const url = new URL(text);
    return url.protocol === "https:" || url.protocol === "http:" ? url.href : null;
  } catch {
    return null;
  }
}

function link(label, target) {
  const href = webAddress(target);
  if (href === null) return null;
  const made = element("a", ...inline(label));
  made.href = href;
  made.target = "_blank";
  made.rel = "noopener noreferrer nofollow";
  // The words may name another place than the one that they lead to.
  made.title = href;
  return made;
}

// Each makes a node of a match, or null where it is only text after all. Of two that begin at the same place the first
// one here counts.
const SPANS = [
  [/`([^`\n]+)`/g, (match) => element("code", match[1])],
  [/\[([^\[\]\n]{1,500})\]\(([^()\s]{1,2000})\)/g, (match) => link(match[1], match[2])],
  [/\*\*(?=\S)([^\n]*?\S)\*\*/g, (match) => element("strong", ...inline(match[1]))],
  [/\*(?=[^\s*])([^*\n]*[^\s*])\*/g, (match) => element("em", ...inline(match[1]))],
  [/(?<![\p{L}\p{N}_])_(?=[^\s_])([^_\n]*[^\s_])_(?![\p{L}\p{N}_])/gu, (match) => element("em", ...inline(match[1]))],
];
// A longer paragraph is shown as it is: where nothing closes what it opens, a pattern takes quadratic time.
const MOST_INLINE = 8000;

// Nodes of the text of one paragraph. A pattern that has no match in the rest is not tried again.
export function inline(text) {
  if (text.length > MOST_INLINE) return [text];
  const matchFrom = (at, pattern) => {
    pattern.lastIndex = at;
    return pattern.exec(text);
  };
  const next = SPANS.map(([pattern]) => matchFrom(0, pattern));
  const nodes = [];
  let at = 0;
  let shown = 0;
  for (;;) {
    SPANS.forEach(([pattern], i) => {
      if (next[i] !== null && next[i].index < at) next[i] = matchFrom(at, pattern);
    });
    let first = -1;
    next.forEach((match, i) => {
      if (match !== null && (first < 0 || match.index < next[first].index)) first = i;
    });
    if (first < 0) return shown < text.length ? [...nodes, text.slice(shown)] : nodes;
    const match = next[first];
    const node = SPANS[first][1](match);
    at = match.index + (node === null ? 1 : match[0].length);
    if (node === null) continue;
    if (shown < match.index) nodes.push(text.slice(shown, match.index));
    nodes.push(node);
    shown = at;
  }
}

const FENCE = /^\s{0,3}(`{3,}|~{3,})\s*([\w+#.-]*)/;
const HEADING = /^(#{1,6})\s+(.*)$/;
const BULLET = /^\s{0,3}[-*+]\s+(.*)$/;
const NUMBER = /^\s{0,3}(\d{1,9})[.)]\s+(.*)$/;
const QUOTE = /^\s{0,3}>\s?(.*)$/;
const RULE = /^\s{0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})$/;

// Takes lines from `at` while `read` gives something of them: [what it gave, the next line].
function take(lines, at, read) {
  const taken = [];
  for (; at < lines.length; ++at) {
    const one = read(lines[at]);
    if (one === null || one === undefined) break;
    taken.push(one);
  }
  return [taken, at];
}

function fenced(lines, at, fence) {
  const closes = new RegExp(`^\\s{0,3}${fence[1][0]}{${fence[1].length},}\\s*$`);
  const [body, end] = take(lines, at + 1, (line) => (closes.test(line) ? null : line));
  const code = element("code", body.join("\n"));
  if (fence[2]) code.dataset.language = fence[2];
  return [element("pre", code), end + 1];
}

function list(lines, at, name, pattern, group) {
  const [items, end] = take(lines, at, (line) => pattern.exec(line)?.[group]);
  return [element(name, ...items.map((item) => element("li", ...inline(item)))), end];
}

function block(lines, at) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) return fenced(lines, at, fence);
  const heading = HEADING.exec(line);
  // The page's own headings are h1 and h2.
  if (heading) return [element(`h${Math.min(6, heading[1].length + 2)}`, ...inline(heading[2])), at + 1];
  if (RULE.test(line)) return [element("hr"), at + 1];
  if (BULLET.test(line)) return list(lines, at, "ul", BULLET, 1);
  const number = NUMBER.exec(line);
  if (number) {
    const [numbered, end] = list(lines, at, "ol", NUMBER, 2);
    numbered.start = Number(number[1]);
    return [numbered, end];
  }
  if (QUOTE.test(line)) {
    const [quoted, end] = take(lines, at, (each) => QUOTE.exec(each)?.[1]);
    return [element("blockquote", element("p", ...inline(quoted.join("\n")))), end];
  }
  const ends = (each) => !each.trim() || [FENCE, HEADING, BULLET, NUMBER, QUOTE].some((pattern) => pattern.test(each));
  const [rest, end] = take(lines, at + 1, (each) => (ends(each) ? null : each));
  return [element("p", ...inline([line, ...rest].join("\n"))), end];
}

// The elements of a whole answer.
export function render(text) {
  const lines = text.split("\n");
  const blocks = [];
  for (let at = 0; at < lines.length;) {
    if (!lines[at].trim()) {
      ++at;
      continue;
    }
    const [made, next] = block(lines, at);
    blocks.push(made);
    at = next;
  }
  return blocks;
}
