"""The nursery: this program, once, up to its first turn. Trainers are forks of it, which begin with all that it has imported and
loaded. `sounder help trainer` documents the messages.

After its first turn, a rehearsal, the program calls keep, which returns in each fork: there the loop of turns continues, with another
worker at the line and another desk in the memory of the old one. So nothing that the program holds has moved.
"""
import contextlib
import ctypes
import gc
import json
import os
import select
import signal
import socket
import sys
import threading

MOST_REQUEST = 4096
PR_SET_PDEATHSIG, MAP_SHARED, MAP_FIXED, PROT_READ_WRITE = 1, 1, 0x10, 3
CARDS = ("/dev/nvidia", "/dev/kfd", "/dev/dri")
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]


def obstacle():
    """Why this process cannot be forked, or None. A fork has one thread, shares its parent's children and no GPU."""
    if not hasattr(os, "pidfd_open") or not hasattr(socket, "recv_fds"):
        return "it needs Python 3.9 for that"
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        return f"it has {threads} threads"
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return "it has processes of its own, such as a data loader's"
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            place = os.readlink(f"/proc/self/fd/{fd}")
            if place.startswith(CARDS):
                return f"it has opened {place}"
    return None


def remedy():
    """What lets a program be forked whose only threads are those of tokenizers, which encode in parallel; None for others."""
    mine = threading.active_count() == 1 and "tokenizers" in sys.modules and os.environ.get("TOKENIZERS_PARALLELISM", "").lower() not in ("false", "0")
    return "its threads are those of tokenizers: set TOKENIZERS_PARALLELISM=false" if mine and len(os.listdir("/proc/self/task")) > 1 else None


class _Fork:
    """A trainer, and the leash on which its worker holds it."""

    def __init__(self, pid, leash):
        self.pid, self.leash = pid, leash
        self.ends = os.pidfd_open(pid)

    def end(self):
        """Kills what is left of its process group, which has its number until it is reaped, and tells how it has ended."""
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError):
                kill(self.pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        with contextlib.suppress(OSError):
            self.leash.send(f"exit {code}".encode() if code >= 0 else f"signal {-code}".encode())
        self.close()

    def close(self):
        self.leash.close()
        os.close(self.ends)


class Nursery:
    """requests: the socket at which all workers ask. line, desk: of the rehearsal, which each fork takes over."""

    def __init__(self, requests, line, desk):
        self.requests = socket.socket(fileno=requests)
        self.line, self.desk = line, desk
        self.forks = {}
        self.poll = select.poll()
        for fd in (self.requests.fileno(), self.line.socket.fileno()):
            self.poll.register(fd, select.POLLIN)

    def keep(self):
        """Forks until the run ends. Returns in each fork."""
        gc.collect()
        with contextlib.suppress(AttributeError):  # not glibc's
            LIBC.malloc_trim(0)  # what the rehearsal has left would be this process's for the whole run
        gc.freeze()  # a collection would write to pages that all forks share
        while True:
            for fd, _ in self.poll.poll():
                if fd == self.line.socket.fileno():
                    os._exit(0)  # a nursery is no trainer: nothing after its loop of turns is for it
                elif fd == self.requests.fileno():
                    if self._answer():
                        return
                elif fd in self.forks:
                    self._end(self.forks[fd])

    def _end(self, fork):
        for fd in (fork.ends, fork.leash.fileno()):
            self.poll.unregister(fd)
            del self.forks[fd]
        fork.end()

    def _answer(self):
        text, fds, _, _ = socket.recv_fds(self.requests, MOST_REQUEST, 8)
        if not text or not json.loads(text).get("fork") or len(fds) != 4:
            for fd in fds:
                os.close(fd)
            return False
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        nursery, (line, leash, desk, output) = os.getpid(), fds
        pid = os.fork()
        if pid == 0:
            self._become(nursery, line, leash, desk, output)
            return True
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)  # in both processes, since either may run first
        for fd in (line, desk, output):
            os.close(fd)
        fork = _Fork(pid, socket.socket(fileno=leash))
        for fd in (fork.ends, fork.leash.fileno()):
            self.forks[fd] = fork
            self.poll.register(fd, select.POLLIN)
        return False

    def _become(self, nursery, line, leash, desk, output):
        """In the fork: a process group of its own, the worker's line, its desk at the place of the nursery's, its output."""
        os.setpgid(0, 0)
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != nursery:
            os._exit(1)
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write("600")  # before the nursery, whose forks end with it
        self.requests.close()
        for fork in set(self.forks.values()):
            fork.close()
        os.close(leash)
        for fd in (1, 2):
            os.dup2(output, fd)
        self.line.adopt(line)  # first: what goes wrong from here on is said on the fork's line, not on the nursery's
        place = self.desk.weights.ctypes.data - self.desk.parts["weights"]
        if LIBC.mmap(place, self.desk.parts["bytes"], PROT_READ_WRITE, MAP_SHARED | MAP_FIXED, desk, 0) != place:
            raise OSError(ctypes.get_errno(), "a trainer's desk cannot be mapped")
        os.close(desk)
        os.close(output)
        if self.line.receive() is None:
            os._exit(0)
        self.line.send(ready=1, pid=os.getpid())
