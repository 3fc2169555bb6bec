"""Every algorithm that has a name, in whole runs: the same bits whatever happens to the processes.

The names are read from `sounder help algorithms`, so that a new one is in this table by itself. Where an algorithm cannot
have a column, REASONS says why, and the program has to refuse it or to have other bits.

Usage: test_zoo.py PATH_OF_SOUNDER [unittest arguments]; with the program on the emulated card the runs are on that.
"""
import csv, json, os, random, re, shutil, signal, subprocess, unittest

from runs import BEYOND_ANY_MACHINE, DEADLINE, NOISE_KEY, SANITIZED, SOUNDER, RunCase, merged, parse_safetensors
from test_nodes import ENVIRONMENT, can_run as why_no_nodes

ON_CARD = "emulated" in os.path.basename(SOUNDER)
TASK = ["--data", "synthetic:1x8x8:240:60", "--model", "conv 3 3; pool 2; relu; linear 10", "--batch-size", "10", "--quiet",
        "--rounds", "3", "--eval-every", "0", "--device", "cuda" if ON_CARD else "cpu"]
CLIENTS = ["--clients", "4", "--partition", "dirichlet"]

# (algorithm, column) -> why there is no such column; the sentence is part of what the program says, where it refuses.
REASONS = {
    ("hogwild", "workers"): None,  # its bits depend on who comes first: only one worker has any
    ("hogwild", "storm"): None,
    ("hogwild", "killed"): None,   # and a killed worker's steps of the round stay in the weights
    ("hogwild", "nodes"): "its workers write one piece of memory",
}
for name in ("pfedme", "apfl", "ifca", "moon"):
    REASONS[name, "card"] = " of --algorithm is for the CPU alone"
REASONS["fltrust", "card"] = "combine fltrust of --algorithm is for the CPU alone"
REASONS["secagg", "card"] = "send masked of --algorithm is for the CPU alone"
REASONS["afl", "card"] = "server rounds-mean of --algorithm is for the CPU alone"
for name in ("flexlora", "fedex-lora"):  # tests/runs/test_adapters.py runs them
    REASONS[name, "all"] = "no tensor of the net has lora_A in its name"
COLUMNS = ("workers", "storm", "killed", "nodes")
LATE = ("fedbuff", "fedasync", "asgd", "dc-asgd", "downpour", "staleness-aware", "semi-sync", "async-easgd", "async-eamsgd", "async-diloco")
for name in LATE:
    REASONS[name, "card"] = "schedule buffered of --algorithm is for the CPU alone"
REASONS["streaming-diloco", "card"] = "schedule rounds of --algorithm with fragments is for the CPU alone"
for name in ("easgd", "eamsgd"):
    REASONS[name, "card"] = "local elastic of --algorithm is for the CPU alone"
# What so few clients need: noise in their count that is below that of their updates, a buffer that they do not fill.
NUMBERS = {"streaming-diloco": "streaming-diloco H=7 fragments=2", "dp-adaptive": "dp-adaptive noise=0.3", "fedbuff": "fedbuff K=2", "ffa-lora": "ffa-lora names=*.bias", "fedsa-lora": "fedsa-lora names=*.bias",
           "fedex-lora": "fedex-lora scale=2"}
# What an algorithm wants of the world.
MORE = {**{name: ["--client-time", "lognormal", "--seed", "2"] for name in (*LATE, "dc-asgd lambda=0")},
        "dp-ftrl": ["--sampling", "cyclic", "--clients-per-round", "1"],
        **{name: ["--clients", "8"] for name in ("krum", "multi-krum", "bulyan", "trimmed")}}  # which make no sense of so few
FAILING = {"streaming-diloco": ["--failures", "mtbf=3 repair=1"]}  # on the simulated clock, beside kills of workers
STILL = ("pfedme", "asgd", "dc-asgd", "staleness-aware", "diloco", "streaming-diloco", "sparseloco", "async-diloco")  # whose clients' steps know no momentum
# Texts that come to the same algorithm, bit for bit.
SAME = {
    "fedavg": ["schedule buffered K=4 dispatch=publish", "fedbuff lag=0 dispatch=publish; combine mean samples", "send top-k 1", "send top-k 1 feedback=no", "send top-k 1 per=tensor", "send random-k 1 per=tensor", "send random-k 1", "send threshold 0", "send clip 1e5; send noise 0", "send masked"],
    "fedavg weights=uniform": ["fedbuff lag=0 dispatch=publish", "semi-sync lag=0", "dp-fedavg norm=1e5 noise=0", "send adaptive-clip rate=0 norm=1e5; combine mean uniform"],
    "asgd": ["dc-asgd lambda=0"],
    "fedprox": ["local prox; send top-k 1"],
    "fedper": ["fedper; send top-k 1 feedback=no"],
    "fedbn": ["fedbn; send top-k 1 feedback=no"],
    "scaffold": ["scaffold; send random-k 1", "scaffold; send masked"],
    "feddyn": ["feddyn; send masked"],
    "dp-fedavg": ["dp-fedavg; send masked"],
    "easgd alpha=0.5": ["easgd 0.5; send masked", "eamsgd 0.5; optimizer sgd"],
    "local-sgd": ["post-local-sgd warmup=0", "local-sgd; send masked"],
    "local-sgd steps=1": ["post-local-sgd"],
    "diloco H=5": ["diloco steps=5; server nesterov lr=0.7 every=1", "streaming-diloco H=5 fragments=1 delay=0"],
}


