"""The web chat does what somebody who chats expects."""

import pytest
from selenium.webdriver.common.keys import Keys

from cluster import Cluster
from http_api import post
from injected import inject


def test_an_answer_streams_and_shows_where_its_time_went(chat, model):
    chat.send("Hello?")
    model.pieces.put("Hel")
    chat.page.wait(lambda: chat.answers() == ["Hel"], "the first piece")
    assert chat.page.visible("#stop") and not chat.page.visible("#send")
    model.pieces.put("lo.")
    model.pieces.put(None)
    chat.await_end()
    assert chat.answers() == ["Hello."] and chat.page.texts(".turn.user > .body") == ["Hello?"]
    assert not chat.page.visible("#stop") and chat.page.visible("#send")
    notes = chat.page.text(".turn.assistant .notes")
    # The first token is no work of decode, which took 59 ms.
    assert "2 tokens" in notes and "16.9 tokens/s" in notes
    assert chat.page.texts(".legend li") == ["queue 1.0 ms", "admission 2.0 ms", "prefill 30 ms", "transfer 7.0 ms",
                                             "decode 59 ms", "network 1.0 ms"]
    widths = chat.page.js("return [...document.querySelectorAll('.phases rect')].map((r) => Number(r.getAttribute('width')))")
    assert widths == pytest.approx([10, 20, 300, 70, 590, 10])
    assert chat.page.console() == []


def test_stop_ends_the_answer_and_the_chat_goes_on(chat, model):
    chat.send("Count.")
    model.pieces.put("1 2")
    chat.page.wait(lambda: chat.answers() == ["1 2"], "the first piece")
    chat.page.click("#stop")
    chat.await_end()

    def has_left():
        # A server finds out that its reader is gone by writing to it.
        model.pieces.put(" 3")
        return model.left.is_set()

    chat.page.wait(has_left, "the end of the connection")
    while not model.pieces.empty():
        model.pieces.get()
    assert chat.answers() == ["1 2"]
    model.say("Yes.")
    chat.send("Go on?")
    chat.await_end(2)
    assert model.requests[-1]["messages"] == [{"role": "user", "content": "Count."},
                                              {"role": "assistant", "content": "1 2"},
                                              {"role": "user", "content": "Go on?"}]


def test_settings_are_sent_and_what_is_left_empty_is_not(chat, model):
    model.say("a")
    chat.send("x")
    chat.await_end()
    assert set(model.requests[0]) == {"messages", "stream", "return_phases", "stream_options"}
    assert "Authorization" not in model.headers[0]
    chat.page.click("#settings summary")
    for field, value in {"system": "Be brief.", "temperature": "0.5", "top_p": "0.9", "max_tokens": "7", "seed": "3",
                         "key": "secret"}.items():
        chat.page.find(f"#{field}").send_keys(value)
    model.say("b")
    chat.send("y")
    chat.await_end(2)
    asked = model.requests[1]
    assert (asked["temperature"], asked["top_p"], asked["max_tokens"], asked["seed"]) == (0.5, 0.9, 7, 3)
    assert asked["messages"][0] == {"role": "system", "content": "Be brief."} and len(asked["messages"]) == 4
    assert model.headers[1]["Authorization"] == "Bearer secret"
    # The key is nowhere but in its field.
    assert chat.page.js("return JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])").find("secret") < 0


def test_enter_sends_and_shift_enter_begins_a_line(chat, model):
    model.say("ok")
    message = chat.page.find("#message")
    message.send_keys("one", Keys.SHIFT + Keys.ENTER)
    message.send_keys("two")
    assert message.get_attribute("value") == "one\ntwo"
    message.send_keys(Keys.ENTER)
    chat.await_end()
    assert model.requests[0]["messages"] == [{"role": "user", "content": "one\ntwo"}]


