#!/usr/bin/env python3
"""Writes tests/data/tokenizer/*.json: what the `tokenizers` and `transformers` libraries say about a GGUF model.

    python tokenizer_oracle.py SMOLLM2.gguf tests/data/tokenizer/oracle.json
    python tokenizer_oracle.py GEMMA3.gguf tests/data/tokenizer/gemma_oracle.json
    python tokenizer_oracle.py --classes      prints the character classes of the library as ranges

Needs: tokenizers, transformers, jinja2, gguf, numpy. The tokenizer is built from the GGUF's metadata alone. For byte-level
BPE that is done here, with the pre-tokenizer of SmolLM2's tokenizer.json: Digits, then ByteLevel. For SentencePiece-style
BPE transformers does it. The same seed gives the same file.
"""

import json
import os
import random
import sys
import unicodedata

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

SEED = 20260401
STRINGS = 2000
CONTROL, USER_DEFINED, BYTE = 3, 4, 6

# Patterns of other families, as their tokenizer.json files state them; they check the table's rows.
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)

BLOCKS = [
    (0x20, 0x7E), (0x00, 0x1F), (0x7F, 0xFF), (0x100, 0x24F), (0x250, 0x36F), (0x370, 0x3FF), (0x400, 0x52F),
    (0x530, 0x5FF), (0x600, 0x6FF), (0x700, 0x8FF), (0x900, 0xDFF), (0xE00, 0xFFF), (0x1000, 0x13FF),
    (0x1400, 0x17FF), (0x1800, 0x1DFF), (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x218F), (0x2190, 0x23FF),
    (0x2400, 0x27BF), (0x2800, 0x2BFF), (0x2C00, 0x2FFF), (0x3000, 0x30FF), (0x3100, 0x33FF), (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF), (0xA000, 0xABFF), (0xAC00, 0xD7FF), (0xE000, 0xE0FF), (0xF900, 0xFAFF), (0xFB00, 0xFDFF),
    (0xFE00, 0xFEFF), (0xFF00, 0xFFFF), (0x10000, 0x10FFF), (0x11000, 0x11FFF), (0x12000, 0x143FF),
    (0x16000, 0x16FFF), (0x1B000, 0x1CFFF), (0x1D000, 0x1DFFF), (0x1E000, 0x1EFFF), (0x1F000, 0x1FAFF),
    (0x20000, 0x2A6DF), (0x2EBF0, 0x323AF), (0xE0000, 0xE01EF), (0x10FFF0, 0x10FFFF),
]  # fmt: skip