def zoo():
    text = subprocess.run([SOUNDER, "help", "algorithms"], text=True, stdout=subprocess.PIPE, check=True).stdout
    return re.findall(r"^  ([a-z][a-z0-9-]*): ", text, re.MULTILINE)


class Zoo(RunCase):
    models = {}  # by one worker, as far as tests have asked for them: algorithm -> SHA-256

    def task(self, algorithm):
        return [*TASK, *([] if algorithm.startswith(STILL) else ["--momentum", "0.5"])]

    def options(self, algorithm):
        task = self.task(algorithm)
        if algorithm.startswith("fedbn"):  # it is about such layers
            return [word.replace("pool 2", "groupnorm 3; pool 2; layernorm") for word in task] + ["--algorithm", algorithm, *CLIENTS]
        return [*task, "--algorithm", NUMBERS.get(algorithm, algorithm), *([] if algorithm == "hogwild" else CLIENTS),
                *MORE.get(algorithm, []), *FAILING.get(algorithm, [])]

    def lacks(self, algorithm, column):
        """Whether the algorithm has no such column; if its row gives a sentence, the program has to say it."""
        key = next((key for key in ((algorithm, column), (algorithm, "all")) if key in REASONS), None)
        if ON_CARD and (algorithm, "card") in REASONS:
            key = (algorithm, "card")
        if key is None or REASONS[key] is None:
            return key is not None
        command = [SOUNDER, "train", *merged(*self.options(algorithm)), "--workers", "1", "--out", f"refused-{algorithm}-{column}"]
        command = ["mpirun", "-np", "2", *command] if key[1] == "nodes" else command
        result = subprocess.run(command, cwd=self.folder.name, text=True, capture_output=True, env=ENVIRONMENT, timeout=DEADLINE)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn(REASONS[key], result.stderr)
        return True

    def each(self, column):
        """Algorithms and their models by one worker. With sanitizers every third algorithm: each is in one column or two."""
        first, step = (COLUMNS.index(column) % 3, 3) if SANITIZED else (0, 1)
        for algorithm in zoo()[first::step]:
            with self.subTest(algorithm):
                if not self.lacks(algorithm, column):
                    yield algorithm, self.model_of(algorithm)

    def one(self, algorithm):
        self.train(*self.options(algorithm), "--workers", "1", "--out", algorithm)
        self.models[algorithm] = self.model(algorithm)
        return self.models[algorithm]

    def model_of(self, algorithm):
        return self.models.get(algorithm) or self.one(algorithm)

    def lines(self, run, kind):
        return [line for line in self.metrics(run) if line["type"] == kind]

    def test_the_names_are_those_of_the_zoo(self):
        self.assertGreaterEqual(len(zoo()), 10)
        self.assertEqual({name for name, _ in REASONS} - set(zoo()), set(), "reasons for what is not there")
        with open(os.path.join(os.path.dirname(__file__), "..", "..", "README.md")) as file:
            self.assertIn(f"**{len(zoo())} algorithms as texts of rules**", file.read())

    @unittest.skipUnless(ON_CARD, "rows and sums of a card")
    def test_what_is_left_over_beside_a_pull_and_a_share_of_nothing_touch_no_other_sum(self):
        for algorithm in ("local prox; send top-k", "combine afl gamma=1"):
            with self.subTest(algorithm):
                expected = self.one(algorithm)
                self.train(*self.options(algorithm), "--workers", "2", "--out", "two")
                self.assertEqual(self.model("two"), expected)
                self.train(*self.options(algorithm), "--workers", "1", "--device", "cpu", "--out", "cpu")
                self.assertAlmostEqual(self.lines("two", "summary")[-1]["test_loss"], self.lines("cpu", "summary")[-1]["test_loss"], delta=1e-3)
                shutil.rmtree(self.path("two")), shutil.rmtree(self.path("cpu"))

    def test_workers(self):
        for algorithm, expected in self.each("workers"):
            for workers in ("2",) if ON_CARD else ("2", "3"):
                run = f"{algorithm}-{workers}"
                self.train(*self.options(algorithm), "--workers", workers, "--out", run)
                self.assertEqual(self.model(run), expected)

    @unittest.skipIf(ON_CARD, "local elastic is for the CPU alone")
    def test_replicas_without_a_spring_train_on_their_own(self):
        whole = {}
        for algorithm, rounds in (("local-sgd steps=12", "1"), ("easgd 0 steps=12", "1"), ("easgd 0 steps=4", "3")):
            run = algorithm.replace(" ", "-")
            self.train(*TASK, *CLIENTS, "--algorithm", algorithm, "--rounds", rounds, "--momentum", "0.9", "--workers", "2", "--out", run)
            whole[run] = {line["client"]: line["weights_xxh3"] for line in self.lines(run, "client")}
        self.assertEqual(whole["easgd-0-steps=12"], whole["local-sgd-steps=12"])
        self.assertEqual(whole["easgd-0-steps=4"], whole["local-sgd-steps=12"])
        self.assertEqual(self.model("easgd-0-steps=4"), self.model("easgd-0-steps=12"))  # the centre has not moved

    @unittest.skipIf(ON_CARD, "local elastic is for the CPU alone")
    def test_a_replica_alone_meets_the_centre_as_it_does_in_rounds(self):
        one = [*TASK, "--clients", "1", "--partition", "iid", "--momentum", "0.5"]
        for name in ("easgd", "eamsgd"):  # in rounds the first meeting, that of a replica which is the centre, comes to nothing
            self.train(*one, "--algorithm", f"{name} 0.3", "--rounds", "5", "--out", name)
            self.train(*one, "--algorithm", f"async-{name} 0.3", "--rounds", "4", "--out", "async-" + name)
            self.assertEqual(self.model("async-" + name), self.model(name))
        self.train(*TASK, *CLIENTS, "--algorithm", "async-easgd 0", "--client-time", "lognormal", "--rounds", "9", "--out", "loose")
        self.train(*TASK, *CLIENTS, "--algorithm", "async-easgd 0", "--client-time", "lognormal", "--rounds", "1", "--out", "begun")
        self.assertEqual(self.model("loose"), self.model("begun"))  # without a spring the centre does not move
        for options, why in ((["--clients-per-round", "2"], "its clients all train"), (["--drop-out", "0.1"], "its clients all arrive"),
                             (["--clock", "real"], "replicas meet the centre on the simulated clock")):
            _, err = self.train(*TASK, *CLIENTS, "--algorithm", "async-easgd", *options, "--out", "no", code=64)
            self.assertIn(why, err)

    def test_steps_go_on_from_round_to_round(self):
        options = [*TASK, *CLIENTS, "--momentum", "0", "--rounds", "5"]
        self.train(*options, "--algorithm", "post-local-sgd steps=9 warmup=2", "--workers", "1", "--out", "one")
        self.train(*options, "--algorithm", "post-local-sgd steps=9 warmup=2", "--workers", "2", "--out", "two")
        self.assertEqual(self.model("one"), self.model("two"))
        for client in range(int(CLIENTS[1])):
            trained = [line["samples"] for line in self.lines("one", "client") if line["client"] == client]
            self.assertTrue(trained == [] or max(trained[:2]) <= 10 < min(trained[2:]), trained)
        if not ON_CARD:
            client = next(line["client"] for line in self.lines("one", "client"))
            told = subprocess.run([SOUNDER, "replay", self.path("one"), "--round", "4", "--client", str(client)], text=True, capture_output=True)
            self.assertRegex(told.stdout, r"samples, 9 steps, loss .*\n.*as in the run")
        options = [*TASK, "--clients", "4", "--partition", "iid", "--momentum", "0"]
        self.train(*options, "--algorithm", "ssgd", "--rounds", "2", "--out", "lockstep")
        self.train(*options, "--algorithm", "local-sgd steps=1", "--rounds", "12", "--out", "rounds")
        with open(self.path("lockstep", "model.safetensors"), "rb") as one, open(self.path("rounds", "model.safetensors"), "rb") as two:
            pairs = [parse_safetensors(file.read())[1] for file in (one, two)]
        for name, (_, values) in pairs[0].items():  # steps round to a float, there of the mean, here of each client
            for a, b in zip(values, pairs[1][name][1]):
                self.assertAlmostEqual(a, b, delta=12 * 2**-24)

    @unittest.skipIf(ON_CARD, "the same code counts them")
    def test_bytes_that_travel_are_counted(self):
        parameters, tensors, clients = 310, 4, int(CLIENTS[1])
        whole, bits = 4 * parameters, lambda each: -(-parameters * each // 8)
        cases = {"fedavg": (whole, whole), "top-k": (4 * 31 + bits(1), whole), "random-k": (4 * 31 + 8, whole),
                 "qsgd": (4 + bits(9), whole), "terngrad": (4 * tensors + bits(2), whole), "fedpaq": (4 + bits(8), whole),
                 "send qsgd per=tensor": (4 * tensors + 31 + 4 + 304 + 12, whole),
                 "ef-sgd": (4 + bits(1), whole), "send float4": (4 * tensors + 14 + 2 + 135 + 5, whole), "send sparse": (4 + -(-7 * 11 // 8), whole), "powersgd": (4 * (2 * (3 + 9) + 3 + 2 * (10 + 27) + 10), whole), "signsgd": (bits(1), bits(2)), "secagg": (8 * parameters, whole)}
        for algorithm, (up, down) in cases.items():
            with self.subTest(algorithm):
                self.one(algorithm)
                keys = 32 * (clients - 1) if algorithm == "secagg" else 0
                for line in self.lines(algorithm, "round"):
                    self.assertEqual((line["up_bytes"], line["down_bytes"]), (clients * (up + 16 + keys), clients * down))
                self.assertEqual({line["sent_bytes"] for line in self.lines(algorithm, "client")}, {up})
        self.one("scaffold")  # its control variates travel both ways, too
        for line in self.lines("scaffold", "round"):
            self.assertEqual((line["up_bytes"], line["down_bytes"]), (clients * (2 * whole + 16), clients * 2 * whole))
        self.train(*self.options("send threshold 0.01"), "--out", "threshold")
        for line in self.lines("threshold", "round"):
            sent = [client["sent_bytes"] for client in self.lines("threshold", "client") if client["round"] == line["round"]]
            self.assertEqual(line["up_bytes"], sum(sent) + 16 * clients)
            self.assertTrue(all(4 < size < 8 * parameters + 4 and size % 8 == 4 for size in sent), sent)

    @unittest.skipIf(ON_CARD, "nothing is masked on a card")
    def test_masked_updates_make_the_same_model_whoever_drops_out(self):
        clients = ["--clients", "12", "--partition", "dirichlet", "--drop-out", "0.3", "--seed", "2", "--workers", "2"]
        for algorithm in ("fedavg", "send masked threshold=0.5"):
            self.train(*TASK, *clients, "--algorithm", algorithm, "--out", algorithm)
        self.assertEqual(self.model("send masked threshold=0.5"), self.model("fedavg"))
        self.assertGreater(sum(line["clients_dropped_out"] for line in self.lines("fedavg", "round")), 3)
        spoken = [word for word in (*TASK, *clients) if word != "--quiet"]
        out, err = self.train(*spoken, "--algorithm", "send masked threshold=1", "--out", "lost")
        lost = self.lines("lost", "round")
        few = sum(line["abandoned"] for line in lost)
        self.assertEqual((out.count("  too few arrived: the model stays"), err.count("too few to take off the masks")), (few, few))
        self.assertEqual([line["abandoned"] for line in lost], [line["clients_dropped_out"] > 0 for line in lost])
        self.assertIn(True, [line["abandoned"] for line in lost])

    @unittest.skipIf(ON_CARD, "nothing is released on a card")
    def test_privacy_that_is_spent_is_told(self):
        def privacy(rounds, kind):
            result = subprocess.run([SOUNDER, "privacy", "--sampling-rate", "0.5", "--noise", "2", "--delta", "1e-4", "--rounds",
                                     str(rounds), "--cohorts", kind], text=True, stdout=subprocess.PIPE, check=True)
            return float(re.match("epsilon ([0-9.]+) at delta 0.0001", result.stdout)[1])

        for sampling, kind in (("uniform", "fixed"), ("poisson", "poisson")):
            self.train(*TASK, *CLIENTS, "--algorithm", "dp-fedavg noise=2 delta=1e-4", "--clients-per-round", str(int(CLIENTS[1]) // 2),
                                "--sampling", sampling, "--drop-out", "0.95", "--seed", "3", "--out", kind)
            for line in self.lines(kind, "round"):
                self.assertAlmostEqual(line["epsilon"], privacy(line["round"], kind), delta=1e-4)
                self.assertEqual((line["noise"], line["delta"], line["clip"]), (2, 1e-4, 1))
        models = [line["model_xxh3"] for line in self.lines("poisson", "round")]
        self.assertIn(0, [line["clients_trained"] for line in self.lines("poisson", "round")])
        self.assertEqual(len(set(models)), 3)  # noise moves the model where nobody arrives, too

    @unittest.skipIf(ON_CARD, "nothing is released on a card")
    def test_the_calculator_finds_noise_for_an_epsilon_and_the_other_way_round(self):
        def privacy(*arguments, code=0):
            result = subprocess.run([SOUNDER, "privacy", *arguments], cwd=self.folder.name, text=True, capture_output=True)
            self.assertEqual(result.returncode, code, result.stderr)
            return result.stdout if code == 0 else result.stderr

        asked = ["--sampling-rate", "0.01", "--rounds", "1000"]
        for kind in ("poisson", "fixed", "tree"):
            told = privacy(*asked, "--cohorts", kind, "--epsilon", "2", "--events", f"{kind}.json")
            noise = re.match(r"noise ([0-9.]+)\nepsilon (1\.99|2 )", told)
            self.assertIsNotNone(noise, told)
            self.assertRegex(privacy(*asked, "--cohorts", kind, "--noise", noise[1]), r"^epsilon (1\.99|2 |2\.000)")
            with open(self.path(f"{kind}.json")) as file:
                event = json.load(file)
            self.assertEqual((event["cohorts"], event["count"], event["sampling_rate"]), (kind, 1000, 0.01))
            self.assertAlmostEqual(event["noise_multiplier"], float(noise[1]), delta=1e-4 * float(noise[1]))
        self.assertIn("needs one of --noise and --epsilon", privacy(*asked, code=64))
        self.assertIn("needs one of --noise and --epsilon", privacy(*asked, "--noise", "1", "--epsilon", "1", code=64))
        self.assertIn("needs --sampling-rate and --rounds", privacy("--noise", "1", code=64))
        self.assertIn("--sampling-rate 2: needs a number", privacy("--sampling-rate", "2", code=64))
        self.assertIn("no-folder/events cannot be made", privacy(*asked, "--noise", "1", "--events", "no-folder/events", code=73))

    @unittest.skipIf(ON_CARD, "nothing is released on a card")
    def test_a_run_goes_on_with_the_noise_that_its_epsilon_took(self):
        options = [*TASK, *CLIENTS, "--algorithm", "dp-adaptive epsilon=200", "--privacy-rounds", "4"]
        self.train(*options, "--rounds", "4", "--out", "whole")
        self.train(*options, "--rounds", "2", "--out", "run")
        self.train("--resume", "run", "--rounds", "4", "--quiet")
        self.assertEqual(self.model("run"), self.model("whole"))
        self.assertLessEqual(self.lines("run", "round")[-1]["epsilon"], 200)
        _, err = self.train("--resume", "run", "--rounds", "5", "--quiet", code=64)
        self.assertIn("the noise spends epsilon in 4 rounds", err)

    def tensors(self, run):
        with open(self.path(run, "model.safetensors"), "rb") as file:
            return {name: tensor for name, (_, tensor) in parse_safetensors(file.read())[1].items()}

    def test_normalisation_layers_stay_with_the_clients(self):
        self.one("fedbn")
        values = self.tensors("fedbn")
        for norm in ("norm1", "norm2"):  # nobody has sent anything: the shared ones are what they began with
            self.assertEqual(set(values[norm + ".weight"]), {1.0})
            self.assertEqual(set(values[norm + ".bias"]), {0.0})
        shared = 4 * sum(len(value) for name, value in values.items() if not name.startswith("norm"))
        for line in self.lines("fedbn", "round"):
            self.assertEqual(line["up_bytes"], 4 * (shared + 16))
        kept = self.lines("fedbn", "client")[-1]["loss"]
        self.train(*[word if word != "fedbn" else "fedavg" for word in self.options("fedbn")], "--out", "fedavg")
        self.assertNotEqual(self.lines("fedavg", "client")[-1]["loss"], kept)
        _, err = self.train(*self.options("fedbn")[:-len(CLIENTS) - 1], "secagg; personal norms", *CLIENTS, "--out", "no", code=64)
        self.assertIn("does not go with personal norms", err)
        self.train(*self.options("fedbn")[:-len(CLIENTS) - 1], "dp-fedavg; personal norms", *CLIENTS, "--out", "noisy")
        values = self.tensors("noisy")
        for norm in ("norm1", "norm2"):  # no noise there, either
            self.assertEqual(set(values[norm + ".weight"]), {1.0})

    def test_numbers_that_change_nothing_change_nothing(self):
        here = {name: [text for text in texts if not re.search("masked|buffered|fedbuff|semi-sync|fragments", text)] for name, texts in SAME.items()
                if not re.search("easgd|^asgd", name)} if ON_CARD else SAME
        for name, texts in here.items():
            expected = self.model_of(name)
            if name.startswith("dp-"):
                self.train(*self.options(name), "--noise-key", NOISE_KEY, "--workers", "2", "--out", f"{name}-key")
                expected = self.model(f"{name}-key")
            for number, text in enumerate(texts):
                with self.subTest(text):
                    run = f"{name}-same-{number}"
                    key = ["--noise-key", NOISE_KEY] if name.startswith("dp-") else []  # else no two runs share their noise
                    self.train(*self.options(text), *key, "--workers", "2", "--out", run)
                    self.assertEqual(self.model(run), expected)

    @unittest.skipIf(ON_CARD, "updates wait on the CPU alone")
    def test_one_client_at_a_time_is_plain_training_over_clients(self):
        cases = {"fedavg": ("fedasync lr=1 mu=0 M=1", "semi-sync M=1"),
                 "schedule rounds steps=1": ("asgd M=1", "staleness-aware M=1", "dc-asgd M=1"), "schedule rounds steps=5": ("downpour M=1",)}
        for alone, texts in cases.items():
            self.train(*TASK, *CLIENTS, "--algorithm", alone, "--clients-per-round", "1",
                       "--client-optimizer-state", "fresh", "--out", alone)
            for text in texts:
                self.train(*TASK, *CLIENTS, "--algorithm", text, "--client-time", "lognormal", "--out", text)
                self.assertEqual(self.model(text), self.model(alone))
        for state in ("keep", "average"):
            _, err = self.train(*TASK, *CLIENTS, "--algorithm", "asgd", "--client-optimizer-state", state, "--out", "no", code=64)
            self.assertIn(f"--client-optimizer-state {state} does not go with schedule buffered", err)

    def schedule(self, run):
        with open(self.path(run, "schedule.csv")) as file:
            return list(csv.DictReader(file))

    @unittest.skipIf(ON_CARD, "updates wait on the CPU alone")
    def test_what_is_recorded_of_late_updates_is_what_the_schedule_says(self):
        self.train(*self.options("fedbuff"), "--rounds", "12", "--drop-out", "0.2", "--workers", "2", "--out", "run")
        jobs, before = self.schedule("run"), 0
        for line in self.lines("run", "round"):
            version = line["round"] - 1
            late = [version - int(job["start"]) for job in jobs if job["applied"] == str(version)]
            self.assertEqual(line["staleness"], [late.count(s) for s in range(max(late) + 1)])
            self.assertEqual((line["updates"], line["staleness_most"]), (2, max(late)))
            self.assertAlmostEqual(line["staleness_mean"], sum(late) / 2)
            begun = [job for job in jobs if int(job["start"]) == version]
            self.assertEqual(line["clients_drawn"], len(begun))
            self.assertEqual(line["clients_dropped_out"], sum(job["fate"] == "drops-out" for job in begun))
            told = sorted(client["client"] for client in self.lines("run", "client") if client["round"] == line["round"])
            self.assertEqual(told, sorted(int(job["client"]) for job in begun if job["fate"] == "arrives"))
            waiting = [job for job in jobs if job["applied"] and int(job["start"]) <= version < int(job["applied"])]
            self.assertEqual(line["updates_waiting"], len(waiting))
            end = max(int(job["end_microseconds"]) for job in jobs if job["applied"] == str(version))
            self.assertAlmostEqual(line["simulated_seconds_total"], end * 1e-6, places=6)
            self.assertAlmostEqual(line["simulated_seconds"], (end - before) * 1e-6, places=6)
            before = end
        self.assertGreater(max(line["staleness_most"] for line in self.lines("run", "round")), 2)

    @unittest.skipIf(ON_CARD, "updates wait on the CPU alone")
    def test_a_run_with_late_updates_goes_on_to_more_rounds(self):
        for algorithm in ("fedbuff K=1", "fedasync", "dc-asgd lambda=100", "async-eamsgd", "fedbuff K=2; send qsgd"):
            options = [*self.task(algorithm), *CLIENTS, "--algorithm", algorithm, "--client-time", "lognormal", "--seed", "3"]
            self.train(*options, "--rounds", "9", "--out", "whole " + algorithm)
            self.train(*options, "--rounds", "4", "--out", algorithm)
            self.train("--resume", algorithm, "--rounds", "9", "--quiet", "--workers", "3")
            self.assertEqual(self.model(algorithm), self.model("whole " + algorithm))
            self.assertEqual(self.schedule(algorithm), self.schedule("whole " + algorithm))

    def replay(self, run, options):
        """The simulated clock, fed with what came when in the run, comes to the same bits; the run's own model."""
        for workers in ("1", "2"):
            again = f"{run}-{workers}"
            self.train(*options, "--clock", f"replay:{run}/schedule.csv", "--workers", workers, "--out", again)
            self.assertEqual(self.model(again), self.model(run))

    @unittest.skipIf(ON_CARD, "updates wait on the CPU alone")
    def test_a_run_on_the_real_clock_is_replayed_to_its_bits(self):
        late = 0
        for algorithm in ("fedbuff K=2", "fedasync", "asgd", "dc-asgd lambda=100"):
            options = ["--data", "synthetic:1x8x8:2400:60", *TASK[2:], *CLIENTS, "--clients", "12", "--rounds", "40",
                       "--algorithm", algorithm]
            self.train(*options, "--clock", "real", "--workers", "3", "--eval-every", "15", "--out", algorithm)
            late += sum(line["staleness_most"] for line in self.lines(algorithm, "round"))
            self.replay(algorithm, options)
        self.assertGreater(late, 0)

    @unittest.skipIf(ON_CARD, "updates wait on the CPU alone")
    def test_a_replay_goes_on_only_with_the_file_that_it_began_with(self):
        options = [*TASK, *CLIENTS, "--algorithm", "asgd", "--client-time", "lognormal"]
        for seed in "12":
            self.train(*options, "--rounds", "9", "--seed", seed, "--out", seed)
        recording, other = self.path("1", "schedule.csv"), self.path("2", "schedule.csv")
        os.rename(recording, self.path("recording.csv"))
        shutil.copy(self.path("recording.csv"), recording)
        self.train(*options, "--rounds", "3", "--clock", f"replay:{recording}", "--out", "again")
        shutil.copy(other, recording)
        self.assertRegex(self.train("--resume", "again", "--rounds", "9", code=65)[1],
                         "--resume .*again: the recorded schedule of --clock replay:FILE is not what the run began with "
                         r"\(XXH3 \w{16} then, \w{16} now\); give it back, or begin anew with another --out")
        shutil.copy(self.path("recording.csv"), recording)
        self.train("--resume", "again", "--rounds", "9", "--quiet")
        self.assertEqual(self.model("again"), self.model("1"))

    @unittest.skipIf(ON_CARD, "updates wait on the CPU alone")
    def test_on_the_real_clock_every_update_counts_once_whoever_dies(self):
        options = ["--data", "synthetic:1x8x8:24000:60", *TASK[2:], *CLIENTS, "--clients", "12", "--rounds", "60",
                   "--algorithm", "asgd"]
        for policy, most in (("respawn", 8), ("continue", 2)):
            for attempt in range(10):  # one that is over before a worker was seen says nothing
                run = f"{policy}-{attempt}"
                process = self.start(*options, "--clock", "real", "--workers", "3", "--on-worker-death", policy, "--out", run)
                kills = self.kill_workers_during(process, 0.02, random.Random(1), most=most)
                self.finish(process)
                self.replay(run, options)
                if kills > 0:
                    break
            self.assertGreater(kills, 0)

    @unittest.skipIf(ON_CARD, "updates wait on the CPU alone")
    def test_what_a_real_clock_or_a_recorded_one_cannot_have_is_refused(self):
        def refused(*arguments, code=64):
            return self.train(*TASK, *CLIENTS, "--algorithm", *arguments, "--out", "no", code=code)[1]

        real = ("--clock", "real")
        self.assertIn("--clock real does not go with combine mean of --algorithm: what an update counts must not depend on those that come later; add combine mean uniform",
                      refused("fedbuff K=2; combine mean samples", *real))
        self.assertIn("--clock real does not go with send clip of --algorithm: updates arrive whole", refused("asgd; send clip", *real))
        self.assertIn("--clock real does not go with --lr-schedule cosine: no round has a learning rate of its own", refused("asgd", *real, "--lr-schedule", "cosine"))
        self.assertIn("--clock real does not go with --drop-out 0.1: clients drop out of the simulated world", refused("asgd", *real, "--drop-out", "0.1"))
        self.assertIn("--attack scaled does not go with stale poly of --algorithm: with --clock real the share of an update depends on how late it comes",
                      refused("fedasync", *real, "--attack", "scaled", "--attackers", "0"))
        many = ("--clients", "9000", "--clients-per-round", "4500", "--data", "synthetic:1x1x1:9000:10", "--model", "linear 10")
        self.assertRegex(refused("fedasync", *many), r"has up to \d+ updates wait .*, in \d+ tensors of a checkpoint, which has room for 8000; lower M")
        self.assertIn("--clock now: needs simulated, real or replay:FILE", refused("asgd", "--clock", "now"))
        self.assertIn("--clock real: only used with --algorithm fedbuff", refused("fedavg", *real))
        self.train(*TASK, *CLIENTS, "--algorithm", "asgd", *real, "--out", "run")
        self.assertIn("--clock real: a run cannot go on in it", self.train("--resume", "run", "--rounds", "9", code=64)[1])
        self.assertIn("no-file cannot be opened", refused("asgd", "--clock", "replay:no-file", code=66))
        replay = ("--clock", "replay:" + self.path("run", "schedule.csv"))
        self.assertIn("has the updates of 3 rounds, the run is to have 9; lower --rounds", refused("asgd", *replay, "--rounds", "9", code=65))
        self.assertIn("raise --clients", refused("asgd", *replay, "--clients", "1", "--clients-per-round", "1", code=65))
        with open(self.path("run", "schedule.csv")) as file, open(self.path("heavy.csv"), "w") as heavy:
            heavy.write(file.read().replace("arrives,1,", "arrives,0.5,"))
        self.assertIn("the weights of the updates of round 1 add up to 0.5, not to 1", refused("asgd", "--clock", "replay:" + self.path("heavy.csv"), code=65))
        with open(self.path("run", "schedule.csv"), "a") as file:
            file.write("3,0,0,x\n")
        self.assertIn("schedule.csv:5: not a line of a schedule.csv", refused("asgd", *replay, code=65))

    @unittest.skipIf(ON_CARD, "deaths on the card have tests of their own")
    def test_a_storm_of_kills(self):
        kills, enough = 0, len(zoo()) // 3
        for attempt in range(8):  # on a busy machine a short run is often over before one of its workers was seen
            for algorithm, expected in self.each("storm"):
                run = f"{algorithm}-storm-{attempt}"
                process = self.start(*self.options(algorithm), "--workers", "2", "--on-worker-death", "respawn", "--out", run)
                kills += self.kill_workers_during(process, 0.002, random.Random(attempt), most=8)
                self.finish(process)
                self.assertEqual(self.model(run), expected)
            if kills > enough:
                break
        self.assertGreater(kills, enough)

    @unittest.skipIf(ON_CARD, "deaths on the card have tests of their own")
    def test_a_killed_parent_and_resume(self):
        for algorithm, _ in self.each("killed"):
            whole, run = algorithm + "-whole", algorithm + "-killed"
            options = [*self.options(algorithm), "--workers", "2", "--rounds", "20"]
            self.train(*options, "--out", whole)
            process = self.start(*options, "--out", run)
            self.wait_for_round(run, 2)
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            self.train("--resume", run, "--quiet")
            self.assertEqual(self.model(run), self.model(whole))

    @unittest.skipIf(ON_CARD, "the file is the same")
    def test_a_run_does_not_go_on_without_what_its_clients_kept(self):
        self.train(*self.options("scaffold"), "--out", "run")
        kept = self.path("run", "clients.kept")

        def turn():  # a bit of each row
            with open(kept, "r+b") as file:
                for row in range(4096, os.path.getsize(kept), 4096):
                    byte = os.pread(file.fileno(), 1, row + 1)
                    os.pwrite(file.fileno(), bytes([byte[0] ^ 1]), row + 1)

        turn()
        for _ in range(2):
            _, err = self.train("--resume", "run", "--rounds", "50", "--quiet", code=65)
            self.assertRegex(err, r"clients.kept is not as the checkpoint left it: what client \d+ keeps has changed")
        turn()
        self.train("--resume", "run", "--quiet", "--rounds", "4")
        for damage in (lambda path: os.truncate(path, 4096), os.remove):
            damage(kept)
            for _ in range(2):  # a run that was refused has changed nothing
                _, err = self.train("--resume", "run", "--rounds", "50", "--quiet", code=65)
                self.assertIn("clients.kept is missing or has been cut off", err)

    def test_updates_side_by_side_that_no_machine_has_room_for_are_refused_with_the_numbers(self):
        _, err = self.train(*TASK, *BEYOND_ANY_MACHINE, "--algorithm", "median", "--out", "run", code=71)
        self.assertRegex(err, r"need \d+\.\d+ GiB on Emulated card .*: not even one worker fits; lower --batch-size or take a smaller --model" if ON_CARD else
                              r"combine median of --algorithm has the updates of 30000 clients side by side, which take 192\d{6}\.\d MB, "
                              r"where \d+\.\d MB are available; lower --clients-per-round")
        self.assertFalse(os.path.exists(self.path("run", "config.yaml")))

    @unittest.skipIf(ON_CARD, "nodes are the business of the CPU's runs")
    def test_two_nodes(self):
        if why_no_nodes():
            self.skipTest(why_no_nodes())
        for algorithm, expected in self.each("nodes"):
            run = algorithm + "-nodes"
            result = subprocess.run(["mpirun", "-np", "2", SOUNDER, "train", *merged(*self.options(algorithm)), "--workers", "1", "--out", run],
                                    cwd=self.folder.name, text=True, capture_output=True, env=ENVIRONMENT, timeout=DEADLINE)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(self.model(run), expected)


if __name__ == "__main__":
    unittest.main(argv=["test_zoo.py"] + __import__("sys").argv[2:], verbosity=2)
