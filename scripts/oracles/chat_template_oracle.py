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

# Expressions are wrapped in {{ }}.
EXPRESSIONS = r"""
1 + 2 * 3
(1 + 2) * 3
7 // 2
-7 // 2
7 % 3
-7 % 3
7 % -3
7 / 2
6 / 2
2 ** 10
2 ** -1
2 ** 3 ** 2
-2 ** 2
1.5 + 1
1e3
1e20
1e-7
0.1 + 0.2
100000000000000000.0
7.0 // 2
-7.5 % 2
1 / 0
1 // 0
true + 1
- n
+n
not n
not not yes
n + text
'a' + 'b'
'a' ~ 1 ~ none ~ true ~ 1.0
'a' * 3
3 * 'ab'
'a' * -1
[1, 2] + [3]
[1] * 2
[1] + (2,)
(1, 2) + (3,)
(1,)
()
(1)
1, 2
[1, 'a', none, true, 2.5, [], {}]
{'a': 1, 'b': [1, {'c': 'd'}], 3: "it's"}
'it\'s "both"'
["it's", 'say "hi"', 'both \' "', 'tab\t', 'nl\n', 'back\\slash', '\x01\x7f', 'é\u00a0\u200b\U0001f600']
"adjacent " 'strings'
'\u00e9\x41\101\n|'
'unknown \q escape'
1 < 2 < 3
1 < 3 < 2
1 == 1.0
true == 1
'a' < 'b'
[1, 2] < [1, 3]
1 < 'a'
'a' == 1
[1, 2] == [1, 2]
[1, 2] == (1, 2)
{'a': 1} == {'a': 1.0}
none == none
missing == missing2
missing == none
n != 7
n in [1, 7]
n not in [1, 7]
'W' in text
'' in text
'role' in messages[0]
'x' in nested
1 in 'abc'
'a' in missing
3 in none
'yes' if n > 3 else 'no'
'yes' if n > 30
'yes' if n > 30 else 'mid' if n > 5 else 'no'
1 and 2
0 and 2
0 or 'x'
none or missing or []
n > 3 and text
missing
missing.x
missing['x']
missing()
messages.x
messages[0].x
messages[0]['x']
messages[0].role
messages[0]['role']
messages[-1].content
messages[10]
messages[10].x
messages['0']
nested.a.b[2].c
nested.a.b.1
nested['items']
nested.keys() | list
nested.values() | list
nested.get('a')
nested.get('x')
nested.get('x', 'dflt')
none.x
n.x
text.x
text[0]
text[-1]
text[7]
text[100]
text[1:4]
text[:5]
text[-3:]
text[::-1]
text[::2]
text[10:2]
text[100:]
list[::-1]
list[1:]
list[:-1]
list[-2:]
list[5:]
list[::0]
(1, 2, 3)[1:]
none[1:]
n[0]
list[true]
list['a']
text.upper()
text.lower()
text.title()
"they're bill's friends from the UK".title()
text.capitalize()
'ß'.upper()
spaced.strip() ~ '|'
spaced.lstrip() ~ '|'
spaced.rstrip() ~ '|'
'xxhixyx'.strip('xy')
'xxhixyx'.lstrip('x')
'xxhixyx'.rstrip('yx')
'\x1c\u00a0\u2003a\u200b\x85'.strip()
spaced.split()
'a,b,,c'.split(',')
'a,b,,c'.split(',', 1)
'a,b,,c'.rsplit(',', 1)
' a  b c '.split(none, 1)
''.split()
''.split(',')
'abc'.split('')
'a--b--c'.split('--')[-1]
'a\nb\r\nc\n'.splitlines()
'a\nb\r\nc\n'.splitlines(true)
messages[2].content.split('</think>')[-1].lstrip()
text.startswith('Gr')
text.startswith(('x', 'Gr'))
text.endswith('x')
'aaa'.replace('a', 'b', 2)
'abc'.replace('', '-')
'aXbX'.replace('X', '')
'abcabc'.find('c')
'äbcäbc'.rfind('c')
'abc'.find('x')
'banana'.count('an')
'abc'.count('')
'-'.join(words)
'-'.join([1, 2])
'123'.isdigit()
'12a'.isdigit()
'abc'.isalpha()
''.isalpha()
'ab1'.isalnum()
' \n'.isspace()
'ABC'.isupper()
'AbC'.islower()
'123'.isupper()
'TestCase'.removeprefix('Test')
'TestCase'.removesuffix('Case')
words.index('fig')
words.index('kiwi')
words.count('fig')
words.append('x')
nested.update({'x': 1})
text.nomethod()
n()
spaced | trim ~ '|'
'xxaxx' | trim('x')
none | trim
n | string + 'x'
text | length
list | length
nested | count
missing | length
n | length
text | upper
n | upper
words | join(', ')
words | join
[1, none, true] | join('-')
people | join(',', attribute='name')
text | first
list | last
[] | first
'' | last
text | replace('Welt', 'World')
missing | default('d')
none | default('d')
none | default('d', true)
'' | d('x', boolean=true)
missing | default
'12' | int
' 12 ' | int
'-7' | int
'12.9' | int
'abc' | int
'abc' | int(5)
'abc' | int(default=6)
f | int
none | int
'1.5' | float
'x' | float
n | float
'x' | list
nested | list
list | list
2.5 | round
3.5 | round
2.567 | round(2)
2.5 | round(0, 'ceil')
2.5 | round(method='floor')
-3 | abs
words | sort
words | sort(reverse=true)
words | sort(case_sensitive=true)
people | sort(attribute='name') | map(attribute='name') | list
[1, 'a'] | sort
list | reverse | list
'abc' | reverse
[1, 2, 1, 'A', 'a'] | unique | list
list | sum
people[:2] | sum(attribute='age')
list | min
list | max
words | max
[] | max
people | map(attribute='name') | list
people | map(attribute='age', default=0) | list
people | map(attribute='age') | list
words | map('upper') | list
words | map('replace', 'p', 'P') | join(' ')
people | selectattr('name', 'equalto', 'Ann') | list
people | selectattr('age', 'defined') | map(attribute='name') | join
people | rejectattr('age') | map(attribute='name') | list
messages | selectattr('role', 'equalto', 'user') | list | length
messages | selectattr('role', 'in', ['system', 'assistant']) | map(attribute='role') | join(' ')
list | select('odd') | list
list | reject('gt', 1) | list
[0, '', 'x'] | select | list
nested | items | list | length
{'b': 1, 'A': 2} | dictsort
{'b': 1, 'A': 2} | dictsort(by='value', reverse=true)
'a\n\nb' | indent
'a\nb\n' | indent(2, true)
'a\n\nb' | indent(width=2, blank=true)
'<a href="x">&\'</a>' | e
text | safe
text | nofilter
schema | tojson
schema | tojson(indent=2)
schema | tojson(indent=4) | length
text | tojson
text | tojson(ensure_ascii=true)
[1, 2] | tojson(separators=(',', ':'))
{'b': 1, 'a': [1]} | tojson(sort_keys=true, separators=(',', ':'))
[] | tojson(indent=2)
{} | tojson(indent=2)
'\x01\x7f\u2028\\"/\b\f' | tojson
1e16 | tojson
missing | tojson
{1: 2, true: 3, none: 4} | tojson
n is defined
missing is defined
missing is undefined
missing is not defined
messages[0].x is defined
missing.x is defined
none is none
n is not none
text is string
nested is mapping
list is iterable
text is iterable
n is iterable
list is sequence
n is number
true is number
f is float
n is integer
true is integer
yes is boolean
yes is true
n is true
n is odd
n is even
n is divisibleby 7
n is divisibleby(3)
n is equalto 7
n is eq(7)
n is in [1, 7]
n is gt 3
n is not gt 3
n is sameas 7
'a' is lower
'A' is upper
text.upper is callable
n is callable
n is nosuchtest
n is defined and text is string
not missing is defined
range(3) | list
range(1, 10, 3) | list
range(5, 0, -2) | list
range(0)  | list
range(1, 2, 0)
range(1000000)
dict(a=1, b='x')
namespace(a=1).a
raise_exception('no')
missing | upper ~ '|'
text | upper | lower | length
(n if yes else 0) + 1
{'a': {'b': 1}}['a']['b']
{'a': {'b': {}}}
[[1, 2], [3]][0][1]
messages | map(attribute='content') | map('trim') | join('|')
messages[0]['role'] == 'system' and messages | length > 1
messages | length - 1
messages[1:] | length
messages[::2] | map(attribute='role') | list
-1 | abs
1 if true
1 is
1 +
(1
[1
{'a' 1}
'open
'x' 1
a b
@
x is defined is true
f(1, a=2, 3)
range(a=1)
true | tojson
text | title
words | first | upper
"a" in ["a"] and not "b" in ["a"]
1 not in [2] == true
not 1 in [1]
'a' if 'b'
'x' | default('y') | upper
1_000
1.
.5
"multi
line"
true.x
true | string
none | string
[none] | string
f
-0.0
1e400
none is defined
'a' ~ ('b' if no else 'c')
'a' + 'b' if yes else 'c'
'a' ~ 'b' | upper
('a' ~ 'b') | upper
-n | abs
messages.0.role
'A'.lower() + 'b'.upper()
list | join(',') | length
(list | join(',')).split(',')
'x'.join(['a','b']) | length
""".strip("\n").split("\n")

