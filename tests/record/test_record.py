"""What the program computes and says, written down: whoever moves code and changes nothing else leaves this folder as it is.

bits.json      for each instruction set, sha256 of the weights of every named algorithm's model and of every net's; sha256 of
               the partition file of every form, and of the last checkpoint, the whole file, of algorithms that keep a state
help.txt       `sounder help TOPIC` for every topic, the manual page and what completion is made of
refusals.txt   command lines that contradict themselves, and the sentence that each gets
               their model's weights on the emulated GPU (x86 alone), by the kernels that they run, for clients of unequal sizes
config.yaml    what a run with nothing but defaults writes down

A change that is meant to move one of these writes them again, looks at `git diff tests/record`, and says why in its commit:

    python3 tests/record/test_record.py build-ci/sounder --write

Usage: test_record.py PATH_OF_SOUNDER [--write | unittest arguments, for example `Record.test_texts`]
"""
import hashlib, json, os, re, shlex, shutil, subprocess, sys, unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "runs"))
from runs import DEADLINE, SANITIZED, SOUNDER, RunCase, merged, sha256
from test_bits import FLAGS, bits, can_run
import test_zoo

SETS = [isa for isa in FLAGS if can_run(isa)]  # the widest first
FORMS = ["contiguous", "iid", "dirichlet", "dirichlet alpha=0.1 form=plain", "dirichlet alpha=0.3 form=balanced", "dirichlet alpha=0.2 form=niid-bench",
         "shards", "inner-dirichlet", "pathological", "pathological mode=deterministic", "shard per-client=2", "linear", "square", "exponential",
         "size sizes=40,60", "distribution", "noniid-labeldir alpha=0.3", "noniid-label", "continuous", "iid-diff-quantity", "homo", "similarity"]
USERS = ["natural-id", "grouped-natural-id size=3", "leaf fraction=0.5", "leaf-iid fraction=0.5"]
CLIENTS = {"size sizes=40,60": "2", "exponential": "4", "distribution": "10", "natural-id": "100", "grouped-natural-id size=3": "34",
           "leaf fraction=0.5": "47", "leaf-iid fraction=0.5": "50"}  # that the form wants; else 8
STATEFUL = ["scaffold", "feddyn", "ditto", "fedrep", "top-k", "local-sgd", "fedbuff", "fedadam"]
EMULATED = os.path.join(os.path.dirname(SOUNDER), "sounder_emulated")
# What each name trains: shape of the samples, net, algorithm. Together they launch every kernel of src/nn/kernels but the losses of numbers.
GPU = {"products": ("1x8x8", "2nn", "fedavg"),
       "convolutions": ("3x12x12", "conv 10 5 pad 2; relu; pool 2; conv 4 3 pad 1; relu; conv 9 1; linear classes", "fedavg"),
       "strided convolutions": ("3x12x12", "conv 8 5 stride 2 pad 2; batchnorm; relu as a; conv 12 3 stride 2 pad 1; batchnorm as b; conv 12 1 stride 2 from a; batchnorm; "
                                           "add b; relu; globalpool; linear classes", "fedavg"),
       "other convolutions": ("4x9x9", "conv 8 3 groups 4 pad 1; silu; conv 8 3 groups 8 stride 2 pad 1; conv 6 3 dilation 2 pad 2; leakyrelu; avgpool 2; linear classes", "fedavg"),
       "norms": ("3x8x8", "conv 8 3; groupnorm 4; prelu; dropout2d 0.2; conv 6 3; layernorm; tanh; dropout 0.3; linear classes", "fedavg"),
       "recurrence": ("1x6x5", "linear 9 each; transpose; gru 5 as a; last; relu; linear 6 as b; mean from a; linear 6; mul b; linear classes", "fedavg"),
       "attention": ("1x6x5", "linear 6 each; positions; attention 2 as a; linear 6 each; add a; layernorm each; lstm 6 last; linear classes", "fedavg"),
       "client states": ("1x8x8", "linear 20; relu; linear classes", "scaffold"),
       "second models": ("1x8x8", "linear 20; relu; linear classes", "ditto"),
       "server states": ("1x8x8", "linear 20; relu; linear classes", "fedadam")}
TOPICS = ["train", "eval", "diff", "replay", "partition", "privacy", "runs", "report", "sweep", "reproduce", "top", "launch",
          "nodes", "metrics", "models", "algorithms", "dial", "attacks", "partitions", "data", "federations", "lr"]
TEXTS = [["--help"], ["train", "-h"], *(["help", topic] for topic in TOPICS), ["help", "man"],
         *(["help", "completion", shell] for shell in ("bash", "zsh", "fish"))]
ENVIRONMENT = {**os.environ, "COLUMNS": "80", "SOUNDER_CACHE": "off"}


def path_of(name):
    return os.path.join(HERE, name)


def read(name):
    with open(path_of(name)) as file:
        return file.read()


def run(words, folder, code=0):
    done = subprocess.run([SOUNDER, *words], cwd=folder, text=True, capture_output=True, timeout=DEADLINE, env=ENVIRONMENT)
    assert done.returncode == code, f"sounder {shlex.join(words)}: {done.returncode}\n{done.stderr}"
    return done.stderr if code else done.stdout


