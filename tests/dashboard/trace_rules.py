"""What Perfetto asks of a Chrome trace: events that it can read, and on each track intervals that nest."""

import collections


def problems_of(trace):
    """Reasons why Perfetto would not show this trace as it was meant; empty when there are none."""
    problems = []
    if not isinstance(trace, dict) or not isinstance(trace.get("traceEvents"), list):
        return ["no traceEvents"]
    tracks, open_begins = collections.defaultdict(list), collections.defaultdict(list)
    for number, event in enumerate(trace["traceEvents"]):
        missing = [key for key in ("ph", "pid", "tid", "name") if key not in event]
        if missing:
            problems.append(f"event {number} lacks {missing}")
            continue
        track = event["pid"], event["tid"]
        if event["ph"] == "M":
            continue
        if not isinstance(event.get("ts"), int) or event["ts"] < 0:
            problems.append(f"event {number} has no time")
        elif event["ph"] == "X":
            if not isinstance(event.get("dur"), int) or event["dur"] < 0:
                problems.append(f"event {number} has no duration")
            else:
                tracks[track].append((event["ts"], event["ts"] + event["dur"], number))
        elif event["ph"] == "B":
            open_begins[track].append((event["ts"], number))
        elif event["ph"] == "E":
            if not open_begins[track]:
                problems.append(f"event {number} ends nothing")
            else:
                begin, number = open_begins[track].pop()
                tracks[track].append((begin, event["ts"], number))
        else:
            problems.append(f"event {number} is a {event['ph']}")
    problems += [f"event {number} never ends" for begins in open_begins.values() for _, number in begins]
    for intervals in tracks.values():
        problems += _overlaps(intervals)
    return problems


def _overlaps(intervals):
    """Pairs of a track of which neither lies in the other, although they have time in common."""
    around, found = [], []
    for begin, end, number in sorted(intervals, key=lambda interval: (interval[0], -interval[1])):
        while around and around[-1][0] <= begin:
            around.pop()
        if around and end > around[-1][0]:
            found.append(f"events {around[-1][1]} and {number} overlap")
        around.append((end, number))
    return found
