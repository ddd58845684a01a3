"""`baton chat`: at a terminal, where Ctrl-C stops an answer, and with lines from a pipe."""

import fcntl
import os
import pty
import select
import subprocess
import termios
import time

import pytest

from client import read_stream
from cluster import BINARY, run_baton

CLUSTER_ARGS = ("--threads", 1)
CTRL_C, CTRL_D = b"\x03", b"\x04"
# They take longer than the test takes from the first word to Ctrl-C, also on a fast machine.
ANSWER_TOKENS = 240
PATIENCE_S = 30


def answer_of(client, turns, max_tokens):
    """What the model answers to a chat whose turns are the user's, the model's, the user's, ..."""
    messages = [{"role": ("user", "assistant")[i % 2], "content": turn} for i, turn in enumerate(turns)]
    request = client.message("baton.v1.GenerateRequest")(
        chat={"messages": messages}, sampling={"max_tokens": max_tokens, "ignore_eos": True})
    generation = read_stream(client.start(request))
    assert generation.error is None
    return generation.text


class Terminal:
    """A chat whose stdin, stdout and stderr are one terminal."""

    def __init__(self, *args):
        self._master, slave = pty.openpty()
        modes = termios.tcgetattr(slave)
        modes[3] &= ~termios.ECHO
        # Otherwise Ctrl-C throws away what has been written and not read yet.
        modes[3] |= termios.NOFLSH
        termios.tcsetattr(slave, termios.TCSANOW, modes)
        self.process = subprocess.Popen([BINARY, "chat", *map(str, args)], stdin=slave, stdout=slave, stderr=slave,
                                        start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        self._unread = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self._master)

    def type(self, keys):
        os.write(self._master, keys.encode() if isinstance(keys, str) else keys)

    def read_until(self, *ends):
        """What was written before the first of `ends`, which is taken too."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = [(self._unread.find(end), end) for end in ends if end in self._unread]
            if found:
                at, end = min(found)
                before, self._unread = self._unread[:at], self._unread[at + len(end):]
                return before
            left = deadline - time.monotonic()
            assert left > 0 and select.select([self._master], [], [], left)[0], f"no {ends} in {self._unread!r}"
            # A line ends with "\r\n" at a terminal, and the model writes no "\r".
            self._unread += os.read(self._master, 1 << 16).decode().replace("\r", "")


def test_ctrl_c_stops_the_answer_and_keeps_the_chat_and_its_history(cluster, client):
    question, follow_up = "Tell me a long story about the sea.", "Go on."
    with Terminal("--target", cluster.target, "--max-tokens", ANSWER_TOKENS, "--ignore-eos") as chat:
        chat.read_until("> ")
        chat.type(f"{question}\n")
        begun = chat.read_until(" ")
        chat.type(CTRL_C)
        shown = f"{begun} {chat.read_until('(stopped)')}".removesuffix("\n")
        whole = answer_of(client, [question], ANSWER_TOKENS)
        assert whole.startswith(shown) and shown != whole

        chat.read_until("> ")
        chat.type(f"{follow_up}\n")
        assert chat.read_until("\n> ") == answer_of(client, [question, shown, follow_up], ANSWER_TOKENS)
        chat.type(CTRL_D)
        assert chat.process.wait(timeout=PATIENCE_S) == 0


def test_ctrl_c_at_the_prompt_says_how_to_leave_and_a_second_one_leaves(cluster):
    with Terminal("--target", cluster.target) as chat:
        chat.read_until("> ")
        chat.type(CTRL_C)
        assert "/exit" in chat.read_until("> ")
        chat.type("/help\n")
        assert "/clear" in chat.read_until("> ")
        chat.type(CTRL_C)
        chat.read_until("> ")
        chat.type(CTRL_C)
        assert chat.process.wait(timeout=PATIENCE_S) == 0


def say(cluster, lines, *args):
    result = run_baton("chat", "--target", cluster.target, "--ignore-eos", "--max-tokens", 8, *args,
                       stdin=b"".join(line + b"\n" for line in lines))
    return result.returncode, result.stdout, result.stderr.splitlines()


def test_each_line_of_a_pipe_is_answered_in_the_light_of_those_before(cluster, client):
    code, answers, errors = say(cluster, [b"What is 2+2?", b"Are you sure?"])
    assert (code, errors) == (0, [])
    first = answer_of(client, ["What is 2+2?"], 8)
    assert answers == f"{first}\n{answer_of(client, ['What is 2+2?', first, 'Are you sure?'], 8)}\n"


@pytest.mark.parametrize(("bad", "word"), [
    (b"caf\xe9", "UTF-8 at byte 3"), (b"x" * (2 << 20), "2097152 bytes"), (b"one word " * 20_000, "context"),
    (b"/quit", "/quit is no command: /help"),
], ids=["invalid UTF-8", "too long for a message", "too long for the context", "unknown command"])
def test_a_bad_line_is_one_line_of_error_and_the_chat_goes_on(cluster, client, bad, word):
    code, answers, errors = say(cluster, [bad, b"What is 2+2?"])
    assert answers == f"{answer_of(client, ['What is 2+2?'], 8)}\n", "the bad line is not part of the chat"
    assert code == 1 and len(errors) == 1 and word in errors[0], errors


def test_a_time_out_is_one_line_of_error_and_the_chat_goes_on(cluster):
    code, _, errors = say(cluster, [b"Hello", b"Hello again"], "--timeout-ms", 1)
    assert code == 1
    assert errors == ["baton: the answer did not end within 1 ms: --timeout-ms allows more"] * 2


def test_commands_never_reach_the_model(cluster, client):
    code, answers, errors = say(cluster, [b"/help", b"Hello", b"/clear", b"What is 2+2?", b"/exit", b"What is 3+3?"])
    assert answers == "".join(f"{answer_of(client, [line], 8)}\n" for line in ("Hello", "What is 2+2?"))
    assert code == 0 and any("/exit" in line for line in errors)


def test_a_space_sends_a_line_with_a_slash(cluster, client):
    assert say(cluster, [b" /etc is what?"]) == (0, f"{answer_of(client, ['/etc is what?'], 8)}\n", [])