# The case with a line break inside of a string is one case.
EXPRESSIONS = [e for e in EXPRESSIONS if e not in ('"multi', 'line"')] + ['"multi\nline"', '"multi\r\nline"']

TEMPLATES = [
    "", "plain", "a\n", "a\n\n", "\n", "a\r\nb\rc\n", "{{ 1 }}\n", "{{ 1 }}\n\n", "{ {{ '{' }} } {# c #} %} }} #}", "{", "a{", "{{", "{%",  "{{ 1 }", "{{ 1 %}",
    "{% if yes %}\n  x\n{% endif %}\ny", "  {% if yes %}  \n  x\n  {% endif %}  \n  y", "a {% if yes %} b {% endif %} c",
    "{%- if yes -%}  x  {%- endif -%}  y", "a \n {%- if yes %} x {% endif -%} \n y", "  {%+ if yes %}x{% endif %}", "{% if yes +%}\nx{% endif +%}\ny",
    "a\n   {{- 1 -}}  \n b", "a {{ 1 }} \n b", "a\n\t{# note #}\n b", "a {#- note -#} b", "a\n  {# note #}  \n b", "{#\nmany\nlines\n#}\nx", "a {#+ x +#}\nb", "{#-#}x",
    "x{% raw %}{{ no }} {% if %}{% endraw %}y", "  {% raw %}  a\n{% endraw %}\n b", "{%- raw -%}  a  {%- endraw -%}  b", "{% raw %}open", "{% raw -%}  {{ x }}  {%- endraw %} z",
    "\n{% if yes %}\n\n x\n\n{% endif %}\n\n", "{% if yes %}a{% else %}b{% endif %}", "{% if none %}a{% elif n == 7 %}b{% else %}c{% endif %}", "{% if missing %}a{% endif %}z",
    "{% if none %}a{% elif missing %}b{% elif 0 %}c{% else %}d{% endif %}", "{% if %}{% endif %}", "{% if 1 %}", "{% endif %}", "{% else %}", "{% nosuch %}", "{% if 1 %}{% endfor %}",
    "{% for x in list %}{{ x }},{% endfor %}", "{% for x in list -%}\n {{ x }}\n{%- endfor %}", "{% for x in [] %}a{% else %}none{% endfor %}", "{% for x in missing %}a{% else %}none{% endfor %}",
    "{% for x in none %}{% endfor %}", "{% for x in n %}{% endfor %}", "{% for c in 'añ😀' %}{{ c }}.{% endfor %}", "{% for k in nested %}{{ k }};{% endfor %}",
    "{% for k, v in nested.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k, v in nested | items %}{{ k }};{% endfor %}", "{% for (a, b) in [[1, 2], [3, 4]] %}{{ a + b }} {% endfor %}",
    "{% for a, b in [[1, 2, 3]] %}{% endfor %}", "{% for x in list if x > 1 %}{{ loop.index }}:{{ x }}/{{ loop.length }} {% endfor %}", "{% for x in list if x > 9 %}a{% else %}none{% endfor %}",
    "{% for x in list %}{{ loop.index0 }}{{ loop.index }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}|{% endfor %}",
    "{% for x in list %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {{ loop.previtem is defined }}{% endfor %}", "{% for x in list %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for x in list %}{% for y in list %}{{ loop.index }}{{ loop.depth }}{% endfor %}{{ loop.index }};{% endfor %}", "{{ loop }}", "{{ loop is defined }}",
    "{% for x in list %}{% set outer = loop %}{% for y in words %}{{ outer.index }}{% endfor %}{% endfor %}", "{% for x in list %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in list %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}", "{% break %}", "{% for x in list %}{{ x }}{% endfor %}{{ x }}", "{% for x in range(3) %}{{ x }}{% endfor %}",
    "{% set x = 1 %}{{ x }}", "{% set x = 1 %}{% for y in list %}{% set x = y %}{{ x }}{% endfor %}{{ x }}", "{% set x = 1 %}{% for y in list %}{{ x }}{% set x = x + 1 %}{{ x }} {% endfor %}{{ x }}",
    "{% if yes %}{% set x = 5 %}{% endif %}{{ x }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a, b = [1] %}", "{% set x = 1, 2 %}{{ x }}", "{% set x %}block {{ n }}{% endset %}[{{ x }}]", "{% set x %}{% set y = 1 %}{{ y }}{% endset %}{{ x }}{{ y }}",
    "{% set ns = namespace(found=false, n=0) %}{% for x in list %}{% set ns.n = ns.n + x %}{% if x == 1 %}{% set ns.found = true %}{% endif %}{% endfor %}{{ ns.n }}{{ ns.found }}",
    "{% set ns = namespace() %}{% set ns.x = 1 %}{{ ns.x }}{{ ns.y }}{{ ns['x'] }}", "{% set d = {'a': 1} %}{% set d.a = 2 %}", "{% set nons.x = 1 %}", "{% set x = namespace(a=[]) %}{% set x.a = x.a + [1] %}{{ x.a }}",
    "{% set messages = messages[1:] %}{{ messages | length }}", "{% set loop_messages = messages %}{% for m in loop_messages %}{{ m.role }} {% endfor %}", "{% set true = 1 %}", "{% set x = %}", "{% set %}",
    "{% macro f(a, b=2) %}[{{ a }}{{ b }}]{% endmacro %}{{ f(1) }}{{ f(1, 3) }}{{ f(b=4, a=5) }}{{ f() }}", "{% macro f() %}{{ n }}{{ x }}{% endmacro %}{% set x = 1 %}{{ f() }}", "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}",
    "{% macro f(a) %}{% if a > 0 %}{{ a }}{{ f(a - 1) }}{% endif %}{% endmacro %}{{ f(3) }}", "{% macro f(x) %}{% for i in x %}{{ i }}{% endfor %}{% endmacro %}{{ f(list) | length }}", "{%- macro f(x) -%}\n  {{ x }}\n{%- endmacro -%}\n{{ f(1) }}|",
    "{% macro f(c) %}{% set ns = namespace(s='') %}{% for p in c %}{% set ns.s = ns.s ~ p.name %}{% endfor %}{{ ns.s }}{% endmacro %}{{ f(people) }}",
    "{% generation %}x{% endgeneration %}y", "{% for m in messages %}{% generation %}{{ m.role }}{% endgeneration %}\n{% endfor %}",
    "{% include 'x' %}", "{% extends 'x' %}", "{% import 'x' as y %}", "{% do list.append(1) %}", "{{ raise_exception('bad') }}", "{% if n > 100 %}{{ raise_exception('bad') }}{% endif %}ok",
    "{{ '{{' }}{{ \"}}\" }}{{ '%}' }}", "{{ {'a': {'b': 2}}.a.b }}", "{{- 1 -}}", "{{+ 1 }}", "{{ 1 -}} \n 2", "{{-1}}", "{{ - 1 }}", "{% set x = 'a\n  b' %}{{ x }}", "a\n{%- set x = 1 %}\nb", "{%set x=1%}{%if x==1%}y{%endif%}",
    "  {{ 1 }}\n  {% set a = 1 %}\n  {{ 2 }}\n", "{{ messages[0]['content'] | trim + '!' }}", "{{ 'x' if messages[0]['role'] == 'system' else 'y' }}\n{% for m in messages[1:] %}{{ m['role'] }}\n{% endfor %}\n",
]  # fmt: skip

