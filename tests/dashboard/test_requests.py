"""The list of requests, its filters, the timeline, and what can be taken away from them."""

import csv
import datetime
import io
import json

import pytest

from made_up import history, now_ms, request, snapshot, worker
from synthetic_cluster import PHASES
from trace_rules import problems_of


def open_with(page, router, requests, **size):
    router.history = history([snapshot(workers=[worker("prefill", 1), worker("decode", 2)])], requests)
    page.open(router.address, **size)
    page.wait(lambda: page.js("return window.batonDebug?.sizes().requests ?? 0") == len(requests), "the requests")
    page.show("#requests")


def rows(page, column="trace"):
    """The texts of a column, from the top."""
    return page.js(
        """
        return [...document.querySelectorAll("#request-spacer .row")]
          .sort((a, b) => a.getAttribute("aria-rowindex") - b.getAttribute("aria-rowindex"))
          .map((row) => row.querySelector(`.${arguments[0]}`).textContent);""",
        column,
    )


def short(made):
    return made["trace_id"][:12]


def lasting(ms, **fields):
    return request(phases=(1, 1, 20, 2, ms - 24.5, 0.5), **fields)


def named(number, ms=300, **fields):
    return lasting(ms, trace_id=f"{number:012d}{'0' * 20}", **fields)


def test_the_slowest_request_is_first_also_when_requests_come_in(page, router):
    made = [lasting(ms) for ms in (300, 9_000, 50, 2_000)]
    open_with(page, router, made)
    assert rows(page, "total") == ["9.00 s", "2.00 s", "300 ms", "50.0 ms"]
    router.publish("requests", [lasting(4_000), lasting(10)])
    page.wait(
        lambda: rows(page, "total") == ["9.00 s", "4.00 s", "2.00 s", "300 ms", "50.0 ms", "10.0 ms"], "the order"
    )
    # Quantiles of what is shown, within half a per cent.
    hint = page.text("#requests-hint")
    assert hint.startswith("6 requests · TTFT P50 ")
    assert float(hint.split("TTFT P50 ")[1].split()[0]) == pytest.approx(22, rel=0.006)
    assert float(hint.split("E2E P50 ")[1].split()[0]) == pytest.approx(300, rel=0.006)


def test_a_press_on_a_heading_sorts_by_it_and_a_second_one_turns_the_order(page, router):
    made = [
        request(phases=(1, 1, prefill, 2, decode, 0.5), output_tokens=tokens)
        for prefill, decode, tokens in ((50, 100, 7), (10, 900, 9), (30, 400, 8))
    ]
    open_with(page, router, made)
    page.click(".row.head .ttft button")
    page.frames(2)
    assert rows(page, "ttft") == ["52.0 ms", "32.0 ms", "12.0 ms"]
    assert page.find(".row.head .ttft").get_attribute("aria-sort") == "descending"
    page.click(".row.head .ttft button")
    page.frames(2)
    assert rows(page, "ttft") == ["12.0 ms", "32.0 ms", "52.0 ms"]
    assert page.find(".row.head .ttft").get_attribute("aria-sort") == "ascending"
    assert page.find(".row.head .total").get_attribute("aria-sort") == "none"
    page.js("""const select = document.getElementById("sort-by");
               select.value = "tokens"; select.dispatchEvent(new Event("change"));""")
    page.frames(2)
    assert [text[-1] for text in rows(page, "tokens")] == ["9", "8", "7"]


def test_a_row_has_its_phases_as_bars_on_the_scale_of_the_list(page, router):
    open_with(page, router, [request(phases=(100, 50, 200, 25, 600, 25)), request(phases=(0, 0, 100, 0, 100, 0))])

    def bars():
        return page.js("""return [...document.querySelectorAll("#request-spacer .row")].map((row) => {
            const whole = row.querySelector(".bar").getBoundingClientRect().width;
            return [...row.querySelectorAll(".bar i")].map((part) => part.getBoundingClientRect().width / whole);});""")

    slow, fast = bars()
    assert page.text(".row.head .bar") == "Phases, 0 to 1 s"
    assert slow == pytest.approx([0.1, 0.05, 0.2, 0.025, 0.6, 0.025], abs=0.004)
    assert fast == pytest.approx([0, 0, 0.1, 0, 0.1, 0], abs=0.004)
    page.click("#without-decode")
    page.frames(2)
    slow, fast = bars()
    assert page.text(".row.head .bar") == "Without decode, 0 to 400 ms"
    assert slow == pytest.approx([0.25, 0.125, 0.5, 0.0625, 0, 0.0625], abs=0.004)


