"""The checker of histories finds what it is there for. Each case is one thing that went wrong in a history that was
right."""

import pytest

from history import Call, problems_of, router_problems

TOKENS = [("a", -0.5), ("b", -0.25), ("c", -0.125)]
TEXT = "abc"
DEADLINE_S = 10
RIGHT = [(0, "sent", None), (1, "accepted", "job"), (2, "token", (0, TOKENS[0])), (2, "text", "a"), (3, "resumed", 1),
         (4, "accepted", "job"), (5, "token", (1, TOKENS[1])), (5, "text", "b"), (6, "token", (2, TOKENS[2])),
         (6, "text", "c"), (7, "finished", ("job", 1, 3))]
FAILED = [*RIGHT[:4], (9, "failed", ("LOST", "the worker was lost"))]
LINE = "x access id=job outcome=ok finish=stop prompt_tokens=5 output_tokens=3 cached_tokens=0\n"


def call_of(events):
    return Call((TOKENS, TEXT, 1), DEADLINE_S, list(events))


@pytest.mark.parametrize("events", [RIGHT, FAILED])
def test_a_history_that_is_right_has_no_problem(events):
    assert problems_of(call_of(events), ("LOST",)) == []
    assert router_problems([call_of(events)], LINE) == []


@pytest.mark.parametrize("events, words", [
    (RIGHT[:-1], "ended 0 times"),
    (RIGHT + RIGHT[-1:], "ended 2 times"),
    (RIGHT[:-1] + [FAILED[-1]] + RIGHT[-1:], "ended 2 times"),
    (RIGHT + RIGHT[2:3], "after its end"),
    (RIGHT[:6] + RIGHT[2:3] + RIGHT[6:], "token 0 came when 1 was due"),
    (RIGHT[:6] + RIGHT[8:], "token 2 came when 1 was due"),
    (RIGHT[:5] + [(4, "accepted", "other")] + RIGHT[6:], "several jobs"),
    (RIGHT[:-1] + [(7, "finished", ("other", 1, 3))], "several jobs"),
    (RIGHT[:8] + [(6, "token", (2, ("c", -0.126)))] + RIGHT[9:], "instead of"),
    (RIGHT[:9] + [(6, "text", "d")] + RIGHT[10:], "instead of"),
    (RIGHT[:-1] + [(7, "finished", ("job", 2, 3))], "instead of"),
    (RIGHT[:8] + RIGHT[10:], "instead of"),
    (RIGHT[:-1] + [(7, "finished", ("job", 1, 2))], "usage counts 2 of 3"),
    (FAILED[:2] + [(2, "token", (0, TOKENS[1]))] + FAILED[3:], "no beginning"),
    (FAILED[:3] + [(2, "text", "b")] + FAILED[4:], "no beginning"),
    (FAILED[:-1] + [(9, "failed", ("OTHER", "words"))], "OTHER"),
    (FAILED[:-1] + [(9, "failed", ("LOST", ""))], "LOST"),
    (FAILED[:-1] + [(12.5, "failed", ("LOST", "the worker was lost"))], "deadline"),
])
def test_what_is_wrong_at_a_client_is_found(events, words):
    found = problems_of(call_of(events), ("LOST",))
    assert any(words in problem for problem in found), found


@pytest.mark.parametrize("log", ["", 2 * LINE, LINE.replace("outcome=ok", "outcome=error"),
                                 LINE.replace("output_tokens=3", "output_tokens=2"), LINE.replace("id=job", "id=other")])
def test_a_router_that_does_not_agree_with_a_client_is_found(log):
    assert router_problems([call_of(RIGHT)], log)
