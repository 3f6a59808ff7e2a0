"""Traffic of `deno task kernels flowtables`: servers, transfers, datagrams and short connections."""

import select
import socket
import sys
import threading
import time

SINK, ANSWER, ECHO = 7001, 7002, 7003
CHUNK = bytes(1 << 16)


def serve():
    """Takes bytes on SINK, answers a line on ANSWER, and echoes datagrams on ECHO."""
    for port, handle in ((SINK, take), (ANSWER, answer)):
        server = socket.create_server(("::", port), family=socket.AF_INET6, backlog=1024,
                                      dualstack_ipv6=True)
        threading.Thread(target=accept, args=(server, handle)).start()
    echo = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    echo.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    echo.bind(("::", ECHO))
    print("ready", flush=True)
    while True:
        data, peer = echo.recvfrom(2048)
        echo.sendto(data, peer)


def accept(server, handle):
    while True:
        peer, _ = server.accept()
        if handle is answer:
            handle(peer)
        else:
            threading.Thread(target=handle, args=(peer,)).start()


def take(peer):
    """Counts bytes, and says how many when the other side has ended."""
    buffer, count = bytearray(1 << 18), 0
    with peer:
        while True:
            more = peer.recv_into(buffer)
            if more == 0:
                break
            count += more
        peer.sendall(str(count).encode())


def answer(peer):
    with peer:
        peer.sendall(peer.recv(64))


def connect(address, port):
    return socket.create_connection((address, port), timeout=60)


def send(address, port, mebibytes):
    """Sends bytes, and prints how many the other side has."""
    with connect(address, int(port)) as peer:
        for _ in range(int(mebibytes) * 16):
            peer.sendall(CHUNK)
        peer.shutdown(socket.SHUT_WR)
        print(peer.recv(64).decode())


def short(address, port, count):
    """Opens connections one after the other. Prints how many were answered, and processor time for each."""
    answered, before = 0, busy()
    for _ in range(int(count)):
        with connect(address, int(port)) as peer:
            peer.sendall(b"hello\n")
            answered += peer.recv(64) == b"hello\n"
    print(answered, round((busy() - before) / 1000 / int(count), 1))


def busy():
    """Returns the nanoseconds that the first processor was not idle; see the kernel's sched-stats.rst."""
    with open("/proc/schedstat") as lines:
        return next(int(line.split()[7]) for line in lines if line.startswith("cpu0 "))


def stay(address, port, udp):
    """Answers each line of the input with what the peer echoes, on one connection."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    kind = socket.SOCK_DGRAM if udp == "udp" else socket.SOCK_STREAM
    with socket.socket(family, kind) as peer:
        peer.connect((address, int(port)))
        if kind == socket.SOCK_STREAM:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for line in sys.stdin:
            sent = lost = 0
            for _ in range(int(line)):
                peer.send(b"x" * 512)
                sent += 1
                if kind == socket.SOCK_DGRAM:
                    ready, _, _ = select.select([peer], [], [], 2)
                    try:
                        lost += not (ready and peer.recv(2048))
                    except OSError:
                        lost += 1
                else:
                    time.sleep(0.001)
            print(sent - lost, flush=True)


if __name__ == "__main__":
    {"serve": serve, "send": send, "short": short, "stay": stay}[sys.argv[1]](*sys.argv[2:])
