// The page: a conversation that lives as long as the page does, and one answer at a time.
import {complete, servedModel} from "./completion.js";
import {render} from "./markdown.js";
import {duration, phaseBar} from "./phases.js";
import {makeThemeSwitch} from "./theme_switch.js";

const byId = (id) => document.getElementById(id);
const log = byId("log");
const message = byId("message");

// What the model is told: {role, content}.
let history = [];
// Ends the answer that is being written; null while there is none.
let running = null;

function make(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

function button(text, onClick) {
  const made = make("button", "", text);
  made.type = "button";
  made.addEventListener("click", onClick);
  return made;
}

function addTurn(role, name) {
  const body = make("div", "body");
  const turn = make("article", `turn ${role}`, make("h2", "", name), body);
  byId("welcome").hidden = true;
  log.append(turn);
  return {turn, body};
}

// Follows the end of the conversation, unless the reader has gone up in it.
function follow(change) {
  const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  change();
  if (isAtEnd) log.scrollTop = log.scrollHeight;
}

// Draws at most once a frame, whatever comes meanwhile.
function drawer(draw) {
  let isDue = false;
  return () => {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => {
      isDue = false;
      draw();
    });
  };
}

function number(id) {
  const text = byId(id).value.trim();
  return text === "" ? undefined : Number(text);
}

function request() {
  const system = byId("system").value.trim();
  return {
    messages: [...(system ? [{role: "system", content: system}] : []), ...history],
    temperature: number("temperature"),
    top_p: number("top_p"),
    max_tokens: number("max_tokens"),
    seed: number("seed"),
  };
}

async function copy(text, from) {
  try {
    await navigator.clipboard.writeText(text);
    from.textContent = "Copied";
  } catch {
    from.textContent = "The browser does not allow it";
  }
}

const ENDINGS = {length: "cut by the limit of tokens", stopped: "stopped"};

function showEnd(turn, text, ended, elapsedMs) {
  const notes = make("div", "notes", button("Copy", (event) => copy(text, event.currentTarget)));
  const {usage, phases, finish} = ended;
  const note = (text) => notes.append(make("span", "", text));
  const tokens = usage?.completion_tokens;
  if (tokens) note(tokens === 1 ? "1 token" : `${tokens} tokens`);
  // The first token is the prefill's work.
  if (tokens > 1) note(`${((1000 * (tokens - 1)) / (phases?.decode_ms || elapsedMs)).toFixed(1)} tokens/s`);
  note(duration(elapsedMs));
  if (ENDINGS[finish]) note(ENDINGS[finish]);
  if (phases) turn.append(...phaseBar(phases));
  turn.append(notes);
}

// An error costs the turn and nothing else: the message is back in its field, and the model never hears of it.
function showError(turn, text, question) {
  turn.append(make("p", "error", text));
  if (history.length >= 2) {
    turn.append(button("Leave out the oldest messages and ask again", (event) => {
      event.currentTarget.remove();
      history.splice(0, 2);
      ask(question);
    }));
  }
  if (!message.value) message.value = question;
}

function setRunning(controller) {
  running = controller;
  byId("stop").hidden = controller === null;
  byId("send").hidden = controller !== null;
}

async function ask(question) {
  const began = performance.now();
  const controller = new AbortController();
  // Otherwise a new chat has begun meanwhile, which this answer is none of.
  const isCurrent = () => running === controller;
  setRunning(controller);
  message.value = "";
  addTurn("user", "You").body.textContent = question;
  const {turn, body} = addTurn("assistant", "Baton");
  log.scrollTop = log.scrollHeight;
  history.push({role: "user", content: question});
  let text = "";
  const draw = () => follow(() => body.replaceChildren(...render(text)));
  const drawSoon = drawer(draw);
  const onText = (piece) => {
    text += piece;
    drawSoon();
  };
  let ended = {finish: "stopped"};
  let failure = null;
  try {
    ended = await complete(request(), {key: byId("key").value, signal: controller.signal, onText});
  } catch (error) {
    if (error.name !== "AbortError") failure = error;
  }
  if (!isCurrent()) return;
  setRunning(null);
  draw();
  if (failure === null) {
    history.push({role: "assistant", content: text});
    follow(() => showEnd(turn, text, ended, performance.now() - began));
  } else {
    history.pop();
    follow(() => showError(turn, failure.message, question));
  }
  message.focus();
}

function submit() {
  const question = message.value.trim();
  if (question && running === null) ask(question);
}

byId("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});

message.addEventListener("keydown", (event) => {
  // While a character is being composed, Enter belongs to the input method.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  submit();
});

message.addEventListener("input", () => {
  message.rows = Math.min(10, message.value.split("\n").length);
});

byId("stop").addEventListener("click", () => running?.abort());

byId("new").addEventListener("click", () => {
  const old = running;
  setRunning(null);
  old?.abort();
  history = [];
  log.replaceChildren(byId("welcome"));
  byId("welcome").hidden = false;
  message.focus();
});

async function nameModel() {
  try {
    byId("model").textContent = (await servedModel(byId("key").value)) ?? "";
  } catch {
    byId("model").textContent = "not reachable";
  }
}

byId("key").addEventListener("change", nameModel);
makeThemeSwitch(byId("theme"));
nameModel();
