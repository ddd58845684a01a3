"""What the page shows is what the router says."""

import pytest

from made_up import history, now_ms, request, snapshot, worker
from synthetic_cluster import PHASES


def open_with(page, router, snapshots=(), requests=(), **size):
    router.history = history(snapshots, requests)
    page.open(router.address, **size)
    page.wait(lambda: page.js("return window.batonDebug?.framesDrawn() ?? 0") or not snapshots, "a drawn frame")
    page.frames(3)


def tile(page, name):
    """(large number with unit, small number) of a tile."""
    big = page.js(
        """
        const tile = document.getElementById(arguments[0]);
        return [".value", ".unit", ".more"].map((part) => tile.querySelector(part).textContent);
    """,
        f"tile-{name}",
    )
    return f"{big[0]} {big[1]}".strip(), big[2]


def test_a_duration_has_three_digits_and_a_unit(page, router):
    open_with(page, router, [snapshot()])
    for ms, shown in (
        (0, "0 ms"),
        (0.004, "<0.01 ms"),
        (0.4249, "0.42 ms"),
        (9.996, "10.0 ms"),
        (84.24, "84.2 ms"),
        (842.4, "842 ms"),
        (999.4, "999 ms"),
        (999.6, "1.00 s"),
        (61_234, "61.2 s"),
        (150_000, "150 s"),
        (1_200_000, "20.0 min"),
        (7_200_000, "2.00 h"),
        (1e15, ">999 h"),
        (None, "–"),
    ):
        router.publish("snapshot", snapshot(headline={"ttft_ms": {"p50": ms, "p99": ms}}))
        page.wait(lambda: tile(page, "ttft") == (shown, shown), f"{ms} ms as {shown}")


def test_the_large_numbers_are_those_of_the_snapshot(page, router):
    open_with(
        page,
        router,
        [
            snapshot(
                headline={
                    "ttft_ms": {"p50": 84.24, "p99": 1234.5},
                    "itl_ms": {"p50": 17.86, "p99": 42.02},
                    "e2e_ms": {"p50": 842.4, "p99": 61_234},
                    "goodput": 0.98765,
                    "ttft_target_ms": 500,
                    "itl_target_ms": 50,
                    "output_tokens_per_s": 1017.3,
                    "prompt_tokens_per_s": 48_362.1,
                    "running": 29,
                    "waiting": 1,
                }
            )
        ],
    )
    assert tile(page, "ttft") == ("84.2 ms", "1.23 s")
    assert tile(page, "itl") == ("17.9 ms", "42.0 ms")
    assert tile(page, "e2e") == ("842 ms", "61.2 s")
    assert tile(page, "goodput") == ("98.8 %", "TTFT ≤ 500 ms\nITL ≤ 50 ms")
    assert tile(page, "tokens") == ("1,017 tokens/s", "48.4 k tokens/s")
    assert tile(page, "running") == ("29 requests", "1 request")

    # They change with the next snapshot, and one failure in many never looks like none.
    router.publish(
        "snapshot", snapshot(headline={"goodput": 0.99999, "running": 1, "waiting": 0, "output_tokens_per_s": 12_345})
    )
    page.wait(lambda: tile(page, "running") == ("1 request", "0 requests"), "the new snapshot")
    assert tile(page, "goodput")[0] == "99.9 %"
    assert tile(page, "tokens")[0] == "12.3 k tokens/s"


def test_numbers_that_do_not_exist_are_dashes(page, router):
    nothing = {"p50": None, "p99": None}
    open_with(
        page, router, [snapshot(headline={"ttft_ms": nothing, "itl_ms": nothing, "e2e_ms": nothing, "goodput": None})]
    )
    for name in ("ttft", "itl", "e2e"):
        assert tile(page, name) == ("–", "–")
    assert tile(page, "goodput")[0] == "–"


