"""What clients saw of their requests, what the router says of the same ones, and what must hold of both whatever fails.

A client appends what it sees to the Call of its request. An accepted request ends once; its tokens have the indices
from 0 on, without a gap or a duplicate, also over calls that broke and were resumed; tokens and text are those that
the request has where nothing fails, or, where it ended with an error, their beginning; such an error has a code that
the test allows, says why, and comes before the deadline. Of each job the router says once how it ended, and that
agrees with its client.
"""

import collections
import dataclasses
import re
import time

ACCESS_LINE = re.compile(r"\baccess id=(\w+) outcome=(\w+) .*?\boutput_tokens=(\d+) ")
# An error travels to a client that a busy machine does not always run at once.
DEADLINE_SLACK_S = 2


@dataclasses.dataclass
class Call:
    """Only the thread of its client writes it."""
    # The (tokens, text, finish) of a run without faults; None where nothing is known.
    expected: tuple
    deadline_s: float
    # (clock, kind, value): sent; accepted JOB; token (INDEX, CONTENT); text TEXT; resumed NEXT_INDEX;
    # finished (JOB, REASON, OUTPUT_TOKENS); failed (CODE, WORDS).
    events: list = dataclasses.field(default_factory=list)

    def note(self, kind, value=None, now=None):
        self.events.append((time.monotonic() if now is None else now, kind, value))

    def values(self, kind):
        return [value for _, its_kind, value in self.events if its_kind == kind]


def _order_problems(call):
    kinds = [kind for _, kind, _ in call.events]
    ends = [number for number, kind in enumerate(kinds) if kind in ("finished", "failed")]
    if len(ends) != 1:
        yield f"it ended {len(ends)} times"
    elif ends[0] != len(kinds) - 1:
        yield f"{kinds[ends[0] + 1:]} after its end"
    jobs = set(call.values("accepted")) | {job for job, _, _ in call.values("finished")}
    if len(jobs) > 1:
        yield f"it was several jobs: {sorted(jobs)}"
    indices = [index for index, _ in call.values("token")]
    if indices != list(range(len(indices))):
        wrong = next(place for place, index in enumerate(indices) if place != index)
        yield f"output token {indices[wrong]} came when {wrong} was due"


def _content_problems(call):
    tokens = [content for _, content in call.values("token")]
    text = "".join(call.values("text"))
    finished = call.values("finished")
    if finished:
        _, reason, output_tokens = finished[0]
        # A stop string cuts the text of tokens that were computed, and the usage counts those.
        if output_tokens < len(tokens):
            yield f"the usage counts {output_tokens} of {len(tokens)} tokens"
        if call.expected is not None and (tokens, text, reason) != call.expected:
            yield f"{(tokens, text, reason)} instead of {call.expected}"
    elif call.expected is not None:
        if tokens != call.expected[0][:len(tokens)]:
            yield f"{tokens} is no beginning of {call.expected[0]}"
        if not call.expected[1].startswith(text):
            yield f"{text!r} is no beginning of {call.expected[1]!r}"


def _error_problems(call, allowed_codes):
    for code, words in call.values("failed"):
        took_s = call.events[-1][0] - call.events[0][0]
        if code not in allowed_codes or not words:
            yield f"{code}: {words} after {len(call.values('token'))} tokens and {took_s:.1f} s"
        if took_s > call.deadline_s + DEADLINE_SLACK_S:
            yield f"{code} after {took_s:.1f} s, with a deadline of {call.deadline_s} s"


def problems_of(call, allowed_codes=()):
    """What is wrong with what one client saw, in words."""
    return [*_order_problems(call), *_content_problems(call), *_error_problems(call, allowed_codes)]


def router_problems(calls, log):
    """What in the access lines of a router that saw the end of all these calls does not agree with them. A job of other
    calls may be in the log, too."""
    said = collections.defaultdict(list)
    for job, outcome, output_tokens in ACCESS_LINE.findall(log):
        said[job].append((outcome, int(output_tokens)))
    problems = [f"job {job} ended {len(ends)} times: {ends}" for job, ends in said.items() if len(ends) > 1]
    if not said:
        problems.append("the router says of no job how it ended: is --access-log missing?")
    for call in calls:
        for job, _, output_tokens in call.values("finished"):
            if said[job][:1] != [("ok", output_tokens)]:
                problems.append(f"job {job} finished at its client with {output_tokens} tokens, at the router {said[job]}")
    return problems
