"""An echo server with Python's socket module: one thread a connection, blocking calls. Its argument is its port."""

import socket
import sys
import threading


def serve(connection):
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while data := connection.recv(65536):
            connection.sendall(data)


def main():
    with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as listener:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=serve, args=(connection,), daemon=True).start()


main()
