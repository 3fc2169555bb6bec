"""The bits of the models, written down: a change of the code that moves one of them shows here.

Every net and algorithm for each instruction set, on made-up data, as sha256 of the model's weights (what follows the header
in the model's file, so that a note more in the header moves nothing). fedavg and ssgd have the
same bits for any number of workers and of nodes; hogwild has bits at all only with one worker. A change that is meant to
move bits (another order of rounding, another product) prints the new table with

    test_bits.py PATH_OF_SOUNDER --print

and says in its commit why they moved.

Usage: test_bits.py PATH_OF_SOUNDER [unittest arguments], for example `Rounds`
"""
import hashlib, os, re, struct, subprocess, sys, tempfile, unittest

from runs import DEADLINE, SOUNDER, RunCase, merged
from test_nodes import ENVIRONMENT, can_run as why_no_nodes

TASK = ["--data", "synthetic:1x28x28:480:100", "--batch-size", "16", "--lr", "0.05", "--momentum", "0.5", "--rounds", "2", "--device", "cpu", "--quiet"]
ALGORITHMS = {
    "fedavg": ["--algorithm", "fedavg", "--clients", "4"],
    "ssgd": ["--algorithm", "ssgd", "--clients", "4"],
    "hogwild": ["--algorithm", "hogwild", "--workers", "1"],
}
MODELS = ["lenet", "2nn", "cnn"]
FLAGS = {"avx512": {"avx512f", "avx512dq", "avx512vl", "avx512bw", "fma"}, "avx2": {"avx2", "fma"}, "baseline": set()}
WIDE = ["avx512", "avx2"]
BITS = {
    ("avx512", "lenet", "fedavg"):
        "6b2ae3670f3eb1c8f81a79a32187f677c5cfc97e9c61584ed6b36ee150637406",
    ("avx512", "lenet", "ssgd"):
        "0447dab451bb3918ae63448a53ebc287b0133957e6834a59ca750f7199c31497",
    ("avx512", "lenet", "hogwild"):
        "6f4f6975cded7ae1a58d740f37d96cbc581947a681b521a2893ef04f57cc43d9",
    ("avx512", "2nn", "fedavg"):
        "fa337dd6e98323863bcb4a1309653dd54aa07ba66e252fd50d03770c5063ceeb",
    ("avx512", "2nn", "ssgd"):
        "eafda9686a039605b96bc89ca0a697bc359a72cd106660a05bf494eefd34d30d",
    ("avx512", "2nn", "hogwild"):
        "e0eca94f3c01c07a4419c66986322a0dc2b7af09b4745b5105b47bd2bba60962",
    ("avx512", "cnn", "fedavg"):
        "92be91f798d6eaea3db64c4c62acbbbac31c7f8cec3409c26d3016639a2fb134",
    ("avx512", "cnn", "ssgd"):
        "1310ee67cc46cbf6d9b9e4063f14d384bc42913903a874576673524f2d1c31f0",
    ("avx512", "cnn", "hogwild"):
        "a24bbc26474a74d0898b490f3a6ed18659d074592f5e5446646cca9ad187b5b7",
    ("avx2", "lenet", "fedavg"):
        "ea1337a6e8db2ad47e9b451079a70f73370127f31246c3581036d6409efce134",
    ("avx2", "lenet", "ssgd"):
        "96f81b45e7590e46d4ab44b9fb2d17fa5db56b66f2fd790921c7d8fb7ab1dd84",
    ("avx2", "lenet", "hogwild"):
        "e8065a899e70655abcb41981ed6db000dc21545b90289f8288d100ea632c9581",
    ("avx2", "2nn", "fedavg"):
        "16b62faff78793c6ce25a1ed13f5ca86a51a4600fcf0af5f2e3bf5d4d8188c40",
    ("avx2", "2nn", "ssgd"):
        "fa395f84e61696b61d5253f15cfc5c17a6e7e13e936c802dcf4ec121eb8f9603",
    ("avx2", "2nn", "hogwild"):
        "b2566d75feca47156dcbcb1a709b428b6d7d54a2abe0e9a27bfd678533825c38",
    ("avx2", "cnn", "fedavg"):
        "cc531fa1c0c6a1c9caa4a92cf27361729ce21946733c0b156dfd45918e3087a2",
    ("avx2", "cnn", "ssgd"):
        "2da2ca32ee57e830a54b4d0b81d61ce750ade3dca4847109a8921b4e5b32a91b",
    ("avx2", "cnn", "hogwild"):
        "ddf0921b5b55c5dcca42bec6997f6df77f2540a28d5b20b8966e02b713923be9",
    ("baseline", "lenet", "fedavg"):
        "82779d8c443269b617ab9e4e22a1b72ce286276aa84faf31a9f26035cfe01241",
    ("baseline", "lenet", "ssgd"):
        "7b8adbeba57cd964b4e72da8abb784f0b688957e75a2f6c33f4e819cbb23a5e9",
    ("baseline", "lenet", "hogwild"):
        "8feb9426affe14008fdf26dc8c7206c75f31a673243defdc1cbc306b9c5260dd",
    ("baseline", "2nn", "fedavg"):
        "7c0aad3e13a90490da537db1321822edc9b978953d10fe518a56ef9faa343f68",
    ("baseline", "2nn", "ssgd"):
        "96ff7d9f42136fddd7a773e1717b87d73dbbe4854d897557a4f54c67fef2d61e",
    ("baseline", "2nn", "hogwild"):
        "3a54fb5db7d2ab6fd0e2cba2d373435cd3d692a0cf0c6938eeb8292ea2bf610b",
    ("baseline", "cnn", "fedavg"):
        "2a2dc2f6e3bfcc74ff8791c67b8d70ea130c4c49ec618b2429c66a6ae4a9a021",
    ("baseline", "cnn", "ssgd"):
        "c4937ca0ffebff313931d1ef5b2626823664f7a69ff80909088a9adcf86fc034",
    ("baseline", "cnn", "hogwild"):
        "27abf09ab4800101c57e8fd373c8c6d349d78024bbe3dd680390b6173053886a",
}


