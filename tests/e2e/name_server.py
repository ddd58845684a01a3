"""A name server on a network that loses questions: `name_server.py question` loses the first question of each type, and
`name_server.py port` all questions from the port that asked first. To all others it says that every name has the address
127.0.0.1. It prints `ready`, and then the time of each question in seconds."""

import socket
import struct
import sys
import time

HEADER_BYTES = 12
TYPE_A = b"\0\1"


def end_of_name(message):
    end = HEADER_BYTES
    while message[end] != 0:
        end += 1 + message[end]
    return end + 1


def type_of(message):
    return message[end_of_name(message):][:2]


def answer(message):
    # The name, the type and the class.
    question = message[HEADER_BYTES:end_of_name(message) + 4]
    addresses = [socket.inet_aton("127.0.0.1")] if type_of(message) == TYPE_A else []
    # The flags say that the server asks others as well. The name of a record is that of the question.
    header = message[:2] + struct.pack("!HHHHH", 0x8180, 1, len(addresses), 0, 0)
    records = [struct.pack("!H2sHIH", 0xC000 | HEADER_BYTES, TYPE_A, 1, 0, len(one)) + one for one in addresses]
    return header + question + b"".join(records)


def main():
    loses_port = {"port": True, "question": False}[sys.argv[1]]
    lost_client, lost_types = None, set()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 53))
        print("ready", flush=True)
        while True:
            message, client = server.recvfrom(512)
            print(time.monotonic(), flush=True)
            lost_client = lost_client or client
            is_lost = client == lost_client if loses_port else type_of(message) not in lost_types
            lost_types.add(type_of(message))
            if not is_lost:
                server.sendto(answer(message), client)


main()
