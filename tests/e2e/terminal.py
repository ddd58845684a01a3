"""A program at a pseudo-terminal, as its user sees it."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time

CTRL_A, CTRL_C, CTRL_D, CTRL_E = "\x01", b"\x03", b"\x04", "\x05"
ENTER, BACKSPACE, LEFT, UP = "\r", "\x7f", "\x1b[D", "\x1b[A"
PASTE_BEGIN, PASTE_END = "\x1b[200~", "\x1b[201~"
PATIENCE_S = 30


class Terminal:
    """`command`, whose stdin, stdout and stderr are one terminal. `kind` is its TERM: a dumb one has no editor and no
    colours."""

    def __init__(self, command, kind="dumb", **env):
        self._master, slave = pty.openpty()
        self.resize(24, 200)
        modes = termios.tcgetattr(slave)
        modes[3] &= ~termios.ECHO
        # Otherwise Ctrl-C throws away what has been written and not read yet.
        modes[3] |= termios.NOFLSH
        termios.tcsetattr(slave, termios.TCSANOW, modes)
        self._modes = termios.tcgetattr(slave)
        # A preexec_fn would run in a fork of this process, where gRPC's handlers can wait for threads that are not there.
        self.process = subprocess.Popen(["setsid", "--ctty", *map(str, command)], stdin=slave, stdout=slave, stderr=slave,
                                        env={**os.environ, "TERM": kind, **env})
        # It stays open, so that the terminal outlives the program and its modes can be read.
        self._slave = slave
        self._unread = ""
        # Everything that has been written.
        self.written = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self._slave)
        os.close(self._master)

    def type(self, keys):
        os.write(self._master, keys.encode() if isinstance(keys, str) else keys)

    def resize(self, lines, columns):
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

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
            piece = os.read(self._master, 1 << 16)
            self.written += piece
            # A line ends with "\r\n" at a terminal, and the model writes no "\r".
            self._unread += piece.decode().replace("\r", "")

    def wait(self):
        """The exit code."""
        return self.process.wait(timeout=PATIENCE_S)

    def has_its_modes(self):
        return termios.tcgetattr(self._slave) == self._modes