def test_phases_are_means_weighted_by_how_many_requests_ended(page, router):
    now = now_ms()
    open_with(
        page,
        router,
        [
            snapshot(now - 200_000, phases=[900] * 6, ended=9),  # Before the last minute.
            snapshot(now - 2_000, phases=[10, 1, 40, 4, 400, 1], ended=1),
            snapshot(now - 1_000, phases=[2, 1, 20, 8, 200, 0.2], ended=3),
            snapshot(now, phases_ms=None, ended=0),
        ],
    )
    assert page.texts("#phase-legend b") == ["4.00 ms", "1.00 ms", "25.0 ms", "7.00 ms", "250 ms", "0.40 ms"]
    assert page.text("#phases-hint") == "mean of 4 requests that ended well in the last 60 s"
    assert page.texts("#relay b") == ["287 ms", "37.4 ms"]
    # The second bar is everything but decode, each phase as long as its share.
    widths = dict(
        page.js("""
        const parts = [...document.querySelectorAll(".relay")[1].children];
        return parts.map((part) => [part.className.replace("part phase-", ""), part.getBoundingClientRect().width]);""")
    )
    whole = sum(widths.values())
    assert set(widths) == set(PHASES) - {"decode"}
    assert widths["prefill"] / whole == pytest.approx(25 / 37.4, abs=0.01)
    assert widths["transfer"] / whole == pytest.approx(7 / 37.4, abs=0.01)


def bar_heights(page, colours):
    """Pixels of each phase's colour in the tallest column of the phase chart that has it."""
    return page.js(
        """
        const canvas = document.getElementById("phase-chart");
        const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        return Object.fromEntries(arguments[0].map((phase) => {
          const probe = document.querySelector(`.legend .phase-${phase}`);
          const [r, g, b] = getComputedStyle(probe).backgroundColor.match(/\\d+/g).map(Number);
          let most = 0;
          for (let x = 0; x < canvas.width; ++x) {
            let count = 0;
            for (let y = 0; y < canvas.height; ++y) {
              const at = 4 * (y * canvas.width + x);
              count += data[at] === r && data[at + 1] === g && data[at + 2] === b;
            }
            most = Math.max(most, count);
          }
          return [phase, most];
        }));""",
        colours,
    )


def test_the_phase_chart_stacks_phases_to_scale_and_hides_what_is_switched_off(page, router):
    now = now_ms()
    open_with(page, router, [snapshot(now, phases=[30, 20, 60, 40, 300, 50], ended=2)], height=1400)
    page.click("#phases-stacked")
    page.frames(2)
    heights = bar_heights(page, PHASES)
    # 500 ms in all; edges between two phases may be a mixture.
    per_ms = heights["decode"] / 300
    for phase, ms in zip(PHASES, [30, 20, 60, 40, 300, 50]):
        assert heights[phase] == pytest.approx(ms * per_ms, abs=2), (phase, heights)
    assert page.text("#phase-legend li:nth-child(5) button .name") == "decode"
    page.click("#phase-legend li:nth-child(5) button")
    page.frames(2)
    without = bar_heights(page, PHASES)
    assert without["decode"] == 0 and without["prefill"] > 1.5 * heights["prefill"]
    page.click("#phase-legend li:nth-child(5) button")
    page.click("#phases-share")
    page.frames(2)
    share = bar_heights(page, PHASES)
    assert share["decode"] / share["prefill"] == pytest.approx(5, rel=0.1)
    # By itself decode has a panel, so that the others have a scale of their own.
    page.click("#phases-split")
    page.frames(2)
    split = bar_heights(page, PHASES)
    assert split["prefill"] > 1.5 * heights["prefill"] and split["decode"] > 0