def can_run(isa):
    with open("/proc/cpuinfo") as file:
        flags = re.search(r"^flags\s*: (.*)$", file.read(), re.M)
    return bool(flags) and FLAGS[isa] <= set(flags[1].split())  # the baseline's table is x86's, too


def training(model, algorithm, out):
    return [SOUNDER, "train", *merged(*TASK, *ALGORITHMS[algorithm], "--model", model, "--out", out)]


def bits(isa, arguments, out, launcher=()):
    subprocess.run([*launcher, *arguments], env=dict(ENVIRONMENT, SOUNDER_ISA=isa), check=True, timeout=DEADLINE, stdout=subprocess.DEVNULL)
    with open(os.path.join(out, "model.safetensors"), "rb") as file:
        (header_bytes,) = struct.unpack("<Q", file.read(8))
        file.seek(header_bytes, os.SEEK_CUR)
        return hashlib.sha256(file.read()).hexdigest()


class BitsCase(RunCase):
    def check(self, algorithm, *options, launcher=(), models=MODELS, sets=FLAGS):
        ran = 0
        for isa in filter(can_run, sets):
            for model in models:
                out = self.path(f"{algorithm}-{isa}-{model}{''.join(options)}")
                with self.subTest(isa=isa, model=model, options=options):
                    self.assertEqual(bits(isa, merged(*training(model, algorithm, out), *options), out, launcher),
                                     BITS[isa, model, algorithm])
                ran += 1
        if ran == 0:
            self.skipTest("the table has no row for this processor")


class Rounds(BitsCase):
    def test_fedavg_has_the_same_bits_as_ever_for_1_to_4_workers(self):
        for workers in "1234":
            self.check("fedavg", "--workers", workers, sets=FLAGS if workers == "2" else WIDE)


class Steps(BitsCase):
    def test_ssgd_has_the_same_bits_as_ever_for_1_to_4_workers(self):
        for workers in "1234":
            self.check("ssgd", "--workers", workers, sets=FLAGS if workers == "2" else WIDE)

    def test_hogwild_with_one_worker_has_the_same_bits_as_ever(self):
        self.check("hogwild")

    def test_atomic_steps_of_one_hogwild_worker_have_the_bits_of_plain_ones(self):
        self.check("hogwild", "--algorithm", "hogwild update=atomic")

    def test_two_nodes_have_the_same_bits_as_one(self):
        if why_no_nodes():
            self.skipTest(why_no_nodes())
        for algorithm in "fedavg", "ssgd":
            self.check(algorithm, "--workers", "2", launcher=("mpirun", "-np", "2"), sets=WIDE)


def print_table():
    with tempfile.TemporaryDirectory() as folder:
        for isa in filter(can_run, FLAGS):
            for model in MODELS:
                for algorithm in ALGORITHMS:
                    out = os.path.join(folder, f"{isa}-{model}-{algorithm}")
                    print(f'    ("{isa}", "{model}", "{algorithm}"):\n        "{bits(isa, training(model, algorithm, out), out)}",')


if __name__ == "__main__":
    if sys.argv[2:] == ["--print"]:
        print_table()
    else:
        unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
