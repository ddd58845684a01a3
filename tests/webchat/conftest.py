"""The browser that all tests share, and a model of each test's own."""

import sys

import pytest

from fake_model import SOURCE_DIR, FakeModel

sys.path += [str(SOURCE_DIR / "tests/dashboard"), str(SOURCE_DIR / "tests/e2e")]

from browser import browser  # noqa: E402


@pytest.fixture(scope="session")
def chromium():
    with browser() as started:
        yield started


@pytest.fixture
def model():
    with FakeModel() as started:
        yield started


class Chat:
    """The page, as somebody who chats uses it."""

    def __init__(self, page, address):
        self.page = page
        self.open(address)

    def open(self, address, **size):
        self.page.open(address, **size)
        self.page.wait(lambda: self.page.text("#model"), "the name of the model")

    def type(self, text):
        self.page.js("const m = document.getElementById('message'); m.value = arguments[0]; m.focus()", text)

    def send(self, text):
        self.type(text)
        self.page.click("#send")

    def answers(self):
        return self.page.texts(".turn.assistant > .body")

    def await_end(self, number=1):
        """Until so many answers have ended, well or not."""
        ends = ".turn.assistant > .notes, .turn.assistant > .error"
        self.page.wait(lambda: self.page.js("return document.querySelectorAll(arguments[0]).length", ends) >= number,
                       f"the end of answer {number}")
        self.page.frames(2)


@pytest.fixture
def chat(chromium, model):
    chromium.prefer()
    yield Chat(chromium, model.address)
    chromium.driver.get("about:blank")
