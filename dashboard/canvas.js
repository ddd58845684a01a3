// Canvases that match the screen's pixels, and the page's colours for them.

const probe = document.createElement("span");
let colours = new Map();

// The colour of a custom property of the style sheet in the present theme.
export function colour(name) {
  let value = colours.get(name);
  if (!value) {
    if (!probe.isConnected) {
      probe.hidden = true;
      document.body.append(probe);
    }
    probe.style.color = `var(--${name})`;
    value = getComputedStyle(probe).color;
    colours.set(name, value);
  }
  return value;
}

export const phaseColour = (phase) => colour(`phase-${phase}`);

// After the theme has changed.
export function forgetColours() {
  colours = new Map();
}

// {context, width, height} in CSS pixels of a cleared canvas, or null while it has no size.
export function prepare(canvas) {
  const width = canvas.clientWidth, height = canvas.clientHeight;
  if (width === 0 || height === 0) return null;
  const scale = Math.min(devicePixelRatio || 1, 2);
  const w = Math.round(width * scale), h = Math.round(height * scale);
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = `12px ${getComputedStyle(canvas).fontFamily}`;
  return {context, width, height};
}

// The smallest of 1, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, ... that is no less than value.
export function niceCeiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  for (const step of [1, 1.5, 2, 3, 4, 5, 6, 8]) {
    if (value <= step * power * 1.000001) return step * power;
  }
  return 10 * power;
}

// A quiet line of the values, of which null is a gap, from left to right over `count` places.
export function drawSparkline(canvas, values, count, {fill}) {
  const prepared = prepare(canvas);
  if (!prepared) return;
  const {context, width, height} = prepared;
  const most = Math.max(...values.map((value) => value ?? 0));
  if (!(most > 0)) return;
  const x = (index) => width - 1 - ((values.length - 1 - index) * (width - 2)) / (count - 1);
  const y = (value) => height - 1.5 - (value / most) * (height - 4);
  context.lineJoin = "round";
  context.lineWidth = 1.5;
  context.strokeStyle = colour("spark");
  context.fillStyle = colour("spark-fill");
  for (let start = 0; start < values.length; ++start) {
    if (values[start] === null) continue;
    let end = start;
    while (end + 1 < values.length && values[end + 1] !== null) ++end;
    context.beginPath();
    for (let i = start; i <= end; ++i) context.lineTo(x(i), y(values[i]));
    if (start === end) context.lineTo(x(start) + 1, y(values[start]));
    context.stroke();
    if (fill) {
      context.lineTo(x(end), height);
      context.lineTo(x(start), height);
      context.fill();
    }
    start = end;
  }
}
