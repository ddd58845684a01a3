"""The validator of exported traces finds what it is there to find."""

from trace_rules import problems_of


def event(begin, duration, tid=1, **fields):
    return {"ph": "X", "pid": 1, "tid": tid, "ts": begin, "dur": duration, "name": "e"} | fields


def test_events_that_nest_or_follow_each_other_are_right():
    assert (
        problems_of({"traceEvents": [event(0, 10), event(0, 4), event(4, 6), event(10, 5), event(2, 10, tid=2)]}) == []
    )


def test_events_that_overlap_on_a_track_are_found():
    assert problems_of({"traceEvents": [event(0, 10), event(9, 2)]}) == ["events 0 and 1 overlap"]
    assert problems_of({"traceEvents": [event(0, 10), event(1, 5), event(3, 5)]}) == ["events 1 and 2 overlap"]


def test_events_without_an_end_or_a_time_are_found():
    begin, end = event(0, 0, ph="B"), event(5, 0, ph="E")
    assert problems_of({"traceEvents": [begin, end]}) == []
    assert problems_of({"traceEvents": [begin]}) == ["event 0 never ends"]
    assert problems_of({"traceEvents": [end]}) == ["event 0 ends nothing"]
    assert problems_of({"traceEvents": [event(0.5, 1)]}) == ["event 0 has no time"]
    assert problems_of([]) == ["no traceEvents"]