def choose(page, select, value):
    page.js(
        """const select = document.getElementById(arguments[0]);
               select.value = arguments[1]; select.dispatchEvent(new Event("change"));""",
        select,
        value,
    )
    page.frames(2)


def test_filters_by_outcome_worker_and_text(page, router):
    made = [
        named(1),
        named(2, outcome="failed", error="Worker Lost"),
        named(3, outcome="cancelled"),
        named(4, decode_worker="10.0.2.1:50061"),
        named(5, prefill_worker="10.0.1.1:50061"),
    ]
    open_with(page, router, made)
    shown = lambda: sorted(int(text) for text in rows(page))
    choose(page, "filter-outcome", "failed")
    assert shown() == [2] and page.text("#requests-hint").startswith("1 of 5 requests")
    choose(page, "filter-outcome", "not ok")
    assert shown() == [2, 3]
    # What comes in is filtered too.
    router.publish("requests", [named(6), named(7, outcome="refused")])
    page.wait(lambda: shown() == [2, 3, 7], "the one that passes")
    choose(page, "filter-outcome", "")
    choose(page, "filter-worker", "10.0.2.1:50061")
    assert shown() == [4]
    choose(page, "filter-worker", "10.0.1.1:50061")
    assert shown() == [5]
    choose(page, "filter-worker", "")
    page.find("#filter-text").send_keys("worker lost")
    page.frames(2)
    assert shown() == [2]
    page.find("#filter-text").clear()
    page.find("#filter-text").send_keys("000000000003")
    page.frames(2)
    assert shown() == [3]
    page.find("#filter-text").send_keys("x")
    page.frames(2)
    assert shown() == [] and page.text("#requests-empty") == "No request passes the filter. Clear it to see all."
    assert not page.find("#export-csv").is_enabled()
    page.click("#filter-clear")
    page.frames(2)
    assert shown() == [1, 2, 3, 4, 5, 6, 7]
    # A worker's card leads to its requests.
    page.click(".card:has(.role) .card-foot button")
    page.frames(3)
    assert page.js("return document.getElementById('filter-worker').value") == "10.0.1.1:50061" and shown() == [5]


def test_pause_holds_what_comes_and_resume_shows_it(page, router):
    open_with(page, router, [named(1)])
    page.click("#pause")
    router.publish("requests", [named(2), named(3)])
    router.publish("snapshot", snapshot(headline={"running": 77}))
    page.wait_text("#status", "Paused, 2 requests held")
    page.frames(3)
    assert rows(page) == ["000000000001"]
    assert page.js("return document.querySelector('#tile-running .value').textContent") != "77"
    assert page.find("#pause").get_attribute("aria-pressed") == "true"
    page.click("#pause")
    page.wait(lambda: len(rows(page)) == 3, "what was held")
    page.js("scrollTo(0, 0)")
    page.wait(lambda: page.text("#tile-running .value") == "77", "the snapshot")
    assert page.text("#status").startswith("Serving for")


def test_everything_about_a_request_is_beside_the_list(page, router):
    made = request(
        phases=(100, 50, 200, 25, 600, 25),
        outcome="failed",
        error="decode worker lost",
        attempts=2,
        cached_tokens=64,
        finish="",
    )
    open_with(page, router, [made])
    page.click("#request-spacer .row")
    page.wait(lambda: page.visible("#detail"), "the detail")
    text = page.js("return document.getElementById('detail').innerText")
    for words in (
        "1.00 s",
        "failed",
        "decode worker lost",
        "200 ms",
        "20.0 %",
        "64 tokens",
        "3.69 MB",
        made["trace_id"],
        made["id"],
        "10.0.2.10:50061",
    ):
        assert words in text, words
    assert page.js("return document.activeElement.id") == "detail"
    page.click("#detail .close")
    assert not page.visible("#detail") and page.js("return document.activeElement.id") == "request-grid"


def hostile_request():
    return named(9, 5_000, outcome="failed", error='=1+1, "quoted"\nand a line', decode_worker="@decode:1")


