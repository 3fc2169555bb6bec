"""The table's rows: what is run, on which sides, and what the project promises. README.md says what each one means."""
import itertools, os, tempfile
from dataclasses import dataclass

from .commands import PEERS, PeakPrivateMemory, rate_of_rounds, summary_of
from .machine import BUILD, ROOT
from .measure import Row, Target

MODELS_SLOTS = (4, 16)
WIDE = {"mlp-2048": ("linear 2048; relu; linear 2048; relu; linear 10", 128),  # layers, batch
        "mlp-4096": ("linear 4096; relu; linear 4096; relu; linear 10", 512)}
WIDE_DATA = "synthetic:3x32x32:4096:2000"
DEEP_DATA = "synthetic:3x32x32:2048:200"
DEEP = {"resnet20": (None, 32, 2.5),  # layers as Sounder writes them (None: of the zoo), batch, promise
        "vgg": ("conv 64 3 pad 1; relu; conv 64 3 pad 1; relu; pool 2; conv 128 3 pad 1; relu; conv 128 3 pad 1; relu; pool 2; "
                "linear 256; relu; linear 10", 32, 3),
        "pointwise": ("conv 64 1; relu; conv 256 1; relu; pool 8; linear 10", 64, 1.5)}
CROSSOVER_LAYERS = ((784, 512), (3072, 512), (2048, 2048), (4096, 4096))  # inputs, outputs; the first is not wide
CROSSOVER_SAMPLES = (16, 32, 64, 96, 128, 512)
CROSSOVER_PRODUCTS = {"forward": "outputs", "input": "input gradient", "weight": "weight gradient and step"}
MODEL_SIZES = {"20k": 20_000, "200k": 200_000, "1.7M": 1_700_000, "11M": 11_000_000}

TURN_SIZES = {"22k": 22_000, "200k": 200_000, "11M": 11_000_000}
TURN_LIMITS = {"22k": {"c": 30, "numpy": 50, "torch": 300}, "200k": {"c": 50, "numpy": 75, "torch": 350}, "11M": {"c": 6000}}
SWEEP_SEEDS, SWEEP_RATES = range(1, 7), (0.02, 0.05, 0.1)
SEND_CODES = "top-k", "random-k", "qsgd", "terngrad", "fedpaq", "ef-sgd", "signsgd"
SERVER_RULES = "momentum", "adagrad", "adam", "yogi", "bmuf"


@dataclass(frozen=True)
class Sizes:
    """How much work one measurement is, and how long all of them may take."""

    seconds: float
    rounds: int  # of whole runs
    samples: dict  # model -> training samples, for Sounder and for the peer
    peer_samples: int  # of the peers that take a DataLoader's time
    fedavg_rounds: int
    averaging_seconds: float
    waits: int  # at the barrier
    slow_pairs: int  # pairs of rows whose peer takes longest
    left_out: tuple  # rows that are measured only when they are asked for by name


FULL = Sizes(float("inf"), 3, {"lenet": (60000, 30000), "2nn": (60000, 30000), "cnn": (3000, 2000), "cnn-1": (1000, 500),
                               "softmax": (60000, 60000), "mlp-2048": (4096, 2048), "mlp-4096": (2048, 2048),
                               "resnet20": (960, 480), "vgg": (960, 480), "pointwise": (1280, 640)},
             12000, 20, 0.5, 5000, 5, ("linear-crossover-*",))
QUICK = Sizes(160, 1, {"lenet": (60000, 12000), "2nn": (30000, 6000), "cnn": (1000, 600), "cnn-1": (400, 200),
                       "softmax": (60000, 30000), "mlp-2048": (2048, 1024), "mlp-4096": (1024, 512),
                       "resnet20": (320, 160), "vgg": (320, 160), "pointwise": (640, 320)},
              3000, 5, 0.1, 1000, 1, ("linear-crossover-*", "*-mlp-4096", "train-vgg", "fedavg-2nn-jax", "hogwild-1", "hogwild-4", "ssgd-1",
              "cold-start-first", "averaging-*0k", "averaging-*11M", "local-*", "server-*", "send-*", "rows-*"))


