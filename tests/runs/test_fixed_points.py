"""Algorithms end where mathematics says, and are each other where they should be.

Client i has the loss a_i/2 (w - b_i)^2, does K exact steps of rate lr a round, and counts w_i. After many rounds each
algorithm stands at a point that a formula gives (fixed points of its map; McMahan 2017, Li 2020, Wang 2020,
Karimireddy 2020, Acar 2021). And with the number that makes it another algorithm it has that one's bits.

Usage: test_fixed_points.py PATH_OF_SOUNDER [unittest arguments]
"""
import json, os, shutil, struct, subprocess, sys, unittest

from runs import RunCase, SOUNDER, parse_safetensors

A, B, SAMPLES = [1, 4, 0.5], [0, 3, -2], [2, 4, 2]
LR, STEPS = 0.1, 3
QUADRATICS = ["--data", "quadratics a=1,4,0.5 b=0,3,-2 samples=2,4,2", "--model", "linear 1", "--momentum", "0",
              "--batch-size", "64", "--lr", str(LR), "--local-epochs", str(STEPS), "--rounds", "400", "--eval-every", "0",
              "--checkpoint-every", "0", "--device", "cpu", "--quiet"]
BY_SAMPLES = [n / sum(SAMPLES) for n in SAMPLES]
UNIFORM = [1 / 3] * 3


def point(weights):
    return sum(v * b for v, b in zip(weights, B)) / sum(weights)


def left(pull=0):
    """How much of the way to its optimum each client leaves in a round."""
    return [(1 - LR * (a + pull)) ** STEPS for a in A]


def weights_of(path):
    """Name -> values."""
    with open(path, "rb") as file:
        return {name: values for name, (_, values) in parse_safetensors(file.read())[1].items()}


class FixedPoints(RunCase):
    def end_of(self, algorithm, *options):
        shutil.rmtree(self.path("run"), ignore_errors=True)
        self.train(*QUADRATICS, "--algorithm", algorithm, *options, "--out", "run")
        return weights_of(self.path("run", "model.safetensors"))["fc1.weight"][0]

    def check(self, algorithm, expected, *options):
        with self.subTest(algorithm):
            end = self.end_of(algorithm, *options)
            self.assertLessEqual(abs(end - expected), 1e-6 * abs(expected), f"{end}, not {expected}")

    def test_fedavg_stops_short_of_the_optimum(self):
        self.check("fedavg", point([w * (1 - q) for w, q in zip(BY_SAMPLES, left())]))

    def test_fedavg_with_uniform_weights(self):
        self.check("fedavg weights=uniform", point([1 - q for q in left()]))

    def test_fedprox(self):
        mu = 0.5
        self.check(f"fedprox mu={mu}",
                   point([w * (1 - r) * a / (a + mu) for w, r, a in zip(BY_SAMPLES, left(mu), A)]))

    def test_fednova(self):
        self.check("fednova", point([w * (1 - q) / STEPS for w, q in zip(BY_SAMPLES, left())]))

    def test_scaffold_reaches_the_optimum(self):
        self.check("scaffold", point(A))

    def test_feddyn_reaches_the_optimum(self):
        for alpha in (0.5, 1):
            self.check(f"feddyn alpha={alpha}", point(A))

    def test_server_momentum_moves_no_fixed_point(self):
        self.check("fedavgm beta=0.5", point([w * (1 - q) for w, q in zip(BY_SAMPLES, left())]))


