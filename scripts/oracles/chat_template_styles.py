"""Whole templates, data of chat_template_oracle.py."""

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
