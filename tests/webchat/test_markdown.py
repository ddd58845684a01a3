"""What a model says is shown as Markdown, and whatever it says runs nothing and asks nobody."""

import pytest

from fake_model import PAGE_DIR, WEB_DIR
from injected import inject

MARKDOWN = """# Title
A **bold** and *slanted* _word_, `a < b`, snake_case_name and a [link](https://example.com/a?b=1).

- one
- **two**

3. three
4. four

> quoted
> on

```cpp
if (a < b && c) **not bold**;
```
---
2 * 3 * 4 = 24"""


def html(chat):
    return chat.page.js("return document.querySelector('.turn.assistant > .body').innerHTML")


def shown_of(chat, model, text):
    """What becomes of the page's only answer."""
    model.say(text)
    chat.send("x")
    chat.await_end()
    return html(chat)


def test_markdown_is_shown(chat, model):
    shown = shown_of(chat, model, MARKDOWN)
    for part in ("<h3>Title</h3>", "<strong>bold</strong>", "<em>slanted</em>", "<em>word</em>", "<code>a &lt; b</code>",
                 "snake_case_name", "<ul><li>one</li><li><strong>two</strong></li></ul>",
                 '<ol start="3"><li>three</li><li>four</li></ol>', "<blockquote><p>quoted\non</p></blockquote>",
                 '<pre><code data-language="cpp">if (a &lt; b &amp;&amp; c) **not bold**;</code></pre><hr>',
                 "<p>2 * 3 * 4 = 24</p>"):
        assert part in shown, part
    assert 'href="https://example.com/a?b=1"' in shown and 'rel="noopener noreferrer nofollow"' in shown


NESTED = """1. First, of two paragraphs:

   the second
   - a
     - b **c**

       ```
       code
       ```
     1. d
   - e
2. Last

> - quoted
> - twice
"""


def test_a_list_may_hold_lists_and_code(chat, model):
    assert shown_of(chat, model, NESTED) == (
        '<ol start="1"><li>First, of two paragraphs:<p>the second</p><ul><li>a<ul><li>b <strong>c</strong>'
        '<pre><code>code</code></pre></li></ul><ol start="1"><li>d</li></ol></li><li>e</li></ul></li><li>Last</li></ol>'
        "<blockquote><ul><li>quoted</li><li>twice</li></ul></blockquote>")


TABLE = """They are:
| name | size | of it |
|:-----|----:|:-:|
| `a` | 1 | x \\| y |
| <b> | **2** |

a | b
no rule"""


def test_a_table_is_shown(chat, model):
    assert shown_of(chat, model, TABLE) == (
        '<p>They are:</p><table><thead><tr><th>name</th><th data-align="right">size</th><th data-align="center">of it</th>'
        '</tr></thead><tbody><tr><td><code>a</code></td><td data-align="right">1</td><td data-align="center">x | y</td></tr>'
        '<tr><td>&lt;b&gt;</td><td data-align="right"><strong>2</strong></td></tr></tbody></table><p>a | b\nno rule</p>')


@pytest.mark.parametrize("text", ["- " * 20000 + "a", "> " * 20000 + "a", "|a" * 20000 + "\n" + "|-" * 20000 + "\n|b|",
                                  "\n".join("  " * i + "- a" for i in range(300))],
                         ids=["lists", "quotations", "columns", "deeper and deeper"])
def test_what_is_nested_without_end_is_shown_and_the_page_answers_on(chat, model, text):
    model.say(text)
    chat.send("x")
    chat.await_end()
    model.say("fine")
    chat.send("y")
    chat.await_end()
    assert chat.answers()[-1] == "fine"


def test_a_block_of_code_that_is_not_closed_yet_is_code(chat, model):
    chat.send("x")
    model.pieces.put("```\nfirst\n")
    chat.page.wait(lambda: "<pre><code>first" in html(chat), "the code")
    model.pieces.put("```\nafter")
    model.pieces.put(None)
    chat.await_end()
    assert html(chat) == "<pre><code>first</code></pre><p>after</p>"


