"""The page as a page: themes, colours, keys, names, phones."""

import pytest

from made_up import now_ms, request, snapshot, worker
from palette import PHASES, contrast, distance_for_everybody, lightness
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

PHONE = {"width": 390, "height": 844, "phone": True}


def background(page):
    return page.js("return getComputedStyle(document.body).backgroundColor")


def test_the_theme_is_the_system_s_until_one_is_chosen_and_then_remembered(page, router, loaded):
    page.prefer(prefers_color_scheme="dark")
    loaded()
    dark = background(page)
    assert page.text("#theme") == "Light"
    page.prefer(prefers_color_scheme="light")
    page.wait(lambda: background(page) != dark, "the light theme")
    light = background(page)
    page.wait(lambda: page.text("#theme") == "Dark", "the switch")
    page.click("#theme")
    assert background(page) == dark
    # The canvases follow: the axis of the phase chart has another colour now.
    page.driver.refresh()
    page.wait(lambda: page.js("return window.batonDebug?.framesDrawn() ?? 0"), "a drawn frame")
    assert background(page) == dark and page.text("#theme") == "Light"
    page.click("#theme")
    assert background(page) == light


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_colours_can_be_told_apart_by_everybody(page, router, loaded, theme):
    page.prefer(prefers_color_scheme=theme)
    loaded()
    colour = lambda name: page.js(
        """
        const probe = document.body.appendChild(document.createElement("i"));
        probe.style.color = `var(--${arguments[0]})`;
        const [r, g, b] = getComputedStyle(probe).color.match(/[\\d.]+/g).map(Number);
        probe.remove();
        return [r, g, b];""",
        name,
    )
    phases = [colour(f"phase-{phase}") for phase in PHASES]
    surfaces = [colour("ground"), colour("surface")]
    for i, first in enumerate(phases):
        assert min(contrast(first, surface) for surface in surfaces) >= 2.7, PHASES[i]
        assert contrast(first, surfaces[0]) >= 2.75, PHASES[i]
        for j, second in enumerate(phases[:i]):
            assert distance_for_everybody(first, second) >= 0.07, (PHASES[j], PHASES[i])
    for (name, first), (next_name, second) in zip(zip(PHASES, phases), list(zip(PHASES, phases))[1:]):
        assert abs(lightness(first) - lightness(second)) >= 0.1, (name, next_name)
    for text in ("text", "quiet", "good", "warn", "bad"):
        for surface in surfaces:
            assert contrast(colour(text), surface) >= 4.5, text


def focus(page):
    """What has the focus: a name, and whether one sees it."""
    return page.js("""
        const element = document.activeElement, style = getComputedStyle(element);
        const row = element.querySelector?.("[aria-selected=true]");
        const outlined = (style) => style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
        return [element.id || element.getAttribute("aria-label") || element.textContent.trim().slice(0, 30),
                outlined(style) || (row !== null && row !== undefined && outlined(getComputedStyle(row)))];""")


def press(page, *keys):
    ActionChains(page.driver, duration=0).send_keys(*keys).perform()


def test_keys_alone_reach_everything_in_order_and_one_sees_where_one_is(page, router, loaded):
    workers = [worker("prefill", 1), worker("decode", 2)]
    transfers = [{"source": "10.0.1.1:50061", "target": "10.0.2.1:50061", "bytes": 9, "seconds": 1, "reads": 1}]
    loaded([snapshot(workers=workers, transfers=transfers)], [request(), request()])
    page.js("document.activeElement.blur(); scrollTo(0, 0)")
    reached = []
    while len(reached) < 80:
        press(page, Keys.TAB)
        name, seen = focus(page)
        if name in reached[:1] or page.js("return document.activeElement === document.body"):
            break
        assert seen, f"the focus on {name} cannot be seen"
        reached.append(name)
    everything = page.js("""
        return [...document.querySelectorAll("button, a[href], select, input, summary, [tabindex='0']")]
          .filter((e) => e.checkVisibility() && !e.disabled && e.tabIndex >= 0)
          .map((e) => e.id || e.getAttribute("aria-label") || e.textContent.trim().slice(0, 30));""")
    assert reached == everything
    assert reached[0] == "Skip to the numbers" and {
        "pause",
        "phase-chart",
        "request-grid",
        "export-trace",
        "timeline-live",
    } <= set(reached)


def focus_on(page, selector):
    """By the keyboard, as if one had tabbed there."""
    page.js(
        "const e = document.querySelector(arguments[0]);"
        "e.scrollIntoView({block: 'center', behavior: 'instant'}); e.focus()",
        selector,
    )
    page.frames(2)