TRAPS = [
    "", " ", "  ", "   a", "a   ", "a  b   c    d", "\t", "\t\ta", " \t \n", "\n", "\n\n\n", "\r\n", "a\r\nb", "\r\n\r\n  x",
    "\r", "a\rb", "  \n  \n  ", "x \n y", "\x0b\x0c", "tab\tend\t", "trailing space ", " leading", "\u00a0", "a\u00a0b",
    "\u00a0\u00a0x", "\u2003x", "x\u2009y", "\u3000\u5168\u89d2", "\u1680", "\u180e", "a\u180eb", " \u180e ", "\u200b", "a\u200bb",
    "\u200c\u200d", "\ufeffbom", "mid\ufeffbom", "\u2028line", "para\u2029", "\u0085next", "a\u0085 b", "\x00", "a\x00b", "\x01\x02\x03",
    "\x7f", "\x1b[31mred\x1b[0m", "0", "7", "42", "123456789", "3.14159", "1,000,000", "1 2 3", " 1", "  1", "   12   34", "a1b2c3",
    "v1.2.3-rc4", "\u0663\u0664\u0665", "\u00bd", "\u00b2\u00b3", "x\u00b2", "\u2160\u2161\u2162", "\u3007", "\u4e00\u4e8c\u4e09", "\u0967\u0968",
    "\U00011de0", "a\U00011de5b", "\U00016ff4\U00016ff5", "\U00010d40x", "\u1c89\u1c8a", "\ua7cb z", "\U0001ccf0 1", "\U0001e030\U0001e031",
    "I'm", "it's", "don't", "we'll", "they've", "you're", "he'd", "I'M", "IT'S", "DON'T", "'s", "'t", "'", "''", "'ll'll", "\u2019s",
    "it\u2019s", "'S", " 's", "'re 've 'm 'll 'd", "x'sx", "o'clock", "rock'n'roll", "'tis", "y'all'd've",
    "!", "!!!", "?!?", "...", "\u2026", "---", "==>", "a+b=c", "(x)", "{}[]", "\"quoted\"", "`code`", "$100", "50%", "#tag @user", "a_b_c",
    "snake_case_name", "camelCaseName", "HTTPServer2XX", "/usr/local/bin", "C:\\path\\file", "https://example.org/a?b=c&d=e#f",
    "user@example.org", "\u00bfqu\u00e9?", "\u20ac5", "\u00a35", "\u2013 \u2014", "\u00ab\u00bb",
    "\U0001f600", "\U0001f600\U0001f601", "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", "\U0001f44d\U0001f3fd", "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7",
    "\u2764\ufe0f", "\u2600\ufe0e", "1\ufe0f\u20e3", "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "x\U0001f600y", " \U0001f600",
    "e\u0301", "\u00e9", "a\u0300\u0301\u0302\u0303", "Z\u0351\u036b\u0343a\u0369\u036b", "\u0301", " \u0301", "n\u0303o", "\u1e9b\u0323", "\ufb01", "\u017f", "\u212a", "\u0130i\u0131I",
    "\u4f60\u597d\uff0c\u4e16\u754c\uff01", "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8", "\ud55c\uad6d\uc5b4 \ubb38\uc7a5", "\u1112\u1161\u11ab", "\uff21\uff22\uff23\uff11\uff12", "\u2fd5",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0643", "\u0627\u0644\u0639\u064e\u0631\u064e\u0628\u0650\u064a\u064e\u0651\u0629", "\u05e9\u05dc\u05d5\u05dd", "\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd", "\u202eabc\u202c", "\u200fabc\u200e",
    "\u0928\u092e\u0938\u094d\u0924\u0947", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u0baa\u0ba3\u0bcd", "\u10d2\u10d0\u10db\u10d0\u10e0\u10ef\u10dd\u10d1\u10d0", "\u1230\u120b\u121d",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440!", "\u0393\u03b5\u03b9\u03ac \u03c3\u03bf\u03c5", "\u0531\u0532", "\u16a0\u16a2", "\U00012000", "\U00013000\U00013001", "\U0001d400\U0001d7d8", "\U00020000\U0002a6d6",
    "\ue000", "\U0010ffff", "\ufffd", "\ufffe", "\uffff", "\U000f0000", "\ud7ff", "\u0378", "\u2fff",
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|im_start|>user\nHi<|im_end|>\n", "a<|im_end|>b", " <|im_end|> ", "<|im_start|><|im_start|>",
    "<|im_start", "<|im_start|", "|im_start|>", "<|IM_START|>", "<|im_start |>", "<<|im_start|>>", "<|im_<|im_end|>", "<repo_name>x<file_sep>y",
    "<reponame>", "<filename>a.py", "<gh_stars>100", "<issue_start><issue_comment><issue_closed>", "<jupyter_start><jupyter_text>t<jupyter_code>c<jupyter_output>o",
    "<jupyter_script>", "<empty_output>", "<file_sep", "12<|endoftext|>34", "caf\u00e9<|im_end|>\U0001f600", "<|im_end|>'s", "x  <|im_end|>  y", "<|unknown|>", "<s></s>", "[INST]",
    "def f(x):\n    return x + 1\n", "for (int i = 0; i < 10; ++i) {\n\tsum += a[i];\n}\n", "SELECT * FROM t WHERE id = 1;", "<html><body class=\"x\">&amp;</body></html>",
    "{\"a\": [1, 2.5e-3, null], \"b\": \"\\u00e9\"}", "    indented\n\tmixed\n  \tboth\n", "#include <vector>\r\n\r\nint main() {}\r\n", "\\n not a newline", "$\\frac{a}{b}$",
    "The quick brown fox jumps over the lazy dog.", "Once upon a time, in a land far away,", "The capital of France is", "lorem ipsum " * 20,
    "\u0120", "\u0120a", "\u010a", "\u0100\u0101", "\u00c2\u00a0", "\u00e2\u20ac\u2122", "a" * 5000, "ab" * 2000, " " * 3000, "\n" * 500, "1" * 300, "\U0001f600" * 200, "x" + " " * 200 + "y",
    "=" * 400, "'" * 50, "\u4e00" * 300, "e\u0301" * 150, "aA" * 300, "supercalifragilisticexpialidocious" * 30, "the" * 400, "\u00a0" * 40, "\r\n" * 60, " \n" * 60,
]  # fmt: skip

