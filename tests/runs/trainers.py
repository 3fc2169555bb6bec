"""Shared by the tests of trainers: a job, trainers in NumPy and PyTorch, their faults, and the case that runs them."""
import os, signal, sys

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
try:
    import torch
except ImportError:
    torch = None

from runs import SLOWED, RunCase, alive, command_line, descendants_of, is_worker, parse_safetensors

PACKAGE = os.path.abspath(sys.argv[2])
JOB = ["--data", "synthetic:1x8x8:160:60", "--clients", "4", "--batch-size", "10", "--lr", "0.05", "--momentum", "0.5",
       "--rounds", "2", "--workers", "2"]
LAYERS = "linear 12; tanh; linear classes"
SLEEPER = "sleep 1000 &\n"  # a line of a wrapper: a process that nothing ends but the guard
THREAD = "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n"  # with it no program can be forked

# What NUMPY's options spoil, and the run's sentence for it. Only the one that hangs is waited for.
HANG_SECONDS = f"{SLOWED:g}"
FAULTS = (("die", "killed by signal 9"), ("exit", "exit code 3"), ("hang", f"has not said anything for {HANG_SECONDS} s"),
          ("words", "its line"), ("other-turn", "answered turn"), ("endless", "more than 1048576 bytes"), ("close", "closed its socket"),
          ("raise", "ValueError: the loss has no bottom"))


def patience(fault):
    return ["--hang-seconds", HANG_SECONDS] if fault == "hang" else []


# A net of two layers whose gradients are written by hand; --trainer-option spoils it on demand, `once` only the first time.
NUMPY = '''
import json, os, signal, sys, time
sys.path.insert(0, PACKAGE)
import numpy as np, sounder

rng = np.random.default_rng(1)
net = {"fc1.weight": rng.normal(0, 0.1, (12, 64)), "fc1.bias": np.zeros(12), "fc2.weight": rng.normal(0, 0.3, (10, 12)), "fc2.bias": np.zeros(10)}
net = {name: value.astype(np.float32) for name, value in net.items()}

def ahead(x, y):
    hidden = np.tanh(x @ net["fc1.weight"].T + net["fc1.bias"])
    out = hidden @ net["fc2.weight"].T + net["fc2.bias"]
    out -= out.max(1, keepdims=True)
    share = np.exp(out) / np.exp(out).sum(1, keepdims=True)
    return hidden, share, -np.log(share[np.arange(len(y)), y]).mean()

def slopes(x, y):
    hidden, share, loss = ahead(x, y)
    share[np.arange(len(y)), y] -= 1
    share /= len(y)
    back = share @ net["fc2.weight"] * (1 - hidden * hidden)
    return {"fc1.weight": back.T @ x, "fc1.bias": back.sum(0), "fc2.weight": share.T @ hidden, "fc2.bias": share.sum(0)}, loss

def spoil(turn):
    fault = turn.options.get("fault")
    if not fault or turn.client != 1 or not turn.trains:
        return None
    if turn.options.get("once"):
        if os.path.exists("spoilt"):
            return None
        open("spoilt", "w").close()
    line = turn._line
    if fault == "die": os.kill(os.getpid(), signal.SIGKILL)
    if fault == "exit": os._exit(3)
    if fault == "hang": time.sleep(1000)
    if fault == "words": line.socket.sendall(b"this is no JSON\\n"); time.sleep(1000)
    if fault == "other-turn": line.send(turn=turn._told["turn"] + 5, loss_sum=0, samples=0, steps=0); time.sleep(1000)
    if fault == "endless": line.socket.sendall(b"x" * (2 << 20)); time.sleep(1000)
    if fault == "close": line.socket.close(); time.sleep(1000)
    if fault == "raise": raise ValueError("the loss has no bottom")
    return fault

for turn in sounder.turns(net):
    fault = spoil(turn)
    velocity = {}
    time.sleep(0 if turn.rehearsal else turn.options.get("slow", 0))
    for x, y in turn.batches():
        x = x.reshape(len(x), -1)
        if not turn.trains:
            _, share, loss = ahead(x, y)
            turn.add(loss, len(y), hits=(share.argmax(1) == y).sum())
            continue
        slope, loss = slopes(x, y)
        if fault != "no-correct":
            turn.correct(slope)
        for name in net:
            velocity[name] = slope[name] + turn.momentum * velocity.get(name, 0)
            net[name] -= np.float32(turn.lr) * velocity[name]
        turn.add(loss, len(y))
    if fault == "nan":
        net["fc2.bias"][3] = np.nan
    if fault != "forget":
        turn.hand_in()
'''

