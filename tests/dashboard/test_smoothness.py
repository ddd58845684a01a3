"""Ten thousand requests of history, and ten thousand more."""

import json
import time

from fake_events import SCENARIOS, HISTORY_S, Replay
from synthetic_cluster import SyntheticCluster, percentile, shifted

WATCH = """
    window.watched = {frames: [], longMs: 0, begin: performance.now()};
    new PerformanceObserver((list) => list.getEntries().forEach((entry) => { watched.longMs += entry.duration; }))
      .observe({entryTypes: ["longtask"]});
    let last = performance.now();
    const step = (now) => { watched.frames.push(now - last); last = now; requestAnimationFrame(step); };
    requestAnimationFrame(step);
"""


def heap_bytes(page):
    page.cdp("HeapProfiler.collectGarbage")
    return next(
        metric["value"]
        for metric in page.cdp("Performance.getMetrics")["metrics"]
        if metric["name"] == "JSHeapUsedSize"
    )


def test_ten_thousand_requests_stay_smooth_and_ten_thousand_more_take_no_more_memory(page, router):
    cluster = SyntheticCluster(SCENARIOS["history"], HISTORY_S + 20)
    page.cdp("Performance.enable")
    with Replay(router, cluster):
        begin = time.monotonic()
        page.open(router.address, height=1000)
        page.wait(lambda: page.js("return window.batonDebug?.sizes().requests ?? 0") == 10_000, "ten thousand requests")
        size = len(json.dumps(router.history))
        print(f"\nhistory of {size / 1e6:.1f} MB shown {time.monotonic() - begin:.2f} s after the page was asked for")
        page.show("#requests")
        # Live updates all the while: requests ten times a second, a snapshot every second.
        page.js(WATCH)
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline:
            page.js("document.getElementById('request-scroll').scrollBy(0, 900)")
            page.frames(2)
        page.js("document.getElementById('request-scroll').scrollTop = 150000")
        for section in ("timeline", "phases", "workers", "requests"):
            page.show(f"#{section}")
        watched = page.js("return {...watched, end: performance.now()}")
        cost = page.js("return batonDebug.frameCost()")
        sizes = page.sizes()
    frames = watched["frames"]
    share = watched["longMs"] / (watched["end"] - watched["begin"])
    print(
        f"{len(frames)} frames while scrolling: P50 {percentile(frames, 0.5):.1f} ms, "
        f"P95 {percentile(frames, 0.95):.1f} ms, "
        f"worst {max(frames):.1f} ms; tasks over 50 ms took {share:.1%} of the time"
    )
    print(
        f"script of a frame: P50 {cost['p50']:.2f} ms, P95 {cost['p95']:.2f} ms, worst {cost['worst']:.2f} ms; {sizes}"
    )
    assert sizes["requests"] == sizes["rows"] == 10_000
    assert sizes["renderedRows"] < 60 and sizes["elements"] < 2_000
    assert share < 0.4

    before = heap_bytes(page)
    more = shifted(cluster.requests[:10_000], 600_000)
    for begin in range(0, 10_000, 250):
        router.publish(
            "requests", [entry | {"id": f"{begin + i:032x}"} for i, entry in enumerate(more[begin : begin + 250])]
        )
    page.wait(lambda: page.js("return batonDebug.newest()") == f"{9_999:032x}", "ten thousand more")
    page.frames(3)
    after, later = heap_bytes(page), page.sizes()
    print(f"heap {before / 1e6:.1f} MB before and {after / 1e6:.1f} MB after ten thousand more; {later}")
    assert later["requests"] == later["rows"] == 10_000 and later["snapshots"] <= 300 and later["held"] == 0
    assert later["elements"] < 2_000
    assert after < 1.5 * before + 10e6