# For SentencePiece-style vocabularies: written spaces, runs of spaces, symbols of the vocabulary, characters without tokens.
PIECE_TRAPS = [
    "\u2581", "\u2581\u2581", "a\u2581b", "\u2581 \u2581", " \u2581", "\u2581\u2581 \u2581x", "x \u2581\u2581y", " " * 31, " " * 32, " " * 33, " " * 50 + "fifty", " " * 200,
    "a" + " " * 63 + "b", "x  y   z    w", "\t" * 20, "\t" * 40, " \t \t", "\n" * 31, "\n" * 32, "\n" * 70, " \n \n", "\n \n", "\r\n\r\n", "<table><tr><td> x </td></tr></table>",
    "<h1>Title</h1>", "<blockquote>", "<td", "td>", "<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n", "<bos><bos>", "<eos>", "<pad>", "<unk>", "<mask>", "[multimodal]",
    "<unused0>", "<unused99>", "<unused6241>", "<unused6242>", "<unused", "<0x41>", "<0x0A>", "<0xE2><0x82><0xAC>", "<0xZZ>", "<start_of_image>", "<img>",
    "\U0001fabf", "\U0001fac3x", "\U00012000\U00012001", "a\U00012000b", " \U00012000 ", "\U00012000\U00012001 \U00012002", "\U000e0001", "\ue000\ue001", "\U0010fffd\U0010fffe",
    "aaaa", "aaaaaaaaa", "abababab", "   a   a", "the  the", "1234567890", "12 345 6", "3.14", "0x7f", "\u0663\u0664", "I'm we'll don't", "Hello, world!", " Hello", "Hello ", "HELLO",
]  # fmt: skip

PROSE = (
    "A relay race is won by the team whose baton moves fastest, not by its fastest runner. Between the legs lies a short "
    "zone in which both runners are at speed; a clean pass there costs nothing, and a dropped one costs everything. "
    "Coaches time that zone to the hundredth of a second (0.01 s), because it's where most races of 4 x 100 m are lost."
)

ROLES = ["system", "user", "assistant"]


def conversations():
    u = lambda text: {"role": "user", "content": text}
    a = lambda text: {"role": "assistant", "content": text}
    s = lambda text: {"role": "system", "content": text}
    chats = [
        [u("Hello!")],
        [s("You are terse."), u("Hello!")],
        [u("Hi"), a("Hello, how can I help?"), u("What is 2 + 2?")],
        [s(""), u("empty system")],
        [u("")],
        [u("  spaces around  \n"), a("\n\nok\n")],
        [u("<|im_end|>\n<|im_start|>system\nInjected")],
        [u("\u4f60\u597d \U0001f600 caf\u00e9 \u0645\u0631\u062d\u0628\u0627")],
        [u('quotes " and \' and \\ and {{ braces }} {% raw %}')],
        [s("Answer in French."), u("One"), a("Un"), u("Two"), a("Deux"), u("Three")],
        [u("first"), s("a system message that comes late"), u("second")],
        [a("assistant speaks first")],
        [{"role": "tool", "content": "{\"result\": 42}"}, u("unknown roles pass through")],
        [u("line one\r\nline two\ttab")],
        [u("a" * 2000)],
    ]
    return chats


def read_metadata(path):
    from gguf import GGUFReader

    reader = GGUFReader(path)
    prefix = "tokenizer."
    return {k[len(prefix) :]: f.contents() for k, f in reader.fields.items() if k.startswith(prefix)}


def build_tokenizer(path, metadata):
    """The library's tokenizer of a GGUF file."""
    if metadata["ggml.model"] == "gpt2":
        return build_byte_level(metadata)
    from transformers import AutoTokenizer

    folder, file = os.path.split(os.path.abspath(path))
    return AutoTokenizer.from_pretrained(folder, gguf_file=file).backend_tokenizer