TORCH = '''
import sys
sys.path.insert(0, PACKAGE)
import torch, sounder
from torch import nn
from torch.nn import functional as F

def train(net, turn):
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=turn.lr, momentum=turn.momentum)
    for x, y in turn.batches():
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad(); loss.backward(); turn.correct(); optimizer.step()
        turn.add(loss, len(y))

def test(net, turn):
    for x, y in turn.batches():
        out = net(x)
        turn.add(F.cross_entropy(out, y), len(y), hits=(out.argmax(1) == y).sum())

'''


def parent_of(pid):
    """0: it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


def group_of(pid):
    try:
        return os.getpgid(pid)
    except OSError:
        return 0


def is_guard(pid):
    return command_line(pid)[:2] == [b"sounder", b"guard"]


def sleepers(pids, seconds=1000):
    return [pid for pid in pids if command_line(pid) == [b"sleep", str(seconds).encode()]]


class TrainerCase(RunCase):
    def setUp(self):
        super().setUp()
        self.write("trainer.py", NUMPY)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(f"PACKAGE = {PACKAGE!r}\n{text}")

    def write_wrapper(self, script):
        """The command of a shell that starts the script, beside a process that never ends."""
        with open(self.path("wrapper.sh"), "w") as file:
            file.write(f"#!/bin/sh\n{SLEEPER}{sys.executable} {script}\n")
        return "sh wrapper.sh"

    def forget_fault(self):
        """A fault of `once` comes once more."""
        if os.path.exists(self.path("spoilt")):
            os.remove(self.path("spoilt"))

    def start_weights(self):
        """The options of runs that begin with the same weights of the engine, which "start" has."""
        self.train(*JOB, "--model", LAYERS, "--rounds", "1", "--lr", "1e-12", "--quiet", "--out", "start")
        return ["--init", "start/model.safetensors"]

    def assert_near(self, run, other, most=1e-5):
        one, two = self.weights(run), self.weights(other)
        self.assertEqual(list(one), list(two))
        for name in one:
            self.assertLess(abs(one[name] - two[name]).max(), most, name)

    def kill(self, pids, number=signal.SIGKILL):
        """Returns those that were there."""
        hit = []
        for pid in pids:
            try:
                os.kill(pid, number)
                hit.append(pid)
            except ProcessLookupError:
                pass
        return hit

    def run_with(self, run, *arguments, script="trainer.py", code=0):
        return self.train(*JOB, "--trainer", f"{sys.executable} {script}", "--quiet", "--out", run, *arguments, code=code)

    def refused(self, *arguments, code=64):
        without_momentum = JOB[: JOB.index("--momentum")] + JOB[JOB.index("--momentum") + 2 :]
        return self.train(*without_momentum, "--trainer", f"{sys.executable} trainer.py", "--out", "refused", *arguments, code=code)[1]

    def weights(self, run):
        with open(self.path(run, "model.safetensors"), "rb") as file:
            return {name: np.array(values) for name, (_, values) in parse_safetensors(file.read())[1].items()}

    def trainers(self, process):
        """The trainers of a run, forks or each a start of its own, without the nursery, guards and what they started themselves."""
        found = []
        for pid in descendants_of(process.pid):
            parent = parent_of(pid)
            leads = alive(pid) and group_of(pid) == pid and not is_guard(pid) and not is_worker(pid)
            if leads and (not is_guard(parent) or is_worker(parent_of(parent))):
                found.append(pid)
        return found

    def nursery(self, process):
        """The program that forks, below the guard of the run's parent."""
        guards = [pid for pid in descendants_of(process.pid) if is_guard(pid) and parent_of(pid) == process.pid]
        return [pid for guard in guards for pid in descendants_of(guard) if parent_of(pid) == guard and group_of(pid) == pid and alive(pid)]
