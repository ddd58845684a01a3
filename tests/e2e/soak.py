"""What a process holds, sampled over a long run, and whether it grows with the requests that it serves."""

import dataclasses
import math
import pathlib

# The samples of one process are averaged over so many spans with equally many requests each.
SPANS = 12
# Two-sided 95 % of Student's t with SPANS - 2 degrees of freedom.
T_95 = 2.228
LEAST_SAMPLES = 5 * SPANS


@dataclasses.dataclass
class Slope:
    """In KiB for each 1,000 requests."""
    mean: float
    half_width: float
    # Each span's mean, in KiB.
    spans: list

    def __str__(self):
        return f"{self.mean:+.1f} +- {self.half_width:.1f} KiB (spans: {' '.join(f'{kib:.0f}' for kib in self.spans)})"


def private_kib(pid):
    """What no file backs and no other process shares: weights that are read and a pool that is touched do not count. The kernel
    counts the pages for `smaps_rollup`, while `status` has counters that are exact only now and then (proc(5))."""
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1])
    raise AssertionError(f"{pid} has no memory")


def descriptors(pid):
    return len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir()))


def slope(samples):
    """The least-squares line through `samples`, (requests, KiB), with its 95 % interval; None where they are too few.
    Neighbouring samples say nearly the same, so the line goes through the means of spans that are long beside that."""
    if len(samples) < LEAST_SAMPLES:
        return None
    points = []
    for number in range(SPANS):
        span = samples[number * len(samples) // SPANS:(number + 1) * len(samples) // SPANS]
        points.append([sum(column) / len(span) for column in zip(*span)])
    mean_x, mean_y = (sum(column) / SPANS for column in zip(*points))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    per_request = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    rest = sum((y - mean_y - per_request * (x - mean_x)) ** 2 for x, y in points)
    return Slope(1_000 * per_request, 1_000 * T_95 * math.sqrt(rest / (SPANS - 2) / spread), [y for _, y in points])