def test_an_error_costs_one_turn(chat, model):
    model.say("fine")
    chat.send("first")
    chat.await_end()
    model.refuse(429, "too much waits")
    chat.send("second")
    chat.await_end(2)
    assert chat.page.text(".turn .error") == "too much waits"
    assert chat.page.js("return document.getElementById('message').value") == "second"
    model.say("half", RuntimeError("a worker died"))
    chat.send("third")
    chat.await_end(3)
    assert chat.page.texts(".turn .error")[-1] == "a worker died" and chat.answers()[-1] == "half"
    model.say("good")
    chat.send("fourth")
    chat.await_end(4)
    assert [one["content"] for one in model.requests[-1]["messages"]] == ["first", "fine", "fourth"]


def test_the_oldest_messages_can_be_left_out(chat, model):
    for number in range(2):
        model.say(f"answer {number}")
        chat.send(f"question {number}")
        chat.await_end(number + 1)
    model.refuse(400, "the prompt is longer than the context")
    chat.send("question 2")
    chat.await_end(3)
    model.say("answer 2")
    chat.page.js("[...document.querySelectorAll('.turn button')].find((b) => b.textContent.startsWith('Leave out')).click()")
    chat.await_end(4)
    assert [one["content"] for one in model.requests[-1]["messages"]] == ["question 1", "answer 1", "question 2"]


def test_a_new_chat_knows_nothing_of_the_old_one_also_in_the_middle_of_an_answer(chat, model):
    chat.send("old")
    model.pieces.put("never ends")
    chat.page.wait(lambda: chat.answers() == ["never ends"], "the first piece")
    chat.page.click("#new")
    assert chat.page.js("return document.querySelectorAll('.turn').length") == 0 and chat.page.visible("#welcome")
    model.say("hi")
    chat.send("new")
    chat.await_end()
    assert chat.answers() == ["hi"]
    assert model.requests[-1]["messages"] == [{"role": "user", "content": "new"}]


def test_an_answer_is_copied_as_it_was_written(chat, model):
    chat.page.cdp("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    model.say("**bold**\n", "\n- one")
    chat.send("x")
    chat.await_end()
    chat.page.click(".notes button")
    chat.page.wait_text(".notes button", "Copied")
    text = chat.page.driver.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
    assert text == "**bold**\n\n- one"


def test_dark_and_light_follow_the_system_until_somebody_chooses(chat, model):
    ground = lambda: chat.page.js("return getComputedStyle(document.body).backgroundColor")
    dark, light = "rgb(12, 15, 20)", "rgb(244, 243, 239)"
    chat.page.prefer(prefers_color_scheme="dark")
    chat.open(model.address)
    assert ground() == dark and chat.page.text("#theme") == "Light"
    chat.page.click("#theme")
    assert ground() == light
    chat.open(model.address)
    assert ground() == light, "the choice is remembered"


def test_a_phone_shows_all_without_scrolling_sideways(chat, model):
    chat.open(model.address, width=360, height=640, phone=True)
    model.say("w" * 300, "\n\n```python\n" + "x = 1  # " + "y" * 200 + "\n```\n")
    chat.send("q" * 200)
    chat.await_end()
    chat.page.click("#settings summary")
    assert chat.page.js("return document.documentElement.scrollWidth") <= 360
    assert all(chat.page.visible(one) for one in ("#message", "#send", "#temperature", "#new"))


def test_a_real_cluster_answers(chromium, chat):
    with Cluster("--prefill", 1, "--decode", 1, "--threads", 1) as cluster:
        chat.open(cluster.http)
        assert chromium.text("#model") == "smollm2-135m-instruct"
        chromium.js("document.getElementById('max_tokens').value = 24; document.getElementById('temperature').value = 0")
        question = "What is the capital of France?"
        chat.send(question)
        chat.await_end()
        asked = {"messages": [{"role": "user", "content": question}], "max_tokens": 24, "temperature": 0}
        _, _, answer = post(cluster, "/v1/chat/completions", asked)
        assert chat.answers() == [answer["choices"][0]["message"]["content"].strip()]
        assert [text.split()[0] for text in chromium.texts(".legend li")] == ["queue", "admission", "prefill", "transfer",
                                                                              "decode", "network"]
        assert "tokens/s" in chromium.text(".notes")
        assert chromium.console() == []
        assert all(url.startswith((f"http://{cluster.http}/", "data:", "about:")) for url in chromium.requested_urls())
        inject(chromium)
