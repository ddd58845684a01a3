"""The code blocks of the pages, and the commands in them."""

import dataclasses
import pathlib
import re

FENCE = re.compile(r"^```(\w*)\s*$")


@dataclasses.dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    text: str


@dataclasses.dataclass(frozen=True)
class Command:
    page: str
    line: int
    # Without comments; a command that goes over several lines has become one.
    text: str


def blocks_of(page, root):
    """The fenced blocks of a page, which is a path below `root`."""
    blocks, language, begin, lines = [], None, 0, []
    for number, line in enumerate((pathlib.Path(root) / page).read_text().splitlines(), 1):
        fence = FENCE.match(line.strip())
        if language is None and fence:
            language, begin, lines = fence[1], number + 1, []
        elif language is not None and line.strip() == "```":
            blocks.append(Block(page, begin, language, "\n".join(lines) + "\n"))
            language = None
        elif language is not None:
            lines.append(line)
    assert language is None, f"{page}: the block at line {begin} has no end"
    return blocks


def without_comment(line):
    quote = None
    for at, char in enumerate(line):
        if quote:
            quote = None if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == "#" and (at == 0 or line[at - 1].isspace()):
            return line[:at]
    return line


def commands_of(block):
    commands, parts, begin = [], [], block.line
    for number, line in enumerate(block.text.splitlines(), block.line):
        text = without_comment(line).strip()
        begin = begin if parts else number
        parts.append(text.removesuffix("\\").strip())
        if text.endswith("\\"):
            continue
        if any(parts):
            commands.append(Command(block.page, begin, " ".join(parts)))
        parts = []
    assert not parts, f"{block.page}: the command at line {begin} has no end"
    return commands


def prose_of(page, root):
    """What stands outside of blocks."""
    return re.sub(r"^```.*?^```", "", (pathlib.Path(root) / page).read_text(), flags=re.M | re.S)


def code_spans(page, root):
    """What stands in backquotes, outside of blocks."""
    return re.findall(r"`([^`]+)`", prose_of(page, root))


def shell_commands(page, root):
    """The text of each command of a page's blocks of shell, in its order."""
    return [command.text for block in blocks_of(page, root) if block.language == "sh" for command in commands_of(block)]
