// Everything about one request, beside the list.
import {byId, make} from "./dom.js";
import {bytes, clock, count, durationText, joined, percent, plural} from "./format.js";
import {sum} from "./phase_means.js";
import {PHASES} from "./wire.js";

function copyButton(what, value) {
  const button = make("button", {type: "button", class: "quiet", "aria-label": `Copy the ${what}`}, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(value);
      button.textContent = "Copied";
    } catch {
      // Browsers give the clipboard to secure pages only. Selected text can be copied by hand.
      getSelection().selectAllChildren(button.previousElementSibling);
      button.textContent = "Selected";
    }
  });
  return button;
}

// Null where there is no value.
function fact(label, value, copy = null) {
  if (!value) return null;
  return make("div", {}, make("dt", {}, label), make("dd", {class: copy ? "id" : null}, make("span", {}, value), copy));
}

function phaseTable(request) {
  const total = sum(request.phases);
  return make(
    "table", {class: "phase-table"}, make("caption", {class: "visually-hidden"}, "Phases of this request"),
    make("tbody", {}, ...PHASES.map((phase, index) => {
      const share = total > 0 ? request.phases[index] / total : 0;
      const bar = make("i", {class: `phase-${phase}`});
      bar.style.width = `${share * 100}%`;
      return make("tr", {}, make("th", {scope: "row"}, make("i", {class: `chip phase-${phase}`}), phase),
                  make("td", {}, durationText(request.phases[index])), make("td", {}, joined(percent(share))),
                  make("td", {class: "bar", "aria-hidden": "true"}, bar));
    })));
}

// show(request) opens the panel and moves focus there; onClose() is called when it has been closed.
export function detail(onClose) {
  const panel = byId("detail");
  const close = () => {
    if (panel.hidden) return;
    panel.hidden = true;
    onClose();
  };
  panel.addEventListener("keydown", (event) => event.key === "Escape" && close());

  function show(request) {
    const closer = make("button", {type: "button", class: "close", "aria-label": "Close", on: {click: close}}, "Close");
    panel.replaceChildren(
      make("div", {class: "heading"}, make("h3", {}, durationText(request.total)),
           make("span", {class: "outcome", "data-outcome": request.outcome}, request.outcome), closer),
      ...(request.error ? [make("p", {class: "error"}, request.error)] : []),
      phaseTable(request),
      make("dl", {class: "facts"}, ...[
        fact("ended", clock(request.end)), fact("finish", request.finish),
        fact("TTFT", request.ttft === null ? "" : durationText(request.ttft)),
        fact("ITL, mean", request.itl === null ? "" : durationText(request.itl)),
        fact("prompt", plural(request.promptTokens, "token")),
        fact("cached", plural(request.cachedTokens, "token")), fact("output", plural(request.outputTokens, "token")),
        fact("KV moved", joined(bytes(request.transferBytes))), fact("attempts", count(request.attempts)),
        fact("prefill on", request.prefillWorker), fact("decode on", request.decodeWorker),
        fact("trace", request.traceId, copyButton("trace id", request.traceId)),
        fact("job", request.id, copyButton("job id", request.id)),
      ].filter(Boolean)));
    panel.hidden = false;
    panel.focus({preventScroll: true});
    panel.scrollIntoView({block: "nearest"});
  }

  return {show, close};
}
