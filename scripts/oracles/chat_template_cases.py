"""Expressions, data of chat_template_oracle.py."""

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