class Catalogue:
    """Builds rows for given programs, PyTorch interpreters (newest first) and sizes."""

    def __init__(self, programs, torches, sizes):
        self.programs, self.torches, self.sizes = programs, torches, sizes

    def against_torch(self, name, title, unit, ours, peer, **row):
        """ours: a figure; peer(torch): a figure, or None for a row without a PyTorch side."""
        runs = [lambda: {"Sounder": ours()}]
        runs += [lambda torch=torch: {torch.label: peer(torch)} for torch in self.torches]
        return Row(name, title, unit, runs, **row)

    def all(self):
        rows = [self.seed_job(), *self.training(), *self.deep(), *self.wide(), *self.crossover(), *self.hogwild(), *self.ssgd()]
        rows += [self.fedavg(), self.fedavg_jax(), *self.local_rules(), *self.send_codes(), *self.side_by_side(), *self.server_rules(), self.evaluation()]
        rows += [*self.sweeps(), *self.cold_start(), *self.averaging(), *self.barrier(), *self.group()]
        return rows + [*self.trainer_turns(), self.memory(), *self.scaling()]

    def seed_job(self):
        programs, rounds = self.programs, self.sizes.rounds
        return self.against_torch(
            "seed-job", "seed job, 4 workers, whole rounds", "samples/s",
            lambda: rate_of_rounds(programs.train(workers=4, rounds=rounds)),
            lambda torch: rate_of_rounds(programs.peer(torch, "seed", workers=4, rounds=rounds)),
            target=Target(ratio=10), pairs=self.sizes.slow_pairs)

    def training(self):
        promised = {"lenet": ("lenet", 64, 4), "2nn": ("2nn", 10, 4), "cnn": ("cnn", 10, 3), "cnn-1": ("cnn", 1, 2),
                    "softmax": ("softmax", 64, None)}
        for name, (model, batch, ratio) in promised.items():
            ours, theirs = self.sizes.samples[name]
            yield self.against_torch(
                f"train-{name}", f"{model} training, batch {batch}, one core", "samples/s",
                lambda m=model, b=batch, n=ours:
                    self.programs.micro("train", model=m, batch=b, samples=n)["samples_per_second"],
                lambda torch, m=model, b=batch, n=theirs:
                    rate_of_rounds(self.programs.peer(torch, "tuned", model=m, batch_size=b, samples=n)),
                target=Target(ratio=ratio) if ratio else None)

    def deep(self):
        """Nets of many convolutions, on images like CIFAR's."""
        for name, (layers, batch, ratio) in DEEP.items():
            ours, theirs = self.sizes.samples[name]
            words = {"model": name} if layers is None else {"layers": layers}
            yield self.against_torch(
                f"train-{name}", f"{name} training, batch {batch}, one core", "samples/s",
                lambda m=layers or name, b=batch, n=ours: self.programs.micro(
                    "train", data=DEEP_DATA, model=m, batch=b, samples=n)["samples_per_second"],
                lambda torch, b=batch, n=theirs, w=words: rate_of_rounds(
                    self.programs.peer(torch, "tuned", data=DEEP_DATA, batch_size=b, samples=n, rounds=2, **w)[1:]),
                target=Target(ratio=ratio))

    def wide(self):
        """Nets of wide layers, through OpenBLAS."""
        for name, (layers, batch) in WIDE.items():
            ours, theirs = self.sizes.samples[name]
            shared = {"data": WIDE_DATA, "batch_size": batch}
            yield self.against_torch(
                f"train-{name}", f"{name} training, batch {batch}, one core", "samples/s",
                lambda m=layers, b=batch, n=ours: self.programs.micro(
                    "train", data=WIDE_DATA, model=m, batch=b, samples=n)["samples_per_second"],
                lambda torch, m=name, n=theirs, s=shared:
                    rate_of_rounds(self.programs.peer(torch, "tuned", model=m, samples=n, **s)),
                target=Target(ratio=1.6))
            yield self.against_torch(
                f"evaluate-{name}", f"{name} evaluation, one core", "samples/s",
                lambda m=layers: self.programs.micro(
                    "evaluate", data=WIDE_DATA, model=m, samples=2000)["samples_per_second"],
                lambda torch, m=name, s=shared:
                    self.programs.peer(torch, "tuned", model=m, samples=s["batch_size"], **s)[0]["evaluated_per_second"])

    def crossover(self):
        """Below which number of samples our own products win; measured when it is asked for by name."""
        for product, title in CROSSOVER_PRODUCTS.items():
            for inputs, outputs in CROSSOVER_LAYERS:
                for samples in CROSSOVER_SAMPLES:
                    shape = {"inputs": inputs, "outputs": outputs, "batch": samples}
                    yield Row(f"linear-crossover-{product}-{inputs}x{outputs}-{samples}",
                              f"{title} of {inputs} x {outputs}, {samples} samples", "GFLOP/s",
                              [lambda p=product, s=shape: self.both_products(p, s)])

    def both_products(self, product, shape):
        figures = self.programs.micro("linear", seconds=0.2, **shape)
        return {"OpenBLAS": figures[f"{product}_blas_gflop_per_second"],
                "own": figures[f"{product}_own_gflop_per_second"]}

    def hogwild(self):
        for workers in (1, 2, 4):
            yield self.against_torch(
                f"hogwild-{workers}", f"hogwild, lenet, {workers} worker{'s' * (workers > 1)}", "samples/s",
                lambda w=workers: rate_of_rounds(self.programs.train(algorithm="hogwild", workers=w, rounds=1)),
                lambda torch, w=workers: rate_of_rounds(
                    self.programs.peer(torch, "hogwild", workers=w, samples=self.sizes.peer_samples)),
                target=Target(ratio=10) if workers == 2 else None, pairs=self.sizes.slow_pairs)

    def ssgd(self):
        for workers in (1, 2):
            yield self.against_torch(
                f"ssgd-{workers}", f"ssgd, lenet, {workers} worker{'s' * (workers > 1)}", "samples/s",
                lambda w=workers: rate_of_rounds(self.programs.train(algorithm="ssgd", workers=w, rounds=1)),
                lambda torch, w=workers: rate_of_rounds(
                    self.programs.peer(torch, "ssgd", workers=w, samples=self.sizes.peer_samples)),
                pairs=self.sizes.slow_pairs)

    def fedavg(self):
        shared = {"model": "2nn", "clients": 100, "clients_per_round": 10, "batch_size": 10}
        rounds = self.sizes.fedavg_rounds
        return self.against_torch(
            "fedavg-2nn", "fedavg, 2nn, 100 clients, C=0.1 E=1 B=10, one core", "samples/s",
            lambda: rate_of_rounds(self.programs.train(workers=1, partition="iid", rounds=rounds, **shared)),
            lambda torch: rate_of_rounds(self.programs.peer(torch, "fedavg", rounds=max(1, rounds // 5), **shared)),
            target=Target(ratio=4))

    def fedavg_jax(self):
        """Both on one core and without momentum; JAX compiles the round beforehand, which is not counted."""
        shared = {"model": "2nn", "clients": 100, "clients_per_round": 10, "batch_size": 10}
        rounds = self.sizes.fedavg_rounds
        runs = [lambda: {"Sounder": rate_of_rounds(self.programs.train(workers=1, partition="iid", rounds=rounds, lr=0.1,
                                                                       momentum=0, **shared))}]
        runs += [lambda torch=torch: {f"JAX {torch.jax}": rate_of_rounds(
                     self.programs.peer(torch, "jax_core", rounds=rounds, momentum=None, **shared)[1:])}
                 for torch in self.torches if torch.jax]
        return Row("fedavg-2nn-jax", "fedavg, 2nn, 100 clients, C=0.1 E=1 B=10, one core, beside JAX", "samples/s", runs,
                   target=Target(ratio=1.4, against="JAX"))

    def local_rules(self):
        """What a local rule costs: the same job as FedAvg's, without momentum, as published, and with it."""
        shared = {"model": "2nn", "clients": 100, "clients_per_round": 10, "batch_size": 10, "workers": 1,
                  "partition": "iid", "rounds": self.sizes.fedavg_rounds}
        rules = ("fedprox", 0.85), ("feddyn", 0.85), ("fednova", 0.85), ("scaffold", 0.7)
        for (rule, least), momentum in itertools.product(rules, (0, 0.5)):
            yield Row(f"local-{rule}" + ("-momentum" if momentum else ""),
                      f"{rule}, 2nn, 100 clients, 10 a round, B=10, momentum {momentum}, one core", "samples/s",
                      [lambda r=name, m=momentum: {r: rate_of_rounds(self.programs.train(algorithm=r, momentum=m, **shared))}
                       for name in (rule, "fedavg")], target=Target(ratio=least, against="fedavg"))

    def send_codes(self):
        """What it costs that clients encode their updates: the same job as FedAvg's."""
        shared = {"model": "2nn", "clients": 100, "clients_per_round": 10, "batch_size": 10, "workers": 1,
                  "partition": "iid", "rounds": self.sizes.fedavg_rounds}
        for code in SEND_CODES:
            yield Row(f"send-{code}", f"{code}, 2nn, 100 clients, 10 a round, B=10, one core", "samples/s",
                      [lambda r=name: {r: rate_of_rounds(self.programs.train(algorithm=r, **shared))}
                       for name in (code, "fedavg")], target=Target(ratio=0.5, against="fedavg"))

    def side_by_side(self):
        """Rules that see all updates, by the core's own clock."""
        yield Row("rows-krum", "Krum of 100 updates of 2nn, beside its products alone, one core", "ms",
                  [self.krum], less_is_better=True, target=Target(ratio=1 / 1.5, against="OpenBLAS"))
        for rule in ("median", "trimmed"):
            yield Row(f"rows-{rule}", f"{rule} of 100 updates of cnn, time a value, one core", "ns",
                      [lambda r=rule: {r: 1e9 / self.rows("1.7M")[f"{r}_values_per_second"]}], less_is_better=True,
                      target=Target(limit=5))  # 200 million values a second

    def rows(self, size):
        return self.programs.micro("rows", slots=100, parameters=MODEL_SIZES[size], seconds=self.sizes.averaging_seconds)

    def krum(self):
        figures = self.rows("200k")
        return {"krum": 1e3 * figures["krum_seconds"], "OpenBLAS": 1e3 * figures["blas_seconds"]}

    def server_rules(self):
        """Sums of two workers."""
        for rule in SERVER_RULES:
            yield Row(f"server-{rule}", f"step of server {rule}, 2nn, 2 workers' sums", "ms",
                      [lambda r=rule: self.beside_average(r)], less_is_better=True,
                      target=Target(ratio=0.5, against="average"))

    def beside_average(self, rule):
        figures = self.programs.micro("server-rules", rule=rule, slots=2, parameters=MODEL_SIZES["200k"],
                                      seconds=self.sizes.averaging_seconds)
        return {rule: 1e3 * figures["seconds"], "average": 1e3 * figures["average_seconds"]}

    def evaluation(self):
        return self.against_torch(
            "evaluate", "evaluation of 10,000 images, lenet, one core", "samples/s",
            lambda: self.programs.micro("evaluate", model="lenet", samples=10000)["samples_per_second"],
            lambda torch: self.programs.peer(torch, "tuned", samples=640)[0]["evaluated_per_second"])

    def cold_start(self):
        """Whether an earlier run has left anything in the user's cache is decided by the cache folder it is given."""
        for name, title, milliseconds in (("cold-start", "cold start of 4 workers, data used by an earlier run", 50),
                                          ("cold-start-first", "cold start of 4 workers, first run on the data", 400)):
            yield self.against_torch(
                name, title, "ms", lambda first=name.endswith("first"): self.our_cold_start(first),
                lambda torch: 1e3 * self.programs.peer(torch, "seed", workers=4, rounds=0)[0]["cold_start_seconds"],
                less_is_better=True, target=Target(limit=milliseconds), pairs=self.sizes.slow_pairs)

    def our_cold_start(self, first):
        if first:
            with tempfile.TemporaryDirectory(dir=self.programs.folder) as cache:
                return self.cold_start_with(cache)
        cache = os.path.join(self.programs.folder, "used-cache")
        if not os.path.isdir(cache):
            os.mkdir(cache)
            self.cold_start_with(cache)
        return self.cold_start_with(cache)

    def cold_start_with(self, cache):
        """Milliseconds. SOUNDER_DATA keeps a data set findable that lies in the usual cache folder."""
        environment = {"XDG_CACHE_HOME": cache, "SOUNDER_DATA": os.path.dirname(self.programs.peer_data)}
        return 1e3 * summary_of(self.programs.train(environment, workers=4, rounds=1))["cold_start_seconds"]

    def sweeps(self):
        """18 runs, which use all cores, one after the other or by `sounder sweep`, which gives each run a core."""
        for model, rounds in (("softmax", 3), ("2nn", 2)):
            words = {"model": model, "rounds": rounds, "clients": 100, "clients-per-round": 10}
            yield Row(f"sweep-{model}", f"18 runs of {model}, {rounds} rounds, 100 clients, 10 a round", "s",
                      [lambda w=words: {"one sweep": self.programs.sweep(SWEEP_SEEDS, SWEEP_RATES, **w)},
                       lambda w=words: {"18 runs": self.programs.runs_in_turn(SWEEP_SEEDS, SWEEP_RATES, **w)}],
                      less_is_better=True, target=Target(ratio=1 / 0.6, against="18 runs"))

    def averaging(self):
        for size, parameters in MODEL_SIZES.items():
            for slots in MODELS_SLOTS:
                shared = {"slots": slots, "parameters": parameters}
                row = self.against_torch(
                    f"averaging-{slots}x{size}", f"averaging of {slots} models of {size}", "ms", None,
                    lambda torch, s=shared: 1e3 * self.programs.peer(torch, "averaging", **s)[0]["seconds"],
                    less_is_better=True, pairs=self.sizes.slow_pairs,
                    target=Target(ratio=0.77, against="memory bound") if parameters >= 1_000_000 else None)
                row.runs[0] = lambda s=shared: self.averaging_beside_bound(s)
                yield row

    def averaging_beside_bound(self, shared):
        figures = self.programs.micro("averaging", seconds=self.sizes.averaging_seconds, **shared)
        return {"Sounder": 1e3 * figures["seconds"], "memory bound": 1e3 * figures["bound_seconds"]}

    def barrier(self):
        for ranks in (2, 4, 8):
            enough = ranks <= len(os.sched_getaffinity(0))
            yield Row(f"barrier-{ranks}", f"barrier, {ranks} processes", "ns",
                      [lambda r=ranks: self.both_barriers(r)], less_is_better=True,
                      target=Target(limit=500) if enough else None)

    def both_barriers(self, ranks):
        figures = self.programs.micro("barrier", ranks=ranks, waits=self.sizes.waits)
        return {"Sounder": figures["nanoseconds"], "pthread_barrier_t": figures["pthread_nanoseconds"]}

    def group(self):
        """Microseconds; 2 ranks, which every machine with two cores has cores for."""
        for name, title, figure, target in (
                ("all-reduce", "all_reduce of 1 MiB, 2 processes", "all_reduce_microseconds", Target(ratio=5)),
                ("all-reduce-small", "all_reduce of 8 bytes, 2 processes", "small_all_reduce_microseconds",
                 Target(limit=2)),
                ("message", "message of 8 bytes, one way", "one_way_microseconds", Target(limit=2))):
            yield self.against_torch(
                name, title, "us", lambda f=figure: self.programs.micro("group", waits=self.sizes.waits)[f],
                lambda torch, f=figure: self.programs.peer(torch, "group")[0][f], less_is_better=True, target=target)

    def trainer_turns(self):
        """A turn that trains nothing, in microseconds: the weights' way to the trainer and back, a line each way, the exact sum."""
        for size, weights in TURN_SIZES.items():
            for form, limit in TURN_LIMITS[size].items():
                own = ["c"] if form == "c" else [torch.python for torch in self.torches[:1]]
                yield Row(f"trainer-turn-{form}-{size}", f"an empty turn of a trainer, {form}, {size} weights", "us",
                          [lambda f=form, w=weights, p=program: {"Sounder": self.empty_turn(f, p, w)} for program in own],
                          less_is_better=True, target=Target(limit=limit))

    def empty_turn(self, form, python, weights):
        words = [os.path.join(BUILD, "empty_turn")] if form == "c" else [python, os.path.join(PEERS, "empty_turn.py"), form]
        clients = 200 if weights > 1_000_000 else 2000
        rounds = [line["seconds"] for line in self.programs.train(
            {"PYTHONPATH": os.path.join(ROOT, "tools", "python")}, data="synthetic:1x2x2:2000:10", trainer=" ".join(f"'{word}'" for word in words + [str(weights)]),
            partition="iid", clients=clients, workers=1, rounds=4) if line["type"] == "round"]
        return 1e6 * min(rounds[1:]) / clients

    def memory(self):
        def ours():
            peak = PeakPrivateMemory()
            self.programs.train(watch=peak, workers=4, rounds=1)
            return peak.bytes / 1e6

        def theirs(torch):
            peak = PeakPrivateMemory()
            self.programs.peer(torch, "seed", watch=peak, workers=4, rounds=1, samples=self.sizes.peer_samples)
            return peak.bytes / 1e6

        return self.against_torch("memory", "private memory of a lenet worker, peak", "MB", ours, theirs,
                                  less_is_better=True, target=Target(limit=40), pairs=self.sizes.slow_pairs)

    def scaling(self):
        programs, job = self.programs, {"clients": 8, "rounds": self.sizes.rounds}

        def rate(workers):
            return rate_of_rounds(programs.train(workers=workers, **job))

        def two_runs():
            return sum(rate_of_rounds(objects) for objects in programs.train_at_once(2, workers=1, **job))

        yield Row("scaling", "lenet, 2 workers (yardstick: two runs at once)", "samples/s",
                  [lambda: {"2 workers": rate(2)}, lambda: {"1 worker": rate(1)}, lambda: {"two runs": two_runs()}],
                  target=Target(ratio=1.9, against="1 worker"))
        yield Row("oversubscription", "lenet, 8 workers on 2 cores", "samples/s",
                  [lambda: {"8 workers": rate(8)}, lambda: {"2 workers": rate(2)}],
                  target=Target(ratio=0.95, against="2 workers"))