# In the manner of the models' templates: the same features, our own words.
CHATML = """{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] %}
    {%- set rest = messages[1:] %}
{%- else %}
    {%- set system_message = 'You help.' %}
    {%- set rest = messages %}
{%- endif %}
{{- '<|im_start|>system\\n' + system_message + '<|im_end|>\\n' }}
{%- if tools %}
    {{- "# Tools\\n" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
{%- endif %}
{%- for message in rest %}
    {%- if (message.role == "user") or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}
            {{- '\\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' }}
            {{- tool_call.name }}
            {{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (rest[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
        {%- if loop.last or (rest[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

HEADERS = """{{- bos_token }}
{%- if custom_tools is defined %}{% set tools = custom_tools %}{% endif %}
{%- if not date_string is defined %}{%- set date_string = "26 Jul 2024" %}{%- endif %}
{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{#- The system message, so it goes first -#}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}{{- "Environment: tools\\n" }}{%- endif %}
{{- "Today: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}{{- raise_exception("one tool call at a time") }}{%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '{"name": "' + tool_call.name + '", "parameters": ' }}{{- tool_call.arguments | tojson }}{{- "}" }}{{- "<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}{{- message.content | tojson }}{%- else %}{{- message.content }}{%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

TURNS = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '\n\n' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '\n\n' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("roles must alternate user/assistant/user/assistant/...") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}{%- set role = "model" -%}{%- else -%}{%- set role = message['role'] -%}{%- endif -%}
    {{ '<start_of_turn>' + role + '\n' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}{{ '<image>' }}{%- elif item['type'] == 'text' -%}{{ item['text'] | trim }}{%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}
"""

INSTRUCTIONS = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the optional system message, roles must alternate") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"] + eos_token}}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported") }}
    {%- endif %}
{%- endfor %}
"""

REASONING = """{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}{%- set content = message.content %}{%- else %}{%- set content = '' %}{%- endif %}
    {%- if message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + content }}
    {%- endif %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}
"""

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
