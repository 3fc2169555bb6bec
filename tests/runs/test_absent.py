"""Samples of clients that never train change no bit: by every algorithm with its presets, and every option that may see samples.

Each pair of runs differs only in the training samples of client 3, which is --without or among --new-clients: the models, and all figures of
the record but those of new clients themselves, have to be equal.

Usage: test_absent.py PATH_OF_SOUNDER [unittest arguments]
"""
import concurrent.futures, random, re, struct, subprocess, unittest, zipfile

import test_zoo
from runs import DEADLINE, NOISE_KEY, SANITIZED, SOUNDER, RunCase, merged

CLIENTS, EACH, WIDTH, CLASSES, ABSENT = 8, 10, 6, 4, 3
TASK = ["--model", "linear 6; tanh; linear classes", "--rounds", "2", "--workers", "1", "--batch-size", "5", "--lr", "0.05", "--quiet", "--tensorboard=false", "--device", "cpu",
        "--partition", "natural-id", "--eval-clients-every", "1"]
NO_COHORTS = ("hogwild", "ssgd")
# What an algorithm wants beside what test_zoo says.
MORE = {"fedbn": ["--model", "linear 6; layernorm; tanh; linear classes"], "eamsgd": ["--momentum", "0.5"], "async-eamsgd": ["--momentum", "0.5"]}
# Options, each with an algorithm that takes them.
OPTIONS = [
    ["--class-weights", "balanced"], ["--class-weights", "1,2,3,4"], ["--sampling", "power-of-choice", "--clients-per-round", "3"],
    ["--sampling", "power-of-choice by=batch candidates=6", "--clients-per-round", "3"], ["--sampling", "power-of-choice by=last", "--clients-per-round", "3"],
    ["--sampling", "poisson", "--clients-per-round", "4"], ["--sampling", "by-size", "--clients-per-round", "4"], ["--sampling", "by-size replacement=yes", "--clients-per-round", "4"],
    ["--sampling", "cyclic shuffle=yes", "--clients-per-round", "4"], ["--sampling", "available probability=0.7", "--clients-per-round", "4"],
    ["--drop-out", "0.3"], ["--stragglers", "0.5"], ["--stragglers", "0.5 work=partial", "--local-epochs", "3"], ["--over-selection", "1.5", "--clients-per-round", "4", "--client-time", "lognormal"],
    ["--deadline", "1.5", "--client-time", "lognormal"], ["--up-bandwidth", "1e4", "--down-bandwidth", "1e5"], ["--cohort-schedule", "linear first=2 rounds=2"],
    ["--client-weights", "1,2,3,4,5,6,7,8"], ["--client-test", "0.3", "--finetune-epochs", "2"], ["--finetune-epochs", "1"], ["--client-noise", "gaussian sigma=0.3"],
    ["--drift", "labels round=2"], ["--attack", "alie", "--attackers", "1,2"], ["--attack", "label-flip", "--attackers", "1,2"],
    ["--attack", "mimic", "--attackers", "1,2", "--algorithm", "median"], ["--dp-sgd", "clip=1 noise=1"], ["--client-optimizer-state", "keep", "--momentum", "0.5"],
    ["--client-optimizer-state", "average", "--momentum", "0.5"], ["--loss", "bce"], ["--label-smoothing", "0.1"], ["--clip-grad-norm", "0.5"], ["--weight-decay", "0.1"],
    ["--lr-schedule", "cosine", "--warm-up", "1"], ["--freeze", "fc1*"], ["--inspect-updates"], ["--target", "client-accuracy=0.9", "--stop-at-target"],
    ["--patience", "1", "--patience-by", "client-loss"], ["--algorithm", "local prox; optimizer adam"], ["--algorithm", "fedavg; server adam"],
    ["--algorithm", "send masked; combine mean uniform"], ["--algorithm", "combine qffl 2", "--class-weights", "balanced"], ["--algorithm", "fedper", "--target", "accuracy=0.99"],
]
# Fields about this process, the file's notes, or the new clients themselves.
OTHER = re.compile(r"time|(?!simulated).*seconds|samples_per_second|(?!up_|down_).*bytes|.*sha256|new_clients_")


