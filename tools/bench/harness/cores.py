"""How many cores a command really keeps busy: a row that says "one core" must not be measured on two."""
import contextlib, os, time

SPAN_SECONDS = 1.0  # over which the share is taken: less is the start of threads and the ticks of the kernel's clock
TOLERANCE = 1.25  # of the time by that clock


def processor_seconds(pid):
    """Of all threads of a process and of everything it has started, ended or not. 0: it is gone."""
    total = 0.0
    with contextlib.suppress(OSError):  # a process may end while we look
        with open(f"/proc/{pid}/stat") as file:
            own_and_ended = file.read().rsplit(")", 1)[1].split()[11:15]
        total = sum(map(int, own_and_ended)) / os.sysconf("SC_CLK_TCK")
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children") as file:
                total += sum(processor_seconds(int(child)) for child in file.read().split())
    return total


class CoreCount:
    """Called with a command's pid again and again while it runs."""

    def __init__(self):
        self.looks = []  # (time, processor seconds), both growing

    def __call__(self, pid):
        self.note(time.monotonic(), processor_seconds(pid))

    def note(self, now, seconds):
        if not self.looks or seconds >= self.looks[-1][1]:  # less: a process has ended and is not counted with its parent yet
            self.looks.append((now, seconds))

    def most(self):
        """The cores that were busy in the busiest span; 0 where the command took no longer than one."""
        busiest, first = 0.0, 0
        for now, seconds in self.looks:
            while first + 1 < len(self.looks) and now - self.looks[first + 1][0] >= SPAN_SECONDS:
                first += 1
            began, before = self.looks[first]
            if now - began >= SPAN_SECONDS:
                busiest = max(busiest, (seconds - before) / (now - began))
        return busiest

    def is_more_than(self, cores):
        return self.most() > TOLERANCE * cores
