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

TASK = ["--data", "synthetic:1x28x28:480:100", "--batch-size", "16", "--lr", "0.05", "--rounds", "2", "--device", "cpu", "--quiet"]
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
        "4e9ac861e54125c85c0d50ec5f28b14bf729f1e463812de60c71b33dc7d7d3b2",
    ("avx512", "lenet", "ssgd"):
        "4d6ba24d250e7a90a04497164fb87f04affc3ce87e067d4845a205eadee31cd8",
    ("avx512", "lenet", "hogwild"):
        "90405f2282ead0bfc7636fe7c8db81b5f1c3f2b2c2c12d93ca1952ce7c7314b3",
    ("avx512", "2nn", "fedavg"):
        "fa337dd6e98323863bcb4a1309653dd54aa07ba66e252fd50d03770c5063ceeb",
    ("avx512", "2nn", "ssgd"):
        "eafda9686a039605b96bc89ca0a697bc359a72cd106660a05bf494eefd34d30d",
    ("avx512", "2nn", "hogwild"):
        "e0eca94f3c01c07a4419c66986322a0dc2b7af09b4745b5105b47bd2bba60962",
    ("avx512", "cnn", "fedavg"):
        "64e3d22accc391fbac9fd6a8e995c49aba09ea44ba68ad7539c0b208e5d829b6",
    ("avx512", "cnn", "ssgd"):
        "d7f2ae65206ef7fed32628d6fe79ca459688c9cccb1e32978475fa609c5c4483",
    ("avx512", "cnn", "hogwild"):
        "3622dbc5806ec6f7e89035e6bc46e26c61b3b5e7c19cf52749537a3269b4fda1",
    ("avx2", "lenet", "fedavg"):
        "edc5449df170c5646a55876d22c5ab4487fc2dec04f42dd69cbe2ce83f1d5046",
    ("avx2", "lenet", "ssgd"):
        "17a2f1a25555d5514411022f649654d1d7e7434c50e66ac4a286691ba83792fc",
    ("avx2", "lenet", "hogwild"):
        "832b9ca1b95714ccc066c50369455dd125f877bcc9f4fbfaee4362177479cdd8",
    ("avx2", "2nn", "fedavg"):
        "16b62faff78793c6ce25a1ed13f5ca86a51a4600fcf0af5f2e3bf5d4d8188c40",
    ("avx2", "2nn", "ssgd"):
        "fa395f84e61696b61d5253f15cfc5c17a6e7e13e936c802dcf4ec121eb8f9603",
    ("avx2", "2nn", "hogwild"):
        "b2566d75feca47156dcbcb1a709b428b6d7d54a2abe0e9a27bfd678533825c38",
    ("avx2", "cnn", "fedavg"):
        "003c910dfacea8047d45fe683e12ac5832b105fdca2e8e39e28250c823e6f5fc",
    ("avx2", "cnn", "ssgd"):
        "b2c7a4309ddd6675091de6c107c4a9098e34e032ddff6637d979684d92a9d001",
    ("avx2", "cnn", "hogwild"):
        "b575b9666851000d49c350e3437128ea9fa78eaa554e0fed3a08cdaf2e99996e",
    ("baseline", "lenet", "fedavg"):
        "c09c7ff443ab159d81e14ae5d9d6ff771130f45e0130c425cbc42fced6d63191",
    ("baseline", "lenet", "ssgd"):
        "6ecfc595af78fa3a669347f1afb863ba752d55fb9942bd1398818e4a9e8fed4f",
    ("baseline", "lenet", "hogwild"):
        "8234fcc0528d325e076d148fd19b50d44118c90c44c0eab7c2e46cc2e21f47c9",
    ("baseline", "2nn", "fedavg"):
        "7c0aad3e13a90490da537db1321822edc9b978953d10fe518a56ef9faa343f68",
    ("baseline", "2nn", "ssgd"):
        "96ff7d9f42136fddd7a773e1717b87d73dbbe4854d897557a4f54c67fef2d61e",
    ("baseline", "2nn", "hogwild"):
        "3a54fb5db7d2ab6fd0e2cba2d373435cd3d692a0cf0c6938eeb8292ea2bf610b",
    ("baseline", "cnn", "fedavg"):
        "153c2686d3f2e1021b9d88630b080d3c42633e2b9a4b4f71f7187e08fc4ec8a1",
    ("baseline", "cnn", "ssgd"):
        "f3fdb494fde1115349411346cce5ab06bd83b523ef4dd351800ea9a1f5dddccb",
    ("baseline", "cnn", "hogwild"):
        "9b16a2bd163072b8d4c6f5aa95c38c6379f43cdf911ed8224e758193f0678e45",
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
                    self.assertEqual(bits(isa, training(model, algorithm, out) + list(options), out, launcher),
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
        self.check("hogwild", "--hogwild-update", "atomic")

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
