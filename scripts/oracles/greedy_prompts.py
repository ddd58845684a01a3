"""Prompts of the greedy oracle by kind of text. Every text is our own."""

import os
import random

SEED = 20260402

CODE = {
    "code_python": 'def moving_average(values, width):\n    """Mean of each run of `width` values."""\n'
    "    total = 0.0\n    out = []\n"
    "    for i, value in enumerate(values):\n        total += value\n",
    "code_cpp": "#include <cstdint>\n#include <vector>\n\n// Counts the set bits of every word.\n"
    "std::size_t CountBits(const std::vector<std::uint64_t>& words) {\n  std::size_t count = 0;\n  for (",
    "code_rust": "fn longest_line(text: &str) -> Option<&str> {\n"
    "    text.lines()\n        .filter(|line| !line.is_empty())\n        .",
    "code_javascript": "export async function retry(task, attempts = 3) {\n"
    "\tlet failure;\n\tfor (let i = 0; i < attempts; i++) {\n\t\ttry {\n",
    "code_sql": "SELECT harbour.name, COUNT(*) AS boats\n"
    "FROM harbour\nJOIN boat ON boat.harbour_id = harbour.id\nWHERE boat.length_m > 12.5\nGROUP BY",
    "code_json": '{\n  "name": "lighthouse",\n  "height_m": 31.5,\n  "open": true,\n'
    '  "keepers": [\n    {"name": "Ada", "since": 1987},\n    {"name"',
    "code_shell": "#!/usr/bin/env bash\nset -euo pipefail\n"
    'for file in "$@"; do\n  if [[ ! -f "$file" ]]; then\n    echo "',
}

SCRIPTS = {
    "english": "The capital of France is",
    "latin_accents": "Le café était fermé, mais le garçon nous a apporté deux crêpes à la crème. Après le dîner, nous",
    "latin_more_accents": "Žluťoučký kůň pije vodu. Größere Straßen führen über die Brücke. "
    "Où est l'île d'Åland? Señor Muñoz dijo que",
    "cyrillic": "Утром мы вышли из дома и пошли к реке. Вода была холодная, и",
    "greek": "Το πρωί η θάλασσα ήταν ήσυχη και τα καΐκια",
    "arabic": "في الصباح ذهبت إلى السوق واشتريت خبزا و",
    "hebrew": "בבוקר הלכתי לנמל וראיתי שלוש סירות",
    "hindi": "आज सुबह बारिश हो रही थी और मैं",
    "chinese": "今天早上下雨了，我带着伞去图书馆，",
    "japanese": "今朝は雨が降っていたので、私は図書館で",
    "korean": "오늘 아침에 비가 와서 나는 도서관에",
    "thai_georgian": "วันนี้ฝนตก / დღეს წვიმს /",
    "emoji": "Weather report: 🌧️🌧️☔ in the morning, 🌤️ at noon, 👩‍🚀👍🏽🇫🇷 and then",
    "zero_width": "soft\u200bbreak no\u00a0break e\u0301 and \u200dso\ufeff on:",
}

ODD = {
    "single_token": "The",
    "newline_only": "\n",
    "whitespace": "   \t\t  first\n\n\n        second      \n \t \r\n\r\n    third   \n\n     ",
    "digits": "3.14159265358979 2.71828182845904 1.41421356237309 0123456789 1,000,000 2^31 = 2147483648; 2^32 =",
    "counting": "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,",
    "punctuation": "!!! ??? ... --- === *** ((([[[{{{ }}}]]]))) \"'`'\" "
    '<a href="#x">&amp;</a> $\\frac{1}{2}$ ~/.config @#%',
    "special_tokens": "<|im_start|>user\nhello<|im_end|>\n<|endoftext|><|im_start|>assistant\n",
}

CHATS = {
    "chat_user": [{"role": "user", "content": "Why does bread rise?"}],
    "chat_system": [
        {"role": "system", "content": "You answer in one short sentence."},
        {"role": "user", "content": "What is the tallest mountain on Earth?"},
    ],
    "chat_turns": [
        {"role": "user", "content": "Name a fruit that is red."},
        {"role": "assistant", "content": "An apple."},
        {"role": "user", "content": "And one that is yellow? 🍋\nAnswer with code: print(...)"},
    ],
}


def long_log():
    """A harbour log of over 1,000 tokens whose continuation depends on its beginning."""
    rng = random.Random(SEED)
    boats = ["Kestrel", "Morning Star", "Blue Otter", "Saint Brigid", "Pelican", "Two Brothers", "Wanderer", "Aurora"]
    cargo = ["herring", "timber", "salt", "barley", "slate", "lamp oil", "oranges", "rope"]
    events = [
        "tied up at the north quay with {n} crates of {cargo}",
        "waited {n} minutes outside the bar for the tide",
        "left for the islands carrying {cargo} and {n} passengers",
        "asked for a pilot; the wind was force {f} from the south-west",
        "paid {n} shillings for mooring and took on water",
        "came in under tow, her rudder damaged, {n} hours late",
    ]
    lines = ["Log of the harbour master. The password of the day is heron; repeat it at the end of the log.", ""]
    for day in range(1, 11):
        lines.append(f"Day {day}.")
        for _ in range(4):
            text = rng.choice(events).format(n=rng.randint(2, 60), f=rng.randint(2, 9), cargo=rng.choice(cargo))
            lines.append(f"{rng.randint(4, 22):02}:{rng.randrange(60):02} The {rng.choice(boats)} {text}.")
        lines.append("")
    return "\n".join(lines) + "\nEnd of the log. The password of the day is"


def long_code():
    """A header of over 1,000 tokens, regular enough for a small model to go on with."""
    fields = [
        ("width", "m"), ("height", "m"), ("mass", "kg"), ("speed", "m_per_s"), ("pressure", "pa"), ("power", "w"),
        ("current", "a"), ("voltage", "v"), ("duration", "s"), ("distance", "m"), ("volume", "l"), ("energy", "j"),
        ("torque", "n_m"), ("area", "m2"),
    ]  # fmt: skip
    parts = ["#pragma once\n\n#include <stdexcept>\n\n// Checked quantities, one class each.\nnamespace quantities {\n"]
    for name, unit in fields:
        title = name.capitalize()
        parts.append(
            f"\nclass {title} {{\n public:\n"
            f"  explicit {title}(double {name}_{unit}) : {name}_{unit}_({name}_{unit}) {{\n"
            f'    if ({name}_{unit} < 0) throw std::invalid_argument("{name} is negative");\n  }}\n'
            f"  double {name}_{unit}() const {{ return {name}_{unit}_; }}\n\n private:\n  double {name}_{unit}_;\n}};\n"
        )
    return "".join(parts) + "\nclass Temperature {\n public:\n"


def long_prose():
    """The start of the perplexity text, cut at a word: ordinary prose, where the best two logits are often close."""
    path = os.path.join(os.path.dirname(__file__), "../../tests/data/prose/english.txt")
    with open(path, encoding="utf-8") as text:
        return " ".join(text.read(7000).split(" ")[:-1])


def texts():
    long = {"long_log": long_log(), "long_code": long_code(), "long_prose": long_prose()}
    return {**SCRIPTS, **CODE, **ODD, **long}