def test_the_table_of_phases_has_what_the_chart_has(page, router):
    begin = (now_ms() // 10_000 - 1) * 10_000
    failed = lambda number: {"requests": 9, "ok": 9 - number, "failed": number, "prompt_tokens": 1, "output_tokens": 1}
    open_with(
        page,
        router,
        [
            snapshot(begin + 500, phases=[1, 1, 1, 1, 1, 1], ended=1, totals=failed(0)),
            snapshot(begin + 1_500, phases=[3, 1, 1, 1, 1, 1], ended=1, totals=failed(2)),
            snapshot(begin + 10_500, phases_ms=None, totals=failed(2)),
        ],
    )
    page.click("#phases-table-box summary")
    page.frames(2)
    newest, oldest = page.js("""return [...document.querySelectorAll("#phases-table tbody tr")].map(
        (row) => [...row.children].slice(1).map((cell) => cell.textContent));""")
    assert oldest == ["2.00 ms", *["1.00 ms"] * 5, "7.00 ms", "2", "2"]
    assert newest == ["–"] * 7 + ["0", "0"]


def card(page, address):
    return page.js(
        """
        const card = [...document.querySelectorAll(".card")]
          .find((card) => card.querySelector(".address").textContent === arguments[0]);
        if (!card) return null;
        const width = (name) => card.querySelector(name).getBoundingClientRect().width;
        const text = (name) => card.querySelector(name).textContent;
        return {role: text(".role"), state: card.dataset.state, says: text(".state"), running: text(".running"),
                used: text(".used"), cached: text(".cached"), free: text(".free"), age: text(".age"),
                steps: text(".steps"), pending: text(".pending"),
                usedShare: width(".used-bar") / width(".kv-bar"), cachedShare: width(".cached-bar") / width(".kv-bar"),
                alarming: card.querySelector(".age").classList.contains("alarming")};""",
        address,
    )


def test_a_card_shows_each_worker(page, router):
    workers = [
        worker("prefill", 1),
        worker("decode", 2, running=1, used_blocks=1000, cached_blocks=0, free_blocks=0),
        worker("mixed", 3, step_age_ms=2_500, pending_prompt_tokens=12_000),
    ]
    open_with(page, router, [snapshot(workers=workers)])
    page.show("#workers")
    prefill, decode, mixed = (card(page, entry["address"]) for entry in workers)
    assert (prefill["role"], prefill["state"], prefill["running"]) == ("prefill", "serving", "3")
    assert (prefill["used"], prefill["cached"], prefill["free"]) == ("25.0 %", "50.0 %", "25.0 %")
    assert prefill["usedShare"] == pytest.approx(0.25, abs=0.01) and prefill["cachedShare"] == pytest.approx(
        0.5, abs=0.02
    )
    assert (prefill["age"], prefill["steps"], prefill["pending"]) == ("12.5 ms", "50.0", "40")
    assert (decode["used"], decode["free"]) == ("100 %", "0 %")
    assert mixed["alarming"] and mixed["pending"] == "12,000" and not prefill["alarming"]
    # The one that needs a look comes first.
    assert page.text(".card .role") == "mixed"
    assert page.text("#workers-hint") == "1 prefill · 1 decode · 1 mixed"


def test_a_worker_that_drains_or_vanishes_says_so_until_it_is_back(page, router):
    first, second = worker("decode", 1), worker("decode", 2, running=7)
    open_with(page, router, [snapshot(workers=[first, second])])
    page.show("#workers")
    router.publish("snapshot", snapshot(workers=[first, second | {"state": "draining"}]))
    page.wait(lambda: card(page, second["address"])["state"] == "draining", "the drain")
    assert card(page, second["address"])["says"].startswith("draining: 7 requests to finish")
    router.publish("snapshot", snapshot(workers=[first]))
    page.wait(lambda: card(page, second["address"])["state"] == "left", "that it left")
    router.publish("snapshot", snapshot(workers=[]))
    page.wait(lambda: card(page, first["address"])["state"] == "lost", "that it was lost")
    assert page.text("#workers-hint") == "2 gone"
    router.publish("snapshot", snapshot(workers=[first | {"id": "f" * 32}]))
    page.wait(lambda: card(page, first["address"])["state"] == "serving", "that it is back")
    # A minute later nobody is missed any more.
    router.publish("snapshot", snapshot(now_ms() + 61_000, workers=[first | {"id": "f" * 32}]))
    page.wait(lambda: page.text("#workers-hint") == "1 decode", "that the other is forgotten")


def test_many_workers_are_a_few_cards_until_somebody_asks(page, router):
    open_with(page, router, [snapshot(workers=[worker("decode", number) for number in range(1, 41)])])
    page.show("#workers")
    assert page.js("return document.querySelectorAll('.card').length") == 12
    assert page.text("#workers-all") == "Show all 40"
    page.click("#workers-all")
    page.wait(lambda: page.js("return document.querySelectorAll('.card').length") == 40, "all cards")


def moved(source, target, bytes_, seconds, reads):
    return {
        "source": f"10.0.1.{source}:50061",
        "target": f"10.0.2.{target}:50061",
        "bytes": bytes_,
        "seconds": seconds,
        "reads": reads,
    }


def test_the_matrix_has_the_transfers_of_the_last_minute(page, router):
    now = now_ms()
    open_with(page, router, [snapshot(now - 10_000, transfers=[moved(1, 1, 5_000_000_000, 2, 100)])])
    router.publish(
        "snapshot", snapshot(now, transfers=[moved(1, 1, 8_000_000_000, 3, 300), moved(2, 1, 500_000_000, 0.25, 10)])
    )
    page.show("#transfers")
    page.wait(lambda: "in the last 10 s" in page.text("#transfers-hint"), "a window of ten seconds")
    cells = page.js("""return [...document.querySelectorAll("#transfer-matrix tbody tr")].map(
        (row) => [...row.children].map((cell) => [...cell.childNodes].map((node) => node.textContent).join("|")));""")
    assert cells == [
        ["10.0.1.1", "3.00 GB/s|3.00 GB|200 reads|5.00 ms each"],
        ["10.0.1.2", "2.00 GB/s|500 MB|10 reads|25.0 ms each"],
    ]
    assert page.texts("#transfer-matrix thead th") == ["10.0.2.1"]
    # A router that was started again counts from zero, and nothing becomes negative.
    router.publish("snapshot", snapshot(now + 1_000, transfers=[moved(1, 1, 1_000_000, 0.001, 2)]))
    page.wait(
        lambda: "1.00 GB/s|1.00 MB|2 reads"
        in "|".join(
            page.js(
                "const cell = document.querySelector('#transfer-matrix td:last-child');"
                "return [...cell.childNodes].map((n) => n.textContent)"
            )
        ),
        "the count since the restart",
    )


def test_many_pairs_are_a_list_of_the_busiest(page, router):
    pairs = [
        moved(source, target, 1_000_000 * (source * 16 + target), 1, 1) for source in range(16) for target in range(16)
    ]
    open_with(page, router, [snapshot(now_ms(), transfers=pairs)])
    page.show("#transfers")
    assert page.js("return document.querySelectorAll('#transfer-matrix tbody tr').length") == 64
    assert page.texts("#transfer-matrix tbody tr:first-child > *")[:2] == ["10.0.1.15", "10.0.2.15"]
    assert "the busiest 64 of 256 pairs" in page.text("#transfers-hint")


def test_the_page_says_what_it_costs(page, router):
    open_with(
        page,
        router,
        [
            snapshot(
                cost={
                    "cpu_cores": 0.25,
                    "telemetry_cpu_cores": 0.0031,
                    "rss_bytes": 64 << 20,
                    "viewers": 2,
                    "bytes_per_s": 4200,
                }
            )
        ],
        [request()],
    )
    page.show("footer")
    costs = dict(
        page.js(
            "const rows = [...document.querySelectorAll('#cost div')];"
            "return rows.map((row) => [...row.children].map((e) => e.textContent))"
        )
    )
    assert costs["router, all of it"] == "0.25 cores" and costs["its telemetry"] == "0.0031 cores"
    assert costs["its memory"] == "64.0 MiB" and costs["viewers"] == "2" and costs["sent to them"] == "4.20 kB/s"
    assert costs["kept in this page"] == "1 request" and " ms, P95 " in costs["a frame of this page"]


def test_empty_pages_say_what_to_do(page, router):
    open_with(page, router, [snapshot(workers=[], transfers=[], phases_ms=None)])
    for section, words in (
        ("phases", "baton generate --prompt"),
        ("workers", "baton decode-worker --router"),
        ("transfers", "baton serve --prefill 1 --decode 1"),
        ("requests", "baton generate --prompt"),
        ("timeline", "baton generate --prompt"),
    ):
        page.show(f"#{section}")
        assert page.visible(f"#{section}-empty") and words in page.text(f"#{section}-empty"), section
    router.publish("snapshot", snapshot(phases=[1] * 6, ended=1))
    router.publish("requests", [request()])
    page.wait(lambda: page.sizes()["requests"] == 1, "the request")
    for section in ("phases", "workers", "transfers", "requests", "timeline"):
        page.show(f"#{section}")
        assert not page.visible(f"#{section}-empty"), section


def test_a_cluster_that_cannot_serve_says_what_it_waits_for(page, router):
    open_with(page, router, [snapshot(serving=False, waits_for="a decode worker")])
    assert page.visible("#notice") and page.text("#notice") == "The cluster cannot serve: it waits for a decode worker."
    assert page.text("#status") == "Not serving"
    router.publish("snapshot", snapshot(uptime_s=7_260))
    page.wait_text("#status", "Serving for 2 h 1 min")
    assert not page.visible("#notice")
