"""Streams that end, fail, come again or wait."""

from made_up import history, request, snapshot


def test_a_router_that_goes_is_called_stale_and_found_again(page, router, loaded):
    loaded([snapshot(headline={"running": 5})], [request()])
    page.wait_text("#status", "Serving")
    router.refuses_with = 503
    router.drop()
    page.wait(lambda: page.js("return document.body.classList.contains('stale')"), "that the page calls itself stale")
    page.wait_text("#notice", "What you see is out of date.")
    assert page.text("#status").startswith("Stale: ") and page.visible("#notice")
    page.wait_text("#notice", "The router has as many viewers as it serves.")
    # The numbers are still there, and faint.
    assert page.text("#tile-running .value") == "5"
    assert float(page.js("return getComputedStyle(document.querySelector('#tile-running .value')).opacity")) < 0.6
    tries = router.paths.count("/events")
    assert 2 <= tries <= 6, "it backs off"
    router.history = history([snapshot(headline={"running": 6})], [request(), request(), request()])
    router.refuses_with = None
    # A network that is back is a reason not to wait any longer.
    page.js("dispatchEvent(new Event('online'))")
    page.wait_text("#tile-running .value", "6")
    page.wait(lambda: page.text("#status").startswith("Serving"), "that it serves")
    assert not page.visible("#notice")
    # What the router remembers replaces what the page knew.
    assert page.sizes()["requests"] == 3


def test_a_stream_that_is_not_json_is_left_and_opened_again(page, router, loaded):
    loaded()
    router.await_viewer(1)
    router.publish_raw("event: snapshot\ndata: {nonsense\n\n")
    router.await_viewer(2)
    router.publish("snapshot", snapshot(headline={"running": 8}))
    page.wait_text("#tile-running .value", "8")


def test_what_comes_while_paused_is_bounded_and_a_new_stream_replaces_it(page, router, loaded):
    loaded(requests=[request()])
    page.click("#pause")
    for _ in range(4):
        router.publish("requests", [request() for _ in range(3_000)])
    page.wait_text("#status", "12,000 requests held")
    assert page.sizes()["held"] <= 10_300 and page.sizes()["requests"] == 1
    page.click("#pause")
    assert page.sizes()["requests"] == 10_000
    page.click("#pause")
    router.history = history([snapshot()], [request(), request()])
    router.drop()
    router.await_viewer(2)
    page.wait(lambda: page.sizes()["held"] == 0, "a new stream")
    page.click("#pause")
    page.wait(lambda: page.sizes()["requests"] == 2, "what the router remembers now")


def test_the_page_works_below_the_path_of_a_proxy(page, router):
    router.history = history([snapshot(headline={"running": 3})], [request()])
    router.prefix = "/api/v1/namespaces/baton/services/router:admin/proxy"
    page.open(f"{router.address}{router.prefix}")
    page.wait(lambda: page.js("return window.batonDebug?.framesDrawn() ?? 0"), "a drawn frame")
    page.wait_text("#tile-running .value", "3")