class Record(RunCase):
    task, options = test_zoo.Zoo.task, test_zoo.Zoo.options  # the command line of an algorithm, as test_zoo has it

    def algorithms(self, isa, workers="1"):
        found = {}
        for algorithm in test_zoo.zoo():
            if algorithm == "hogwild" and workers != "1" or (algorithm, "all") in test_zoo.REASONS:
                continue  # its bits depend on which worker comes first; or it wants another net
            out = self.path(f"{isa}-{algorithm}-{workers}")
            found[algorithm] = bits(isa, [SOUNDER, "train", *merged(*self.options(algorithm), "--workers", workers, "--out", out)], out)
            shutil.rmtree(out)
        return found

    def text_folder(self):
        folder = self.path("text")
        if not os.path.exists(folder):
            os.mkdir(folder)
            for name, count in ("train.txt", 3), ("test.txt", 3):
                with open(os.path.join(folder, name), "w") as file:
                    file.write("the quick brown fox jumps over the lazy dog " * count)
        return folder

    def nets(self, isa):
        found = {}
        for net in re.findall(r"^  ([a-z0-9-]+): ", run(["help", "models"], "."), re.MULTILINE):
            out = self.path(f"{isa}-net-{net}")
            data = self.text_folder() if net == "char-lstm" else "synthetic:3x32x32:8:4"
            found[net] = bits(isa, [SOUNDER, "train", "--data", data, "--model", net, "--clients", "2", "--rounds", "1", "--batch-size", "4", "--lr", "0.05",
                                    "--workers", "1", "--device", "cpu", "--quiet", "--out", out], out)
            shutil.rmtree(out)
        return found

    def gpu(self):
        found = {}
        for name, (shape, net, algorithm) in GPU.items():
            out = self.path(f"gpu-{len(found)}")
            found[name] = bits(SETS[0], [EMULATED, "train", "--data", f"synthetic:{shape}:60:8", "--model", net, "--algorithm", algorithm, "--clients", "4",
                                         "--rounds", "2", "--partition", "linear", "--batch-size", "6", "--lr", "0.05", "--workers", "1", "--device", "cuda",
                                         "--quiet", "--out", out], out)
        return found

    def partitions(self):
        found = {}
        for data, forms in ("synthetic:1x4x4:1000:100", FORMS), ("synthetic-leaf", USERS):
            for form in forms:
                saved = self.path(f"partition-{len(found)}")
                run(["partition", "--data", data, "--partition", form, "--clients", CLIENTS.get(form, "8"), "--save", saved], self.folder.name)
                found[form] = sha256(saved)
        return found

    def checkpoints(self, isa):
        found = {}
        for algorithm in STATEFUL:
            out = self.path(f"{isa}-state-{algorithm}")
            bits(isa, [SOUNDER, "train", *merged(*self.options(algorithm), "--workers", "1", "--out", out)], out)
            folder = os.path.join(out, "checkpoints")
            found[algorithm] = sha256(os.path.join(folder, sorted(os.listdir(folder))[-1]))
        return found

    def texts(self):
        return "".join(f"$ sounder {shlex.join(words)}\n{run(words, self.folder.name)}\n" for words in TEXTS)

    def refusals(self):
        lines = [line for line in read("refusals.txt").splitlines() if line.startswith("$ ")]
        return "".join(f"{line}\n{run(shlex.split(line)[2:], self.folder.name, 64)}" for line in lines)

    def config(self):
        run(["train", "--data", "synthetic:1x28x28:64:16", "--rounds", "1", "--workers", "1", "--clients", "2", "--device", "cpu", "--quiet", "--out", "defaults"], self.folder.name)
        with open(self.path("defaults", "config.yaml")) as file:
            return file.read()

    def bits(self):
        return {"algorithms": {isa: self.algorithms(isa) for isa in SETS}, "nets": {isa: self.nets(isa) for isa in SETS},
                "partitions": self.partitions(), "checkpoints": {isa: self.checkpoints(isa) for isa in SETS}, "gpu": self.gpu()}

    # What the record says -------------------------------------------------------------------------------------------

    def test_texts(self):
        self.maxDiff = None
        self.assertEqual(self.texts(), read("help.txt"))
        self.assertEqual(self.config(), read("config.yaml"))

    def test_refusals(self):
        self.maxDiff = None
        self.assertGreaterEqual(read("refusals.txt").count("$ sounder"), 120)
        self.assertEqual(self.refusals(), read("refusals.txt"))

    def test_partitions(self):
        self.assertEqual(self.partitions(), json.loads(read("bits.json"))["partitions"])

    @unittest.skipIf(SANITIZED or not SETS, "fused multiply-adds of other processors round otherwise; with sanitizers too slow")
    def test_emulated_gpu(self):
        self.assertEqual(self.gpu(), json.loads(read("bits.json"))["gpu"])

    @unittest.skipIf(SANITIZED or not SETS, "the same code as elsewhere, ten times as slow")
    def test_models_and_checkpoints(self):
        record = json.loads(read("bits.json"))
        for isa in SETS:
            with self.subTest(isa=isa):
                self.assertEqual(self.algorithms(isa), record["algorithms"][isa])
                self.assertEqual(self.nets(isa), record["nets"][isa])
                self.assertEqual(self.checkpoints(isa), record["checkpoints"][isa])
        three = {**record["algorithms"][SETS[0]]}
        del three["hogwild"]
        self.assertEqual(self.algorithms(SETS[0], "3"), three)


def write():
    case = Record()
    case.setUp()
    record = json.loads(read("bits.json")) if os.path.exists(path_of("bits.json")) else {}
    for kind, found in case.bits().items():  # an instruction set that this machine lacks keeps what another has written
        record[kind] = {**record.get(kind, {}), **found} if kind in ("algorithms", "nets", "checkpoints") else found
    texts = {"bits.json": json.dumps(record, indent=1) + "\n", "help.txt": case.texts(), "refusals.txt": case.refusals(), "config.yaml": case.config()}
    case.tearDown()
    for name, text in texts.items():
        with open(path_of(name), "w") as file:
            file.write(text)


if __name__ == "__main__":
    if sys.argv[2:] == ["--write"]:
        write()
    else:
        unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
