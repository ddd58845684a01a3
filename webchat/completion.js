// Asks the router for the next message of a chat, as a stream of OpenAI's API.

// The data of server-sent events, one string for each event.
export async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    rest += value;
    for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
      const event = rest.slice(0, end);
      rest = rest.slice(end + 2);
      if (event.startsWith("data: ")) yield event.slice(6);
    }
  }
}

async function refusal(response) {
  try {
    const {error} = await response.json();
    if (typeof error?.message === "string") return error.message;
  } catch {
    // Something else than Baton has answered.
  }
  return `the server answered with ${response.status}`;
}

const headersOf = (key) => ({"Content-Type": "application/json", ...(key ? {Authorization: `Bearer ${key}`} : {})});

// Calls onText with each piece of the answer. Resolves to {finish, usage, phases} of an answer that ended; throws an
// Error whose message is for people, and an AbortError when `signal` ends it.
export async function complete(request, {key, signal, onText}) {
  const response = await fetch("v1/chat/completions", {
    method: "POST",
    headers: headersOf(key),
    body: JSON.stringify({...request, stream: true, return_phases: true, stream_options: {include_usage: true}}),
    signal,
  });
  if (!response.ok) throw new Error(await refusal(response));
  const ended = {finish: null, usage: null, phases: null};
  for await (const data of events(response.body)) {
    if (data === "[DONE]") return ended;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new Error(String(chunk.error.message));
    const choice = chunk.choices?.[0];
    if (choice?.delta?.content) onText(choice.delta.content);
    ended.finish = choice?.finish_reason ?? ended.finish;
    ended.usage = chunk.usage ?? ended.usage;
    ended.phases = chunk.phases ?? ended.phases;
  }
  throw new Error("the connection ended before the answer did");
}

// The name of the served model; null where nobody says.
export async function servedModel(key) {
  const response = await fetch("v1/models", {headers: key ? {Authorization: `Bearer ${key}`} : {}});
  return response.ok ? ((await response.json()).data?.[0]?.id ?? null) : null;
}
