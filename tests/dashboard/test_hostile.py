"""Nobody else is asked anything, and what strangers say is only shown."""

import re

from fake_events import DASHBOARD_DIR, WEB_DIR, start_scenario
from injected import inject
from made_up import request, snapshot, worker


def test_nothing_is_asked_of_anybody_else_and_the_console_stays_empty(page, router):
    with start_scenario(router, "burst"):
        page.open(router.address)
        page.wait(lambda: page.js("return window.batonDebug?.sizes().requests ?? 0") > 1_000, "the history")
        for section in ("phases", "workers", "requests", "timeline"):
            page.show(f"#{section}")
        for control in (
            "#phases-share",
            "#pause",
            "#pause",
            "#theme",
            "#without-decode",
            "#request-spacer .row",
            "#lanes-workers",
            "#phases-table-box summary",
        ):
            page.click(control)
        newest = page.js("return batonDebug.received().snapshotAt")
        page.wait(lambda: page.js("return batonDebug.received().snapshotAt") > newest, "a live snapshot")
    assert page.console() == []
    urls = page.requested_urls()
    assert len(urls) > 10
    assert [url for url in urls if not url.startswith((f"http://{router.address}/", "data:"))] == []
    assert {path for path in router.paths if path != "/"} >= {"/dashboard.js", "/dashboard.css", "/events"}


def test_the_policy_stops_scripts_styles_and_requests_that_are_not_the_page_s_own(page, router, loaded):
    loaded()
    inject(page)
    assert page.visible("#headline")


PAYLOADS = (
    "<script>window.ran=1</script>",
    "<img src=x onerror=window.ran=1>",
    '"><svg onload=window.ran=1>',
    "javascript:window.ran=1",
    "</title><script>window.ran=1</script>",
    "{{constructor.constructor('window.ran=1')()}}",
    "${window.ran=1}",
    "__proto__",
    "constructor",
    "\u202egnorw",
    "a\u0000b\u0007",
    "\ud800",
    "data: x\n\nevent: snapshot\ndata: {}",
    "'; DROP TABLE requests; --",
    "&lt;b&gt;",
    "😀" * 90,
)


def test_words_of_strangers_stay_words(page, router, loaded):
    made, workers, transfers = [], [], []
    for index, words in enumerate(PAYLOADS):
        made.append(
            request(
                phases=(1, 1, 20, 2, 9_000 - index, 0.5),
                id=words,
                trace_id=words,
                error=words,
                outcome="failed" if index % 2 else words,
                finish=words,
                prefill_worker=words,
                decode_worker=words,
            )
        )
        workers.append(
            worker(
                words if index % 2 else "decode",
                index + 1,
                address=words,
                admin=words,
                state=words,
                group=words,
                id=words,
            )
        )
        transfers.append({"source": words, "target": words[::-1], "bytes": 5, "seconds": 1, "reads": 1})
    loaded([snapshot(workers=workers, transfers=transfers, model=PAYLOADS[0], version=PAYLOADS[1])], made)
    kinds = "return [...new Set([...document.querySelectorAll('*')].map((e) => e.tagName.toLowerCase()))].sort()"
    allowed = set(
        """a aside b body button canvas caption dd details div dl dt footer form h1 h2 h3 head header html i input label
        li link main meta nav noscript option p path script section select span style summary svg table tbody td th
        thead title tr ul""".split()
    )
    router.publish("requests", made)
    router.publish(
        "snapshot",
        snapshot(workers=workers[::-1], serving=False, waits_for=PAYLOADS[1], model=PAYLOADS[2], version=PAYLOADS[1]),
    )
    page.wait_text("#notice", PAYLOADS[1])
    for index, section in enumerate(("phases", "workers", "transfers", "requests", "timeline", "cost")):
        page.show(f"#{section}")
    for row in range(1, 6):
        page.click(f"#request-spacer .row:nth-child({row})")
        page.frames(2)
    page.click("#lanes-workers")
    page.frames(2)
    assert set(page.js(kinds)) <= allowed and page.js("return document.scripts.length") == 2
    assert page.js("return window.ran") is None and page.js("return ({}).ran") is None
    assert page.driver.title == f"Baton · {PAYLOADS[2]}" and PAYLOADS[1] in page.text("#about")
    assert page.console() == []


def test_events_of_wrong_shapes_are_read_as_far_as_they_go(page, router, loaded):
    loaded()
    for wrong in (
        None,
        [],
        "text",
        7,
        {},
        {"headline": [], "workers": [None, 7, "x"], "transfers": [[]], "cost": "x", "totals": None},
        {
            "headline": {"ttft_ms": {"p50": "<b>", "p99": -1}, "running": 1e308, "goodput": "x"},
            "t_ms": -5,
            "phases_ms": [1],
        },
        {"t_ms": 1e300, "uptime_s": 1e300, "phases_ms": {"queue": 1e300}, "ended": -1},
    ):
        router.publish("snapshot", wrong)
        router.publish("requests", wrong)
        router.publish("requests", [wrong])
        router.publish("never-heard-of", wrong)
    router.publish(
        "requests", [{"phases_ms": "x", "total_ms": 1e300, "end_ms": 1e300, "ttft_ms": None}, {"phases_ms": [1] * 99}]
    )
    router.publish("snapshot", snapshot(headline={"running": 4711}))
    page.wait_text("#tile-running .value", "4,711")
    for section in ("phases", "workers", "transfers", "requests", "timeline"):
        page.show(f"#{section}")
    for button in ("#export-csv", "#export-trace"):
        page.downloaded(button)
    assert page.console() == []


def test_no_file_of_the_page_names_another_server():
    for file in sorted([*DASHBOARD_DIR.glob("*.*"), *WEB_DIR.glob("*.*")]):
        if file.suffix in (".html", ".js", ".css"):
            urls = re.findall(r"https?://[^\s'\"]+", file.read_text())
            assert [url for url in urls if not url.startswith("http://www.w3.org/2000/svg")] == [], file.name
            assert "innerHTML" not in file.read_text() and "eval(" not in file.read_text()