def test_csv_has_the_rows_of_the_list_in_its_order_and_runs_no_formula(page, router):
    made = [named(1, 300), named(2, 4_000), hostile_request(), named(3, 100, outcome="cancelled")]
    open_with(page, router, made)
    name, text = page.downloaded("#export-csv")
    assert name.startswith("baton-requests-") and name.endswith(".csv")
    table = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row["id"] for row in table] == [made[i]["id"] for i in (2, 1, 0, 3)]
    second = table[1]
    for column in ("prompt_tokens", "output_tokens", "ttft_ms", "itl_ms", "total_ms", "attempts", "transfer_bytes"):
        assert float(second[column]) == made[1][column], column
    assert [float(second[f"{phase}_ms"]) for phase in PHASES] == made[1]["phases_ms"]
    assert datetime.datetime.fromisoformat(second["end"]).timestamp() * 1000 == pytest.approx(made[1]["end_ms"])
    assert table[0]["error"] == "'" + made[2]["error"] and table[0]["decode_worker"] == "'@decode:1"
    # A filter is a filter here too.
    choose(page, "filter-outcome", "cancelled")
    assert len(page.downloaded("#export-csv")[1].splitlines()) == 2


def test_the_trace_nests_on_every_track_and_has_every_phase(page, router):
    now = now_ms()
    # Three at a time, with fractions of a microsecond, and one that took no time at all.
    made = [
        request(phases=(0.1234, 1.00049, 20.3333, 2.7, 200.77777 + i % 7 * 40, 0.5), end_ms=now - 20_000 + i * 87)
        for i in range(200)
    ] + [request(phases=(0,) * 6, end_ms=now, ttft_ms=None, itl_ms=None), hostile_request()]
    open_with(page, router, made)
    name, text = page.downloaded("#export-trace")
    trace = json.loads(text)
    assert name.endswith(".json") and problems_of(trace) == []
    events = trace["traceEvents"]
    processes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert set(processes.values()) == {
        "requests",
        "worker 10.0.1.10:50061",
        "worker 10.0.2.10:50061",
        "worker @decode:1",
    }
    by_request = {event["args"]["id"]: event for event in events if event.get("cat") == "request"}
    assert set(by_request) == {entry["id"] for entry in made}
    entry = made[3]
    event = by_request[entry["id"]]
    assert event["dur"] == pytest.approx(entry["total_ms"] * 1000, abs=2)
    assert trace["otherData"]["origin_unix_ms"] + (event["ts"] + event["dur"]) / 1000 == pytest.approx(
        entry["end_ms"], abs=0.01
    )
    phases = [
        (event["name"], event["dur"])
        for event in events
        if event.get("cat") == "phase" and event["args"]["trace_id"] == entry["trace_id"]
    ]
    assert [name for name, _ in phases] == list(PHASES)
    assert [duration / 1000 for _, duration in phases] == pytest.approx(entry["phases_ms"], abs=0.002)
    # Prefill is on the prefill worker's tracks, decode on the decode worker's.
    where = {processes[event["pid"]] for event in events if event.get("cat") == "decode"}
    assert where == {"worker 10.0.2.10:50061", "worker @decode:1"}


def test_the_timeline_has_a_lane_for_each_request_at_a_time(page, router):
    now = now_ms()
    # Two that overlap, and one after both.
    made = [lasting(4_000, end_ms=now - 11_000), lasting(5_000, end_ms=now - 9_000), lasting(1_000, end_ms=now - 2_000)]
    open_with(page, router, made)
    page.show("#timeline")
    assert page.text("#timeline-hint").startswith("3 requests on 2 lanes.")
    page.click("#lanes-workers")
    page.wait_text("#timeline-hint", "3 requests on 2 workers.")
    page.click("#lanes-slots")
    # What is pressed opens. The busiest lane is the first one, and the second request is in it.
    page.frames(2)
    canvas = page.find("#timeline-chart")
    width = canvas.size["width"]
    page.js(
        """const canvas = arguments[0], box = canvas.getBoundingClientRect();
        for (const kind of ["pointermove", "click"]) {
          const at = {clientX: box.x + arguments[1], clientY: box.y + 8, bubbles: true};
          canvas.dispatchEvent(new PointerEvent(kind, at));
        }""",
        canvas,
        width * (60 - 13) / 60,
    )
    page.wait(lambda: page.visible("#detail"), "the detail of what was pressed")
    assert made[1]["trace_id"] in page.text("#detail")
    # Back in time there is nothing, and Now returns.
    for _ in range(4):
        page.click("#timeline-back")
    page.wait_text("#timeline-empty", "No request in this time.")
    assert page.find("#timeline-live").get_attribute("aria-pressed") == "false"
    page.click("#timeline-live")
    page.wait_text("#timeline-hint", "3 requests")
    choose(page, "timeline-span", "10")
    page.wait_text("#timeline-hint", "2 requests")
