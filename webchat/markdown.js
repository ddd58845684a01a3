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
// The marker of an item, whose text follows it.
const BULLET = /^\s{0,3}[-*+]\s+/;
const NUMBER = /^\s{0,3}(\d{1,9})[.)]\s+/;
const QUOTE = /^\s{0,3}>\s?/;
const RULE = /^\s{0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})$/;
const STARTS = [FENCE, HEADING, BULLET, NUMBER, QUOTE];
// The line below a table's head: which way each column is aligned.
const ALIGNMENT = /^:?-+:?$/;
// A list or a quotation that is deeper than this is shown as it is.
const MOST_NESTED = 8;

// Takes lines from `at` while `read` gives something of them: [what it gave, the next line].
function take(lines, at, read) {
  const taken = [];
  for (; at < lines.length; ++at) {
    const one = read(lines[at], at);
    if (one === null || one === undefined) break;
    taken.push(one);
  }
  return [taken, at];
}

const indentOf = (line) => line.length - line.trimStart().length;

function fenced(lines, at, fence) {
  const closes = new RegExp(`^\\s{0,3}${fence[1][0]}{${fence[1].length},}\\s*$`);
  const [body, end] = take(lines, at + 1, (line) => (closes.test(line) ? null : line));
  const code = element("code", body.join("\n"));
  if (fence[2]) code.dataset.language = fence[2];
  return [element("pre", code), end + 1];
}

// The first line from `at` on that is not blank.
function skipBlank(lines, at) {
  while (at < lines.length && !lines[at].trim()) ++at;
  return at;
}

// The lines of the item at `at`, without its marker and its indentation: [lines, the next line]. What is indented by two
// more than the marker belongs to the item; models seldom indent as far as its text.
function itemLines(lines, at, marker) {
  const depth = indentOf(marker) + 2;
  const body = [lines[at].slice(marker.length)];
  let end = at + 1;
  for (;;) {
    const next = skipBlank(lines, end);
    if (next === lines.length || indentOf(lines[next]) < depth) return [body, end];
    for (; end < next; ++end) body.push("");
    body.push(lines[end].slice(Math.min(indentOf(lines[end]), marker.length)));
    ++end;
  }
}

function list(lines, at, name, pattern, depth) {
  const items = [];
  let end = at;
  for (let next = at; next < lines.length; next = skipBlank(lines, end)) {
    const marker = pattern.exec(lines[next])?.[0];
    if (marker === undefined || (next > at && RULE.test(lines[next]))) break;
    const [body, after] = itemLines(lines, next, marker);
    const blocks = blocksOf(body, depth + 1);
    // The text of an item is no paragraph of its own.
    const text = blocks[0]?.tagName === "P" ? [...blocks.shift().childNodes] : [];
    items.push(element("li", ...text, ...blocks));
    end = after;
  }
  return [element(name, ...items), end];
}

// The cells of a table's row; null for a line that has no bar.
function cellsOf(line) {
  if (!line.includes("|")) return null;
  const cells = line.trim().replace(/^\|/, "").split(/(?<!\\)\|/);
  if (cells.length > 1 && !cells[cells.length - 1].trim()) cells.pop();
  return cells.map((cell) => cell.trim().replaceAll("\\|", "|"));
}

// The head of a table that begins at `at`, and how its columns are aligned; null where there is none.
function tableHead(lines, at) {
  const [head, below] = [lines[at], lines[at + 1] ?? ""].map(cellsOf);
  if (head === null || below === null || head.length !== below.length) return null;
  if (!below.every((cell) => ALIGNMENT.test(cell))) return null;
  const aligned = (cell) => (cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "right") : "left");
  return {head, align: below.map(aligned)};
}

function table(lines, at, {head, align}) {
  // A row may have fewer cells than the head.
  const row = (name, cells) => element("tr", ...cells.slice(0, align.length).map((cell, i) => {
    const made = element(name, ...inline(cell));
    if (align[i] !== "left") made.dataset.align = align[i];
    return made;
  }));
  const [rows, end] = take(lines, at + 2, (line) => (line.trim() ? cellsOf(line) : null));
  const body = element("tbody", ...rows.map((cells) => row("td", cells)));
  return [element("table", element("thead", row("th", head)), body), end];
}

function paragraph(lines, at) {
  const ends = (line, i) => !line.trim() || STARTS.some((pattern) => pattern.test(line)) || tableHead(lines, i) !== null;
  const [rest, end] = take(lines, at + 1, (line, i) => (ends(line, i) ? null : line));
  return [element("p", ...inline([lines[at], ...rest].join("\n"))), end];
}

// A block that holds others; null where there is none.
function nesting(lines, at, depth) {
  const line = lines[at];
  if (depth === MOST_NESTED) return null;
  if (BULLET.test(line)) return list(lines, at, "ul", BULLET, depth);
  const number = NUMBER.exec(line);
  if (number) {
    const [numbered, end] = list(lines, at, "ol", NUMBER, depth);
    numbered.start = Number(number[1]);
    return [numbered, end];
  }
  if (!QUOTE.test(line)) return null;
  const [quoted, end] = take(lines, at, (each) => (QUOTE.test(each) ? each.replace(QUOTE, "") : null));
  return [element("blockquote", ...blocksOf(quoted, depth + 1)), end];
}

function block(lines, at, depth) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) return fenced(lines, at, fence);
  const heading = HEADING.exec(line);
  // The page's own headings are h1 and h2.
  if (heading) return [element(`h${Math.min(6, heading[1].length + 2)}`, ...inline(heading[2])), at + 1];
  if (RULE.test(line)) return [element("hr"), at + 1];
  const nested = nesting(lines, at, depth);
  if (nested !== null) return nested;
  const head = tableHead(lines, at);
  return head !== null ? table(lines, at, head) : paragraph(lines, at);
}

function blocksOf(lines, depth) {
  const blocks = [];
  for (let at = skipBlank(lines, 0); at < lines.length; at = skipBlank(lines, at)) {
    const [made, next] = block(lines, at, depth);
    blocks.push(made);
    at = next;
  }
  return blocks;
}

// The elements of a whole answer.
export function render(text) {
  return blocksOf(text.split("\n"), 0);
}