class UnequalSteps(RunCase):
    """All samples (x, t) of a client are alike, whose loss is (w x + c - t)^2 / 2: any batch has the exact gradient, so that clients
    of 2, 4 and 6 samples take 1, 2 and 3 steps. A step leaves w and c on a line: where clients end is a number M times the
    gradient that they begin with, and the fixed point solves two linear equations."""
    X, T, SIZES, LR = [1, -0.5, 2], [1, 2, 0.5], [2, 4, 6], 0.1
    STEPS = [size // 2 for size in SIZES]

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("data"))
        for name in ("train.csv", "test.csv"):
            with open(self.path("data", name), "w") as file:
                file.write("x,target,client\n")
                for client, (x, t, size) in enumerate(zip(self.X, self.T, self.SIZES)):
                    file.write(f"{x},{t},{client}\n" * size)

    def multiples(self, pull=0):
        curvatures = [x * x + 1 + pull for x in self.X]
        return [(1 - (1 - self.LR * a) ** steps) / a for a, steps in zip(curvatures, self.STEPS)]

    def solution(self, weights):
        """Of sum v (w x + c - t) (x, 1) = 0."""
        def total(value):
            return sum(v * value(x, t) for v, x, t in zip(weights, self.X, self.T))
        xx, x1, xt, one, t1 = (total(f) for f in (lambda x, t: x * x, lambda x, t: x, lambda x, t: x * t, lambda x, t: 1, lambda x, t: t))
        det = xx * one - x1 * x1
        return (xt * one - x1 * t1) / det, (xx * t1 - x1 * xt) / det

    def test_each_algorithm_ends_where_its_equations_say(self):
        shares = [size / sum(self.SIZES) for size in self.SIZES]
        moved, mu = self.multiples(), 0.5
        for algorithm, weights in (
                ("fedavg", [p * m for p, m in zip(shares, moved)]),
                (f"fedprox mu={mu}", [p * m for p, m in zip(shares, self.multiples(mu))]),
                ("fednova", [p * m / steps for p, m, steps in zip(shares, moved, self.STEPS)]),
                ("scaffold", [1, 1, 1]), ("feddyn alpha=0.5", [1, 1, 1])):
            with self.subTest(algorithm):
                shutil.rmtree(self.path("run"), ignore_errors=True)
                self.train("--data", self.path("data"), "--model", "linear 1", "--momentum", "0", "--batch-size", "2", "--lr", str(self.LR),
                           "--rounds", "600", "--eval-every", "0", "--checkpoint-every", "0", "--device", "cpu", "--quiet",
                           "--algorithm", algorithm, "--out", "run")
                end = weights_of(self.path("run", "model.safetensors"))
                for actual, expected in zip((end["fc1.weight"][0], end["fc1.bias"][0]), self.solution(weights)):
                    self.assertLessEqual(abs(actual - expected), 1e-6 * abs(expected) + 1e-7, f"{actual}, not {expected}")


