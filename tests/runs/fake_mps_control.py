#!/usr/bin/env python3
"""Stands in for nvidia-cuda-mps-control: `-d` listens at CUDA_MPS_PIPE_DIRECTORY/control in the background, and without it
the commands on stdin go there, as soon as the file FAKE_MPS_HOLD is gone. The log gets a line a command; connections
without one would show as empty lines. As NVIDIA's, it ends only when its clients have ended, or after the seconds of
`quit -t SECONDS`; the one client here is the process whose shell has started it."""
import os, socket, sys, time

pipe, log = os.environ["CUDA_MPS_PIPE_DIRECTORY"], os.environ["CUDA_MPS_LOG_DIRECTORY"]
address = os.path.join(pipe, "control")


def parent_and_state(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            state, parent = file.read().rsplit(")", 1)[1].split()[:2]
            return int(parent), state
    except OSError:
        return 0, "X"


def serve(client):
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(address + ".new")
    listener.listen()
    os.rename(address + ".new", address)  # whoever finds it is heard
    with open(os.path.join(log, "control.log"), "a", buffering=1) as lines:
        command = ""
        while not command.startswith("quit"):
            asker, _ = listener.accept()
            command = asker.recv(100).decode().strip()
            lines.write(command + "\n")
    end = time.monotonic() + float(command.partition("-t")[2] or "inf")
    while parent_and_state(client)[1] not in "ZX" and time.monotonic() < end:
        time.sleep(0.02)
    os.unlink(address)


if sys.argv[1:] == ["-d"]:
    run, _ = parent_and_state(os.getppid())
    if os.fork() == 0:
        os.setsid()
        serve(run)
else:
    while os.path.exists(os.environ.get("FAKE_MPS_HOLD", "")):
        time.sleep(0.02)
    client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client.connect(address)
    client.send(sys.stdin.readline().encode())
    client.recv(1)  # until the daemon has done it