PAYLOADS = (
    "<script>window.ran=1</script>",
    "<img src=x onerror=window.ran=1>",
    '"><svg onload=window.ran=1>',
    "<iframe srcdoc='<script>parent.ran=1</script>'></iframe>",
    "<a href='javascript:window.ran=1'>x</a>",
    "[x](javascript:window.ran=1)",
    "[x](JaVaScRiPt:window.ran=1)",
    "[x](data:text/html,<script>window.ran=1</script>)",
    "[x](vbscript:x)",
    "[x](//192.0.2.1/path)",
    "![x](https://192.0.2.1/pixel.png)",
    "[<img src=x onerror=window.ran=1>](https://192.0.2.1/)",
    "`<script>window.ran=1</script>`",
    "```html\n<script>window.ran=1</script>\n```",
    "```\"onload=window.ran=1\nx\n```",
    "# <script>window.ran=1</script>",
    "- <img src=x onerror=window.ran=1>",
    "> <style>body{display:none}</style>",
    "| <img src=x onerror=window.ran=1> |\n|:-:|\n| [x](javascript:window.ran=1) <script>window.ran=1</script> |",
    "- a\n  - <svg onload=window.ran=1>\n    > <iframe src=//192.0.2.1/>",
    "<meta http-equiv=refresh content='0;url=https://192.0.2.1/'>",
    "<form action=https://192.0.2.1/><input name=x autofocus onfocus=window.ran=1></form>",
    "&lt;script&gt;window.ran=1&lt;/script&gt;",
    "__proto__ constructor {{7*7}} ${window.ran=1}",
    "\u202egnorw \u0000 \u0007 \ufeff",
    "**" * 2000 + "x",
    "_a " * 1500 + "*b " * 1500,
    "[" * 3000 + "](" * 2000,
    "> " * 2000,
    "- " * 2000,
    "`" * 3999,
    "#" * 4000,
)
ALLOWED = set("""a article blockquote body button code details div em form h1 h2 h3 h4 h5 h6 head header hr html input label
                 li link main meta noscript ol p pre rect script span strong summary svg table tbody td textarea th thead
                 title tr ul""".split())


@pytest.mark.parametrize("size", [10**9, 1], ids=["at once", "in pieces"])
def test_hostile_answers_stay_words(chat, model, size):
    for number, payload in enumerate(PAYLOADS, 1):
        step = max(1, min(size * (len(payload) // 40 + 1), len(payload)))
        model.say(*(payload[i:i + step] for i in range(0, len(payload), step)))
        chat.send(payload[:200])
        chat.await_end(number)
        assert chat.page.js("return window.ran") is None, payload
    kinds = chat.page.js("return [...new Set([...document.querySelectorAll('*')].map((e) => e.tagName.toLowerCase()))]")
    assert set(kinds) <= ALLOWED, set(kinds) - ALLOWED
    assert chat.page.js("return document.scripts.length") == 2
    links = chat.page.js("return [...document.querySelectorAll('.turn a')].map((a) => a.getAttribute('href'))")
    assert set(links) == {"https://192.0.2.1/", "https://192.0.2.1/pixel.png"}
    assert all(url.startswith((f"http://{model.address}/", "data:")) for url in chat.page.requested_urls())
    assert chat.page.console() == []


def test_the_policy_stops_what_would_run_all_the_same(chat, model):
    """If Markdown ever made markup of it. The page answers on."""
    inject(chat.page)
    model.say("fine")
    chat.send("x")
    chat.await_end()
    assert chat.answers() == ["fine"] and chat.page.visible("#message")


def test_no_file_of_the_page_makes_markup_of_text():
    for file in sorted([*PAGE_DIR.glob("*.js"), *WEB_DIR.glob("*.js")]):
        text = file.read_text()
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
            assert word not in text, (file.name, word)