def test_keys_alone_operate_everything(page, router, loaded):
    made = [request(phases=(1, 1, 20, 2, 100 + 10 * i, 0.5)) for i in range(60)]
    loaded(
        [
            snapshot(now_ms() - 4_000, phases=[1, 1, 20, 2, 100, 1], ended=1),
            snapshot(now_ms(), phases=[1, 1, 30, 2, 100, 1], ended=1),
        ],
        made,
    )
    focus_on(page, "#pause")
    press(page, Keys.ENTER)
    page.wait_text("#status", "Paused")
    press(page, Keys.SPACE)
    page.wait_text("#status", "Serving")
    # The chart is a slider over time.
    focus_on(page, "#phase-chart")
    press(page, Keys.ARROW_LEFT)
    page.wait(lambda: page.visible("#phase-readout"), "the reading")
    assert "prefill 30.0 ms" in page.find("#phase-chart").get_attribute("aria-valuetext")
    press(page, Keys.HOME)
    page.wait(
        lambda: "prefill 20.0 ms" in page.find("#phase-chart").get_attribute("aria-valuetext"), "the older reading"
    )
    press(page, Keys.ESCAPE)
    page.wait(lambda: not page.visible("#phase-readout"), "the end of the reading")
    # The list: arrows move, pages scroll, Enter opens, Escape returns.
    focus_on(page, "#request-grid")
    active = lambda: page.js("""
        const grid = document.getElementById("request-grid");
        const row = document.getElementById(grid.getAttribute("aria-activedescendant"));
        return Number(row?.getAttribute("aria-rowindex"));""")
    assert active() == 2
    press(page, Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    page.wait(lambda: active() == 4, "the third row")
    press(page, Keys.END)
    page.wait(lambda: active() == 61, "the last row")
    box = page.js("""
        const row = document.querySelector("#request-grid [aria-selected=true]").getBoundingClientRect();
        const list = document.getElementById("request-scroll").getBoundingClientRect();
        return [row.top >= list.top, row.bottom <= list.bottom + 1];""")
    assert box == [True, True]
    press(page, Keys.PAGE_UP)
    page.wait(lambda: active() < 61, "a page up")
    press(page, Keys.HOME, Keys.ENTER)
    page.wait(lambda: page.visible("#detail"), "the detail")
    assert made[-1]["trace_id"] in page.text("#detail")
    press(page, Keys.ESCAPE)
    page.wait(lambda: not page.visible("#detail"), "the end of the detail")
    assert focus(page)[0] == "request-grid"
    focus_on(page, "#filter-text")
    press(page, made[0]["trace_id"])
    page.wait(lambda: page.sizes()["rows"] == 1, "the filtered list")


def test_everything_that_can_be_operated_has_a_name(page, router, loaded):
    loaded([snapshot(workers=[worker("decode", 1)])], [request()])
    page.click("#request-spacer .row")
    nodes = page.cdp("Accessibility.getFullAXTree")["nodes"]
    operated = {
        "button",
        "link",
        "combobox",
        "searchbox",
        "textbox",
        "slider",
        "grid",
        "checkbox",
        "region",
        "image",
        "search",
    }
    seen = set()
    for node in nodes:
        role = node.get("role", {}).get("value")
        if node.get("ignored") or role not in operated:
            continue
        seen.add(role)
        assert node.get("name", {}).get("value"), node
    assert seen >= {"button", "link", "combobox", "searchbox", "slider", "grid", "image"}
    assert page.js("return [...document.querySelectorAll('h1, h2, h3')].map((h) => h.tagName)[0]") == "H1"


def overflow(page):
    """How much wider than a phone the page is. A phone's browser would zoom out to show it."""
    return page.js("return Math.max(document.documentElement.scrollWidth, innerWidth)") - PHONE["width"]


def test_a_phone_scrolls_in_one_direction_only(page, router, loaded):
    long = "a-very-long-name-of-a-pod-that-goes-on-7d9f8b6c5-x2x4q.baton-decode.some-namespace.svc.cluster.local:50061"
    workers = [worker("prefill", 1, address=long), *(worker("decode", number) for number in range(2, 14))]
    transfers = [
        {"source": long, "target": f"10.0.{number}.1:50061", "bytes": 9e9, "seconds": 1, "reads": 1}
        for number in range(2, 11)
    ]
    made = [request(error="e" * 200, outcome="failed", decode_worker=long), request()]
    huge = {"p50": 123_456_789, "p99": 1e12}
    loaded(
        [
            snapshot(
                workers=workers,
                transfers=transfers,
                model="m" * 200,
                serving=False,
                waits_for="w" * 200,
                headline={"ttft_ms": huge, "output_tokens_per_s": 123_456_789},
            )
        ],
        made,
        **PHONE,
    )
    assert overflow(page) == 0
    for section in ("phases", "workers", "transfers", "requests", "timeline"):
        page.show(f"#{section}")
        assert overflow(page) == 0, section
    page.click("#request-spacer .row")
    page.frames(2)
    assert page.visible("#detail") and overflow(page) == 0
    page.click("#phases-table-box summary")
    page.frames(2)
    assert overflow(page) == 0
    # Fingers are wider than pointers.
    small = page.js(
        """return [...document.querySelectorAll("header button, .filters select, .filters input, .legend button")]
        .filter((e) => e.getBoundingClientRect().height < 40).map((e) => e.id);"""
    )
    assert small == []


def test_who_asks_for_less_motion_gets_none(page, router, loaded):
    page.prefer(prefers_reduced_motion="reduce")
    loaded()
    moving = lambda: page.js("""
        return [...document.querySelectorAll("*")].filter((e) => ["", "::before", "::after"].some((part) => {
          const style = getComputedStyle(e, part || null);
          return style.animationName !== "none" || style.transitionDuration !== "0s"
            || style.scrollBehavior === "smooth";
        })).length;""")
    assert moving() == 0
    page.prefer(prefers_reduced_motion="no-preference")
    page.wait(lambda: moving() > 0, "motion for everybody else")
