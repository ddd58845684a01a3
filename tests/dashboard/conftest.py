"""The browser that all tests share, and a router of each test's own."""

import sys

import pytest

from browser import browser
from fake_events import SOURCE_DIR, FakeRouter
from made_up import history, snapshot

sys.path.insert(0, str(SOURCE_DIR / "tests/e2e"))


@pytest.fixture(scope="session")
def chromium():
    with browser() as started:
        yield started


@pytest.fixture
def router():
    with FakeRouter() as started:
        yield started


@pytest.fixture
def page(chromium):
    """The browser as a new visitor has it: nothing remembered, no preference, a desk's width."""
    chromium.prefer()
    yield chromium
    # The storage belongs to the address, and every router has another one. Leaving ends the stream.
    chromium.driver.get("about:blank")


@pytest.fixture
def loaded(page, router):
    """loaded(snapshots, requests, **size): opens the page with this history and waits until it is drawn."""

    def load(snapshots=None, requests=(), **size):
        router.history = history([snapshot()] if snapshots is None else snapshots, requests)
        page.open(router.address, **size)
        page.wait(lambda: page.js("return window.batonDebug?.framesDrawn() ?? 0"), "a drawn frame")

    return load