def npz(path, arrays):
    """An archive of .npy files, without NumPy."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, (kind, shape, values) in arrays.items():
            head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({', '.join(map(str, shape))},), }}"
            head += " " * (-(len(head) + 11) % 64) + "\n"
            archive.writestr(name + ".npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack(f"<{len(values)}{'f' if 'f' in kind else 'q'}", *values))


class Absent(RunCase):
    def setUp(self):
        super().setUp()
        draw = random.Random(1)
        labels = [draw.randrange(CLASSES) for _ in range(CLIENTS * EACH)]
        samples = [[draw.gauss(label * 0.5, 1) for _ in range(WIDTH)] for label in labels]
        tests = [draw.gauss(0, 1) for _ in range(20 * WIDTH)], [draw.randrange(CLASSES) for _ in range(20)]
        for name in "xy":
            if name == "y":  # other samples of the absent client, and of one class alone
                for i in range(ABSENT * EACH, (ABSENT + 1) * EACH):
                    samples[i], labels[i] = [draw.gauss(5, 10) for _ in range(WIDTH)], 0
            npz(self.path(name + ".npz"), {"x_train": ("<f4", (len(labels), WIDTH), sum(samples, [])), "y_train": ("<i8", (len(labels),), labels),
                                           "client_train": ("<i8", (len(labels),), [i // EACH for i in range(len(labels))]),
                                           "x_test": ("<f4", (20, WIDTH), tests[0]), "y_test": ("<i8", (20,), tests[1])})

    def figures(self, run):
        return [{key: value for key, value in entry.items() if not OTHER.match(key)} for entry in self.metrics(run)
                if entry["type"] in ("round", "client", "clients_evaluation", "summary") and not entry.get("model", "").startswith("new")]

    def compare(self, number, options):
        """What differs; "" if nothing does."""
        runs = [f"{number}{name}" for name in "xy"]
        if any(word.startswith(("dp-", "local-dp", "--dp-sgd")) or "noise " in word for word in options):
            options = [*options, "--noise-key", NOISE_KEY]  # else other data have other noise
        for run in runs:
            done = subprocess.run([SOUNDER, "train", *merged(*TASK, *options), "--data", f"./{run[-1]}.npz", "--out", run], cwd=self.folder.name,
                                  text=True, capture_output=True, timeout=DEADLINE)
            if done.returncode:
                return f"{done.returncode}: {done.stderr}"
        first, second = map(self.figures, runs)
        unlike = [(key, a.get(key), b.get(key)) for a, b in zip(first, second) for key in a if a.get(key) != b.get(key)]
        return str(unlike[:3]) if unlike else "" if len(first) == len(second) else "more lines"

    def compare_all(self, rows):
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            found = list(pool.map(lambda row: self.compare(*row), enumerate(rows)))
        return [(row, words) for row, words in zip(rows, found) if words]

    def algorithms(self):
        for name in test_zoo.zoo()[::4 if SANITIZED else 1]:
            if name not in NO_COHORTS and (name, "all") not in test_zoo.REASONS:
                yield ["--algorithm", test_zoo.NUMBERS.get(name, name), *[word for word in test_zoo.MORE.get(name, []) if word not in ("--clients", "8")],
                       *MORE.get(name, [])]

    def check(self, without, refused):
        rows = [[*row, *without] for row in [*self.algorithms(), *OPTIONS]]
        for row, words in self.compare_all(rows):
            with self.subTest(row):
                self.assertTrue(words.startswith("64: ") and any(sentence in words for sentence in refused), words)

    def test_of_an_absent_client(self):
        self.check(["--without", str(ABSENT)], ("its server trains on samples of all clients", "with schedule buffered its clients all arrive"))

    def test_of_a_new_client(self):
        self.check(["--new-clients", str(ABSENT)], ("its server trains on samples of all clients",))

    def test_with_a_client_that_trains_they_change_the_model(self):
        self.assertEqual(len(self.compare_all([[], ["--class-weights", "balanced", "--without", "1"]])), 2)


if __name__ == "__main__":
    unittest.main(argv=[__file__, *__import__("sys").argv[2:]])