def build_byte_level(metadata):
    tokens, types = metadata["ggml.tokens"], metadata["ggml.token_type"]
    assert metadata["ggml.model"] == "gpt2" and metadata["ggml.pre"] == "smollm"
    vocab = {token: i for i, token in enumerate(tokens)}
    merges = [tuple(merge.split(" ")) for merge in metadata["ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token=None, fuse_unk=False, byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    flags = dict(single_word=False, lstrip=False, rstrip=False, normalized=False)
    for token, kind in zip(tokens, types):
        if kind == CONTROL:
            tokenizer.add_special_tokens([AddedToken(token, special=True, **flags)])
        elif kind == USER_DEFINED:
            tokenizer.add_tokens([AddedToken(token, special=False, **flags)])
    assert tokenizer.get_vocab_size() == len(tokens)
    return tokenizer


def random_char(rng, block):
    while True:
        c = rng.randint(*block)
        if not 0xD800 <= c <= 0xDFFF:
            return chr(c)


def random_string(rng, special):
    """One block, or a mixture of blocks, words, spaces and now and then a special token."""
    style = rng.randrange(4)
    length = rng.randint(1, 40)
    if style == 0:
        block = rng.choice(BLOCKS)
        return "".join(random_char(rng, block) for _ in range(length))
    if style == 1:
        return "".join(random_char(rng, rng.choice(BLOCKS)) for _ in range(length))
    glue = [" ", "  ", "\n", "\t", "", "", "'", "1", "\r\n", "-", "\u00a0", "'s", "...", "\u200d"]
    parts = []
    words = PROSE.split()
    for _ in range(rng.randint(1, 12)):
        kind = rng.randrange(12)
        if kind < 6:
            parts.append(rng.choice(words))
        elif kind < 8:
            block = rng.choice(BLOCKS)
            parts.append("".join(random_char(rng, block) for _ in range(rng.randint(1, 6))))
        elif kind < 9:
            parts.append(str(rng.randrange(10 ** rng.randint(1, 9))))
        elif kind < 10 and style == 3:
            parts.append(rng.choice(special))
        else:
            parts.append(rng.choice(words).upper())
        parts.append(rng.choice(glue))
    return "".join(parts)


def text_cases(tokenizer, special, traps):
    rng = random.Random(SEED)
    strings = list(traps)
    strings += [PROSE, PROSE.replace(" ", "\n"), PROSE * 4]
    while len(strings) < STRINGS:
        strings.append(random_string(rng, special))
    cases = []
    for text in strings:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        case = {"text": text, "ids": ids}
        # Only what differs is written: most texts survive the round trip.
        for key, skip in (("decoded", False), ("decoded_skip", True)):
            decoded = tokenizer.decode(ids, skip_special_tokens=skip)
            if decoded != text:
                case[key] = decoded
        cases.append(case)
    tokenizer.encode_special_tokens = True
    for case in cases:
        ids = tokenizer.encode(case["text"], add_special_tokens=False).ids
        if ids != case["ids"]:
            case["ids_plain"] = ids
    tokenizer.encode_special_tokens = False
    return cases


def id_cases(tokenizer):
    """Random ids: their bytes are often no valid UTF-8."""
    rng = random.Random(SEED + 1)
    size = tokenizer.get_vocab_size()
    split = [i for i in range(size) if "\ufffd" in tokenizer.decode([i])]
    cases = []
    for n in range(300):
        pool = split if n % 2 else range(size)
        ids = [rng.choice(pool) if rng.random() < 0.9 else rng.randrange(17) for _ in range(rng.randint(1, 12))]
        cases.append(decode_case(tokenizer, ids))
    return cases


def byte_run_cases(tokenizer, types):
    """Runs of byte tokens: whole characters, cut ones and wrong ones, between tokens of text and special tokens."""
    rng = random.Random(SEED + 3)
    byte_ids = [i for i, kind in enumerate(types) if kind == BYTE]
    assert len(byte_ids) == 256
    cases = []
    for _ in range(300):
        ids = []
        for _ in range(rng.randint(1, 6)):
            kind = rng.randrange(8)
            if kind < 4:
                text = "".join(random_char(rng, rng.choice(BLOCKS)) for _ in range(rng.randint(1, 4))).encode("utf-8")
                if kind == 3:
                    text = text[rng.randrange(2) : len(text) - rng.randrange(2)]
                ids += [byte_ids[b] for b in text]
            elif kind == 4:
                ids += [byte_ids[rng.randrange(256)] for _ in range(rng.randint(1, 3))]
            elif kind == 5:
                ids.append(rng.randrange(5))
            else:
                ids.append(rng.randrange(500, 5000))
        cases.append(decode_case(tokenizer, ids))
    return cases


def decode_case(tokenizer, ids):
    return {
        "ids": ids,
        "decoded": tokenizer.decode(ids, skip_special_tokens=False),
        "decoded_skip": tokenizer.decode(ids, skip_special_tokens=True),
    }


def family_cases():
    rng = random.Random(SEED + 2)
    split = lambda pattern: pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    digits = pre_tokenizers.Digits(individual_digits=True)
    families = {
        "gpt-2": byte_level,
        "smollm": pre_tokenizers.Sequence([digits, byte_level]),
        "llama-bpe": split(LLAMA3),
        "qwen2": split(QWEN2),
    }
    strings = [t for t in TRAPS if len(t) < 200] + [random_string(rng, ["x"]) for _ in range(150)]
    out = {}
    for name, pre in families.items():
        # Offsets are in characters; the pieces have no gaps, so their lengths say all.
        lengths = [[e - b for _, (b, e) in pre.pre_tokenize_str(text)] if text else [] for text in strings]
        out[name] = lengths
    return {"strings": strings, "lengths": out}


def chat_cases(tokenizer, metadata):
    from transformers import PreTrainedTokenizerFast

    tokens = metadata["ggml.tokens"]
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=tokens[metadata["ggml.bos_token_id"]],
        eos_token=tokens[metadata["ggml.eos_token_id"]],
        pad_token=tokens[metadata["ggml.padding_token_id"]],
        unk_token=tokens[metadata["ggml.unknown_token_id"]],
        chat_template=metadata["chat_template"],
    )
    cases = []
    for chat in conversations():
        for generation in (False, True):
            text = fast.apply_chat_template(chat, tokenize=False, add_generation_prompt=generation)
            encoded = fast.apply_chat_template(chat, tokenize=True, add_generation_prompt=generation)
            ids = encoded if isinstance(encoded, list) else encoded["input_ids"]
            assert ids == tokenizer.encode(text, add_special_tokens=False).ids
            cases.append({"messages": chat, "add_generation_prompt": generation, "text": text, "ids": list(ids)})
    return cases


def print_classes():
    """The library's classes, one code point at a time: does it stay with a neighbour of known class?"""
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    digits = pre_tokenizers.Digits(individual_digits=True)
    classes = {"letters": [], "numbers": [], "digits": [], "spaces": []}
    alone = lambda text: len(byte_level.pre_tokenize_str(text)) == 1
    for c in range(0x110000):
        if 0xD800 <= c <= 0xDFFF:
            continue
        char = chr(c)
        if len(digits.pre_tokenize_str("#" + char + "#")) == 3:
            classes["digits"].append(c)
        if alone("a" + char):
            classes["letters"].append(c)
        elif alone("1" + char):
            classes["numbers"].append(c)
        elif not alone("#" + char):
            classes["spaces"].append(c)
    for name, members in classes.items():
        # Python's Unicode version is PCRE2 10.42's where unicodedata says 14.0.0.
        known = {"letters": "L", "numbers": "N", "digits": "N"}.get(name)
        extra = [c for c in members if known is None or unicodedata.category(chr(c))[0] != known]
        ranges = []
        for c in extra:
            if ranges and ranges[-1][1] == c - 1:
                ranges[-1][1] = c
            else:
                ranges.append([c, c])
        print(f"{name} beyond Unicode {unicodedata.unidata_version}:", " ".join(f"{a:X}-{b:X}" for a, b in ranges))


def main():
    if sys.argv[1:] == ["--classes"]:
        print_classes()
        return
    model, target = sys.argv[1:]
    metadata = read_metadata(model)
    tokenizer = build_tokenizer(model, metadata)
    tokens, types = metadata["ggml.tokens"], metadata["ggml.token_type"]
    byte_level = metadata["ggml.model"] == "gpt2"
    special = [t for t, kind in zip(tokens, types) if kind == CONTROL]
    oracle = {
        "about": f"tokenizers {tokenizers.__version__}, seed {SEED}; made by scripts/oracles/tokenizer_oracle.py",
        "texts": text_cases(tokenizer, special, TRAPS if byte_level else TRAPS + PIECE_TRAPS),
        "ids": id_cases(tokenizer),
    }
    if byte_level:
        oracle["families"] = family_cases()
        oracle["chats"] = chat_cases(tokenizer, metadata)
    else:
        oracle["ids"] += byte_run_cases(tokenizer, types)
    with open(target, "w", encoding="utf-8") as out:
        json.dump(oracle, out, ensure_ascii=False, separators=(",", ":"))
        out.write("\n")
    print({k: len(v) for k, v in oracle.items() if k != "about"})


if __name__ == "__main__":
    main()
