#!/usr/bin/env python3
"""Writes tests/data/tokenizer/template_cases.json: what transformers' Jinja environment makes of many small templates.

    python chat_template_oracle.py tests/data/tokenizer/template_cases.json

Needs: transformers, jinja2. Each case is a template and its variables with the text, or null where rendering fails.

Left out is what Baton means to do otherwise: it refuses integers beyond 64 bits, other bases, printf's %, the attributes
of Python's numbers and a comment that never ends, and does not print functions and views as Python does.
"""

import json
import sys

import jinja2
from chat_template_cases import EXPRESSIONS
from chat_template_styles import CHATML, HEADERS, INSTRUCTIONS, REASONING, TEMPLATES, TURNS
from transformers.utils.chat_template_utils import _compile_jinja_template

VARIABLES = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "  Hi there \n"},
        {"role": "assistant", "content": "Hello! <think>hm</think> fine"},
        {"role": "user", "content": "Bye"},
    ],
    "bos_token": "<s>",
    "eos_token": "</s>",
    "add_generation_prompt": True,
    "tools": None,
    "n": 7,
    "f": 2.5,
    "text": "Grüße, Welt! \u4f60\u597d \U0001f600",
    "spaced": " \t x y  z \n",
    "empty": "",
    "none": None,
    "yes": True,
    "list": [3, 1, 2],
    "words": ["pear", "Apple", "fig"],
    "nested": {"a": {"b": [10, 20, {"c": "deep"}]}, "items": "shadowed", "z": None},
    "people": [{"name": "Ann", "age": 30}, {"name": "bob", "age": 25}, {"name": "Cy"}],
    "schema": {"type": "object", "properties": {"q": {"type": "string", "description": "a \"q\" <é>"}}, "n": [1, 2.0, None, True]},
}

TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "The weather \u00e9", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]
CALL = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "get_weather", "arguments": {"city": "K\u00f6ln", "days": 2}}}]}

CHATS = [
    {"messages": [{"role": "user", "content": " Hi "}]},
    {"messages": VARIABLES["messages"]},
    {"messages": VARIABLES["messages"], "add_generation_prompt": False, "enable_thinking": False},
    {"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]},
    {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "w?"}, CALL, {"role": "tool", "content": "{\"t\": 20}"}, {"role": "tool", "content": "x"}, {"role": "assistant", "content": "<think>\nlong\n</think>\n\n20"}], "tools": TOOLS},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": " look "}, {"type": "image"}]}], "enable_thinking": False},
    {"messages": []},
    {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "reasoning_content": "\nr\n"}], "add_generation_prompt": False, "date_string": "1 Jan 2025"},
]  # fmt: skip


def render(template, variables):
    try:
        return _compile_jinja_template(template).render(**variables)
    except (jinja2.exceptions.TemplateError, TypeError, ValueError, ZeroDivisionError, OverflowError, AttributeError, KeyError, SyntaxError):
        return None


def main():
    cases = []
    for template in ["{{ " + e + " }}" for e in EXPRESSIONS] + TEMPLATES:
        cases.append({"template": template, "text": render(template, VARIABLES)})
    for template in [CHATML, HEADERS, TURNS, INSTRUCTIONS, REASONING]:
        for chat in CHATS:
            variables = {"add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>", "tools": None, **chat}
            cases.append({"template": template, "variables": variables, "text": render(template, variables)})
    about = "transformers' Jinja environment; made by scripts/oracles/chat_template_oracle.py"
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        json.dump({"about": about, "variables": VARIABLES, "cases": cases}, out, ensure_ascii=False, indent=0)
        out.write("\n")
    print(len(cases), "cases,", sum(c["text"] is None for c in cases), "of them errors")


if __name__ == "__main__":
    main()
