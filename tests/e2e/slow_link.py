"""A TCP proxy that delays every byte, because the machine's kernel may have no way to delay a link."""

import collections
import socket
import threading
import time

ACCEPT_BACKLOG = 128
CHUNK_BYTES = 64 << 10
# What one direction may hold back before it stops reading, as a real link's bandwidth-delay product would.
MAX_HELD_BYTES = 16 << 20


class SlowLink:
    """Listens on `address` and passes everything on to `target`, each way `delay_s` later, ends of streams included.

    `with SlowLink(cluster.target, 0.2) as link: ... link.address`. A link may be `cut()`: its connections stay open and
    nothing passes any more, like a cable that was pulled; `restore()` lets what was held pass on. `orphan()` breaks the
    connections of now for those who made them, and the target hears nothing of it, as when a host has lost its
    connections; `end_orphans()` ends them for the target too.
    """

    def __init__(self, target, delay_s):
        host, port = target.rsplit(":", 1)
        self._target = (host, int(port))
        self._delay_s = delay_s
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=ACCEPT_BACKLOG)
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        self._passing = threading.Event()
        self._passing.set()
        self._lock = threading.Lock()
        self._connections = set()
        self._closed = False

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        with self._lock:
            self._closed = True
            sockets = [one for connection in self._connections for one in (connection.near, connection.far)]
        self._passing.set()
        for one in [self._listener, *sockets]:
            _shut(one)
        self._listener.close()

    def cut(self):
        self._passing.clear()

    def restore(self):
        self._passing.set()

    def orphan(self):
        """The number of connections that it broke."""
        with self._lock:
            orphans = [connection for connection in self._connections if not connection.orphaned.is_set()]
        for connection in orphans:
            connection.orphaned.set()
            _shut(connection.near)
        return len(orphans)

    def end_orphans(self):
        with self._lock:
            orphans = [connection for connection in self._connections if connection.orphaned.is_set()]
        for connection in orphans:
            _shut(connection.far)

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near):
        time.sleep(self._delay_s)
        try:
            far = socket.create_connection(self._target)
        except OSError:
            near.close()
            return
        with self._lock:
            if self._closed:
                near.close()
                far.close()
                return
            connection = _Connection(near, far)
            self._connections.add(connection)
        for one in (near, far):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        directions = [_Direction(source, sink, self._delay_s, self._passing, connection.orphaned)
                      for source, sink in ((near, far), (far, near))]
        for direction in directions:
            direction.start()
        for direction in directions:
            direction.join()
        with self._lock:
            self._connections.remove(connection)
        near.close()
        far.close()


class _Connection:
    def __init__(self, near, far):
        self.near, self.far = near, far
        self.orphaned = threading.Event()


class _Direction:
    """One way of one connection: a thread that reads, and one that sends each piece when it is due."""

    def __init__(self, source, sink, delay_s, passing, orphaned):
        self._source, self._sink, self._delay_s, self._passing = source, sink, delay_s, passing
        self._orphaned = orphaned
        self._pieces = collections.deque()
        self._held_bytes = 0
        self._changed = threading.Condition()
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._read, self._send)]

    def start(self):
        for thread in self._threads:
            thread.start()

    def join(self):
        for thread in self._threads:
            thread.join()

    def _read(self):
        data = b"-"
        while data:
            try:
                data = self._source.recv(CHUNK_BYTES)
            except OSError:
                data = b""
            with self._changed:
                self._changed.wait_for(lambda: self._held_bytes < MAX_HELD_BYTES)
                self._pieces.append((time.monotonic() + self._delay_s, data))
                self._held_bytes += len(data)
                self._changed.notify_all()

    def _send(self):
        data = b"-"
        while data:
            with self._changed:
                self._changed.wait_for(lambda: self._pieces)
                due, data = self._pieces.popleft()
                self._held_bytes -= len(data)
                self._changed.notify_all()
            time.sleep(max(0.0, due - time.monotonic()))
            self._passing.wait()
            if self._orphaned.is_set():
                continue
            try:
                self._sink.sendall(data)
            except OSError:
                _shut(self._source)
        if self._orphaned.is_set():
            return
        try:
            self._sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def _shut(one):
    try:
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
