"""What a process holds, sampled over a long run, and whether it grows with the requests that it serves."""

import dataclasses
import math
import pathlib
import re
import statistics
import urllib.request

# The samples of one process are taken in so many parts, one after the other.
PARTS = 6
# Two-sided 95 % of Student's t with PARTS - 1 degrees of freedom.
T_95 = 2.571
LEAST_SAMPLES = 10 * PARTS


@dataclasses.dataclass
class Sample:
    # Requests that have ended since the beginning, and requests that have not ended yet.
    requests: int
    in_flight: int
    kib: float


@dataclasses.dataclass
class Slope:
    """In KiB for each 1,000 requests."""
    mean: float
    half_width: float
    # Each part's mean, in KiB.
    levels: list

    def __str__(self):
        return f"{self.mean:+.1f} +- {self.half_width:.1f} KiB (at {' '.join(f'{kib:.0f}' for kib in self.levels)})"


def private_kib(pid):
    """What no file backs and no other process shares: weights that are read and a pool that is touched do not count. The kernel
    counts the pages for `smaps_rollup`, while `status` has counters that are exact only now and then (proc(5))."""
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1])
    raise AssertionError(f"{pid} has no memory")


def heap_kib(admin):
    """What the process with this admin port has in use of its heap. A leak is in here, pages that the heap keeps are not."""
    with urllib.request.urlopen(f"http://{admin}/metrics", timeout=10) as page:
        return float(re.search(r"^process_heap_in_use_bytes (\S+)$", page.read().decode(), re.MULTILINE)[1]) / 1024


def descriptors(pid):
    return len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir()))


def least_squares(samples):
    """The slope over the requests of the plane through `samples`, whose other slope is over the requests in flight. What a
    process holds for each of these is far more than what a leak takes, and the line of waiting requests gets longer and shorter
    for minutes."""
    requests, in_flight, kib = zip(*((one.requests, one.in_flight, one.kib) for one in samples))
    of_in_flight = statistics.linear_regression(in_flight, requests).slope
    apart = [ended - of_in_flight * running for ended, running in zip(requests, in_flight)]
    return statistics.linear_regression(apart, kib).slope


def slope(samples):
    """How the KiB of `samples` grow, with a 95 % interval; None where they are too few. Pages come and go in a walk, where each
    sample is near the one before. One plane through all of them would take that for growth and call it certain; but what a walk
    does in one part tells nothing of the next, so the slopes of the parts are independent, and the interval is Student's of
    these (Ibragimov and Mueller, "t-Statistic Based Correlation and Heterogeneity Robust Inference", 2010)."""
    if len(samples) < LEAST_SAMPLES:
        return None
    parts = [samples[number * len(samples) // PARTS:(number + 1) * len(samples) // PARTS] for number in range(PARTS)]
    slopes = [1_000 * least_squares(part) for part in parts]
    return Slope(statistics.fmean(slopes), T_95 * statistics.stdev(slopes) / math.sqrt(PARTS),
                 [statistics.fmean(one.kib for one in part) for part in parts])