class Scaled(RunCase):
    """A linear model whose targets and first weights are all 2^k times as large has weights that are exactly 2^k times as large, also
    where they are larger than any update may be: a power of two scales floats and sums without rounding."""
    X, T, SIZES = [0.5, -0.5, 1], [1e6, 1.02e6, 0.97e6], [2, 4, 6]
    LATE, TWO = ("--client-time", "exponential"), ("--clients-per-round", "2")
    CASES = (("fedavg", ()), ("fedavg", TWO), ("fedbuff K=2", LATE), ("semi-sync", LATE), ("fedasync lr=1", LATE), ("fedasync lr=1", LATE + TWO),
             ("asgd", LATE), ("downpour", LATE), ("staleness-aware", LATE), ("ssgd", ()), ("hogwild", ("--workers", "1", "--clients", "1")))

    def setUp(self):
        super().setUp()
        zeros = {"fc1.weight": {"dtype": "F32", "shape": [1, 1], "data_offsets": [0, 4]},
                 "fc1.bias": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}
        header = json.dumps(zeros).encode()
        with open(self.path("zeros.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header + bytes(8))
        for scale in (1, 32):
            os.mkdir(self.path(f"times {scale}"))
            for name in ("train.csv", "test.csv"):
                with open(self.path(f"times {scale}", name), "w") as file:
                    file.write("x,target,client\n")
                    for client, (x, t, size) in enumerate(zip(self.X, self.T, self.SIZES)):
                        file.write(f"{x},{scale * t},{client}\n" * size)

    def end_of(self, algorithm, scale, options):
        shutil.rmtree(self.path("run"), ignore_errors=True)
        _, err = self.train("--data", f"times {scale}", "--model", "linear 1", "--init", "zeros.safetensors", "--batch-size", "2",
                            "--lr", "0.005", "--rounds", "350", "--eval-every", "0", "--checkpoint-every", "0", "--device", "cpu", "--quiet",
                            "--algorithm", algorithm, *options, "--out", "run")
        self.assertEqual(err, "")  # no update is refused
        return [w for values in weights_of(self.path("run", "model.safetensors")).values() for w in values]

    def test_scaled_targets_give_scaled_weights_with_every_schedule(self):
        for algorithm, options in self.CASES:
            with self.subTest(algorithm, options=options):
                small, large = (self.end_of(algorithm, scale, options) for scale in (1, 32))
                self.assertGreater(max(map(abs, large)), 2 ** 24)
                self.assertEqual([32 * w for w in small], large)


TASK = {"data": "synthetic:1x8x8:300:60", "model": "2nn", "clients": "5", "clients-per-round": "3", "lr": "0.05",
        "rounds": "3", "batch-size": "16", "partition": "dirichlet", "device": "cpu", "eval-every": "0"}
ALONE = {"clients": "1", "clients-per-round": "1"}
SAME = [  # the one text, the other text, what else both change
    ("fedavg", "fedprox mu=0", {}),
    ("fedavg", "fedavgm beta=0", {}),
    ("fedavg", "fedavgm beta=0 nesterov=yes", {}),
    ("fedavg", "bmuf momentum=0", {}),
    ("fedavg", "server average lr=1", {}),
    ("fedavgm beta=0.7", "bmuf momentum=0.7", {}),
    ("fedavg weights=uniform", "scaffold", {"rounds": "1"}),
    ("fedavg", "scaffold", ALONE),
    ("fedavg", "fednova", {"partition": "iid"}),
    ("fedavg", "fednova", {"partition": "iid", "momentum": "0.9"}),
    ("fedavg", "fednova", ALONE),
    ("fedavg weights=uniform", "qfedavg q=0", {}),
    ("fedavg weights=uniform", "combine afl gamma=0", {"clients-per-round": "5"}),
    ("fedavg", "server rounds-mean", {"rounds": "1"}),
    ("fedavg weights=uniform", "trimmed share=0", {}),
    ("median", "trimmed share=0.34", {}),
    ("fedavg weights=uniform", "multi-krum byzantine=0 chosen=5", {"clients-per-round": "5"}),
    ("krum byzantine=0", "multi-krum byzantine=0 chosen=1", {}),
    ("fedavg weights=uniform", "bulyan byzantine=0", {}),
    ("fedavg", "rfa steps=0", {}),
    ("fedavg", "rfa", ALONE),
    ("easgd 0.3", "eamsgd 0.3; optimizer sgd nesterov=no", {}),
    ("async-easgd 0.3", "async-eamsgd 0.3; optimizer sgd nesterov=no", {"clients-per-round": "5"}),
    ("asgd", "downpour steps=1", {"momentum": None, "clients-per-round": "5"}),
    ("fedavg weights=uniform", "norm-bound norm=1e30", {}),
    ("fedavg weights=uniform", "centered-clipping radius=1e30", {}),
    ("krum byzantine=0", "mix buckets size=1; combine krum byzantine=0", {}),
    ("trimmed 0.34", "mix buckets size=1; combine trimmed 0.34", {}),
    ("fedavg weights=uniform", "mix buckets size=3; combine median", {}),
    ("fedavg weights=uniform", "mix nearest byzantine=0; combine mean uniform", {}),
    ("fedavg weights=uniform", "mix buckets size=9; combine geometric weights=uniform", {}),
    ("median; server adam", "trimmed share=0.34; server adam", {"workers": "3"}),
    ("fedavg", "ditto", {}),
    ("fedavg", "ditto lambda=0", {}),
    ("fedavg", "apfl", {}),
    ("fedavg", "ifca clusters=1", {}),
    ("fedprox", "fedprox; personal mixed alpha=0.2", {"workers": "3"}),
    ("fedrep head-epochs=0", "fedbabu", {"workers": "3"}),
    ("fedrep head-epochs=0", "fedbabu tunes=head epochs=1", {}),
    ("fedprox", "fedprox; personal ditto lambda=0.3 epochs=2", {}),
]
UNEQUAL = {"partition": "linear"}
DIFFERENT = [("fedavg", "fedprox mu=0.1", {}), ("fedavg", "scaffold", {}), ("fedavg", "feddyn", {}),
             ("fedavg", "fednova", UNEQUAL), ("fedavg", "fedavgm", {}), ("scaffold", "scaffold lr=0.5", {}),
             ("feddyn", "feddyn scaled=yes", UNEQUAL),
             ("fedavg weights=uniform", "trimmed share=0.34", {}), ("fedavg weights=uniform", "krum byzantine=0", {}),
             ("fedavg", "rfa", {}), ("rfa", "rfa weights=uniform", {}), ("fedavg weights=uniform", "norm-bound norm=0.01", {}),
             ("fedavg weights=uniform", "centered-clipping radius=0.01", {}),
             ("krum byzantine=0", "mix nearest 1; combine krum byzantine=0", {}), ("qfedavg q=0", "qfedavg q=1", {}),
             ("combine afl gamma=0", "combine afl gamma=1", {"clients-per-round": "5"}), ("fedavg", "server rounds-mean", {})]


class Reductions(RunCase):
    def bits(self, algorithm, changed):
        momentum = {} if "optimizer adam" in algorithm else {"momentum": "0.5"}
        options = {**TASK, **momentum, **changed}
        words = [word for name, value in options.items() if value is not None for word in (f"--{name}", value)]
        shutil.rmtree(self.path("run"), ignore_errors=True)
        self.train(*words, "--quiet", "--algorithm", algorithm, "--out", "run")
        return hash(tuple(sorted(weights_of(self.path("run", "model.safetensors")).items())))

    def test_reduced_algorithms_have_the_bits_of_the_simpler_one(self):
        for one, other, changed in SAME:
            with self.subTest(f"{one} = {other}", **changed):
                self.assertEqual(self.bits(one, changed), self.bits(other, changed))

    def test_what_stays_with_the_clients_never_moves_in_the_global_model(self):
        for algorithm, still in (("fedper", ["fc3"]), ("fedrep head-epochs=1", ["fc3"]), ("lg-fedavg", ["fc1", "fc2"]),
                                 ("fedbabu", ["fc3"]),
                                 ("fedper layers=2", ["fc2", "fc3"]), ("local-only", ["fc1", "fc2", "fc3"])):
            with self.subTest(algorithm):
                self.bits(algorithm, {"rounds": "1"})
                early = weights_of(self.path("run", "model.safetensors"))
                self.bits(algorithm, {})
                late = weights_of(self.path("run", "model.safetensors"))
                moved = {name.split(".")[0] for name in early if early[name] != late[name]}
                self.assertEqual(moved, {"fc1", "fc2", "fc3"} - set(still))

    def test_a_kept_optimizer_is_a_fresh_one_in_a_clients_first_turn(self):
        keep, changed = {"client-optimizer-state": "keep"}, {"rounds": "1"}
        for algorithm in ("fedavg", "optimizer adam", "fedprox"):
            with self.subTest(algorithm):
                self.assertEqual(self.bits(algorithm, changed), self.bits(algorithm, {**changed, **keep}))
        for algorithm in ("fedavg", "optimizer adam", "optimizer sgd nesterov=yes"):
            with self.subTest(algorithm):
                self.assertNotEqual(self.bits(algorithm, {}), self.bits(algorithm, keep))
                self.assertEqual(self.bits(algorithm, {**keep, "workers": "1"}), self.bits(algorithm, {**keep, "workers": "3"}))
        self.train("--algorithm", "scaffold", "--client-optimizer-state", "keep", code=64)

    def test_an_averaged_momentum_is_a_fresh_one_in_the_first_round(self):
        average, once = {"client-optimizer-state": "average"}, {"rounds": "1"}
        self.assertEqual(self.bits("fedavg", once), self.bits("fedavg", {**once, **average}))
        for algorithm in ("fedavg", "fedprox", "send clip 1; server adam"):
            with self.subTest(algorithm):
                one = self.bits(algorithm, {**average, "workers": "1"})
                self.assertEqual(one, self.bits(algorithm, {**average, "workers": "3"}))
                self.assertNotIn(one, (self.bits(algorithm, {}), self.bits(algorithm, {"client-optimizer-state": "keep"})))
        for algorithm, name in (("optimizer adam", "optimizer adam"), ("scaffold", "local scaffold"), ("fedper", "personal head"),
                                ("median", "combine median"), ("fednova", "combine nova"),
                                ("norm-bound", "combine bound"), ("send clip 1; send noise 1", "send noise")):
            done = subprocess.run([SOUNDER, "train", "--algorithm", algorithm, "--client-optimizer-state", "average"], text=True,
                                  capture_output=True, cwd=self.folder.name)
            self.assertEqual(done.returncode, 64)
            self.assertIn(f"--client-optimizer-state average does not go with {name} of --algorithm: ", done.stderr)

    def test_and_otherwise_they_do_not(self):
        for one, other, changed in DIFFERENT:
            with self.subTest(f"{one}, {other}"):
                self.assertNotEqual(self.bits(one, changed), self.bits(other, changed))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
