#!/usr/bin/env python3
"""Stands in for nvidia-cuda-mps-control: `-d` listens at CUDA_MPS_PIPE_DIRECTORY/control in the background, and without it
the commands on stdin go there, as soon as the file FAKE_MPS_HOLD is gone. The log gets a line a command; connections
without one would show as empty lines."""
import os, socket, sys, time

pipe, log = os.environ["CUDA_MPS_PIPE_DIRECTORY"], os.environ["CUDA_MPS_LOG_DIRECTORY"]
address = os.path.join(pipe, "control")


def serve():
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(address + ".new")
    listener.listen()
    os.rename(address + ".new", address)  # whoever finds it is heard
    with open(os.path.join(log, "control.log"), "a", buffering=1) as lines:
        command = ""
        while command != "quit":
            command = listener.accept()[0].recv(100).decode().strip()
            lines.write(command + "\n")
    os.unlink(address)


if sys.argv[1:] == ["-d"]:
    if os.fork() == 0:
        os.setsid()
        serve()
else:
    while os.path.exists(os.environ.get("FAKE_MPS_HOLD", "")):
        time.sleep(0.02)
    client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client.connect(address)
    client.send(sys.stdin.readline().encode())
