"""What pairs of measurements say: the median ratio of new to old, its 95 % interval, and whether new is slower."""

import math
import statistics

CONFIDENCE = 0.95
SLOWER = 1.03


def median_interval(ratios):
    """The ends of the 95 % interval of the median by order statistics, and whether there are enough ratios for it.

    A ratio lies below the true median with probability 1/2, so the number of those that do is binomial.
    """
    ordered, count = sorted(ratios), len(ratios)
    outside = 0
    for rank in range(count // 2):
        outside += 2 * math.comb(count, rank) / 2**count
        if outside > 1 - CONFIDENCE:
            break
        low, high = ordered[rank], ordered[count - 1 - rank]
    else:
        rank = 0
    return (low, high, True) if rank > 0 else (ordered[0], ordered[-1], False)


def compare(values):
    """`values` are the pairs (old, new) of a time."""
    ratios = [new / old for old, new in values]
    low, high, is_interval = median_interval(ratios)
    return {"ratio": statistics.median(ratios), "low": low, "high": high, "is_interval_of_95": is_interval,
            "old": statistics.median(old for old, _ in values), "new": statistics.median(new for _, new in values),
            "pairs": values}


def verdict(wall, cpu):
    """`cpu` is None where no CPU time belongs to the figure."""
    if not wall["is_interval_of_95"]:
        return "too few pairs"
    if wall["high"] < SLOWER:
        return "not slower"
    if wall["low"] >= SLOWER:
        return "slower"
    if cpu is not None and cpu["high"] < SLOWER:
        return "not slower (CPU time)"
    return "slower (CPU time)" if cpu is not None and cpu["low"] >= SLOWER else "cannot tell"


def span(compared):
    return f"{compared['ratio']:.3f} [{compared['low']:.3f}, {compared['high']:.3f}]"


def table(rows):
    head = ("figure", "pairs", "old", "new", "unit", "time, new / old", "CPU ms / 1,000 tokens", "CPU, new / old",
            "verdict")
    lines = [head]
    for row in rows:
        wall, cpu = row["time"], row["cpu_ms_per_1000_tokens"]
        lines.append((row["figure"], str(len(wall["pairs"])), f"{wall['old']:.1f}", f"{wall['new']:.1f}", row["unit"],
                      span(wall), f"{cpu['old']:.1f} -> {cpu['new']:.1f}" if cpu else "", span(cpu) if cpu else "",
                      row["verdict"]))
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    enough = all(row["time"]["is_interval_of_95"] for row in rows)
    note = "Medians; in brackets " + ("the 95 % interval." if enough else "the smallest and the largest ratio.")
    return "\n".join(["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines] + [note])
