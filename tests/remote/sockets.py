"""Servers that no framework would be: each connection is handled by a function that is given the raw socket."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

Handle = Callable[[socket.socket, threading.Event], None]

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


def request_of(connection: socket.socket) -> bytes:
    """Read a request up to its blank line; what has a body is read on by whoever wants it."""
    got = b""
    while b"\r\n\r\n" not in got:
        piece = connection.recv(65536)
        if not piece:
            break
        got += piece
    return got


def answering(body: bytes, *headers: bytes) -> Handle:
    """A whole answer with these headers, whatever they claim."""

    def handle(connection: socket.socket, over: threading.Event) -> None:
        request_of(connection)
        head = HEAD + b"".join(header + b"\r\n" for header in headers)
        connection.sendall(head + b"content-length: %d\r\n\r\n" % len(body) + body)

    return handle


def dripping(first: bytes, each: bytes, pause: float) -> Handle:
    """Send `first`, then a little now and then, for ever."""

    def handle(connection: socket.socket, over: threading.Event) -> None:
        request_of(connection)
        connection.sendall(first)
        while not over.wait(pause):
            connection.sendall(each)

    return handle


@contextmanager
def listening(handle: Handle, *, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Serve connections, each on a thread, until the block is left; gives the port."""
    over = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def serve(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            wrapped = tls.wrap_socket(connection, server_side=True) if tls else connection
            with wrapped:
                handle(wrapped, over)

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threads.append(threading.Thread(target=serve, args=(connection,), daemon=True))
            threads[-1].start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield listener.getsockname()[1]
    finally:
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join()
        for thread in threads:
            thread.join(5)


def self_signed() -> ssl.SSLContext:
    """The context of a server whose certificate nobody vouches for. Its key is in this folder, and worth nothing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(Path(__file__).with_name("self-signed.pem"))
    return context
