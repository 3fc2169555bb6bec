"""The bits of the models, written down: a change of the code that moves one of them shows here.

Every net and algorithm for each instruction set, on made-up data, as sha256 of the model's file. fedavg and ssgd have the
same bits for any number of workers and of nodes; hogwild has bits at all only with one worker. A change that is meant to
move bits (another order of rounding, another product) prints the new table with

    test_bits.py PATH_OF_SOUNDER --print

and says in its commit why they moved.

Usage: test_bits.py PATH_OF_SOUNDER [unittest arguments]
"""
import os, re, subprocess, sys, tempfile, unittest

from runs import DEADLINE, SOUNDER, RunCase, sha256
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
        "000457c4f6e809102b46308b2f28ebdccc2d13840e451c1014e99b38d1cd0bb9",
    ("avx512", "lenet", "ssgd"):
        "f693a8630a9a490904f1572b865aaa9919cae44af0d0772ec414951ebf64c87c",
    ("avx512", "lenet", "hogwild"):
        "edba743def94ed9d69f57ac35474ec0de29a4497dbaf1968957bc183be49a42e",
    ("avx512", "2nn", "fedavg"):
        "32c29cc3f950a461a1e904a609dffb02e4db46595187b817a16d607eb9f99e93",
    ("avx512", "2nn", "ssgd"):
        "488613f0644f770b24ed6bf71596afb885ae915d51951b5f8b0a155668909179",
    ("avx512", "2nn", "hogwild"):
        "4c34b63bdaad25114f1e9a3f15fc2b146cf23a2e6bb8fee587b3d67f62d81cbd",
    ("avx512", "cnn", "fedavg"):
        "94d42121062dd63e1a245ab8ba33d19e50835fd555703c55fc05c50188afe36b",
    ("avx512", "cnn", "ssgd"):
        "b0d28756c7cc07e896f666123de1e8132f141887bfd09775bb5d3c90d6c266d7",
    ("avx512", "cnn", "hogwild"):
        "2b96ae41baadc169cf0d44ea71c3f3e4ca47a28c3d66618ecf81dda9446ca485",
    ("avx2", "lenet", "fedavg"):
        "7e2bbc277ea5b5dbad7eaa95570a64ca2ada29d594e13619c5f1cbd3bdda17f2",
    ("avx2", "lenet", "ssgd"):
        "201e45fae1e41a1648ab892d1e254ca46f9fc7fc028d595cdb63d5bf9eff8c2a",
    ("avx2", "lenet", "hogwild"):
        "b78392832807d350d8663248ff163b2b79fa8cbca6600bdaaaed3dc9ef3e6ae3",
    ("avx2", "2nn", "fedavg"):
        "c5407d13ca50800f3f514b9ecc04b58fa2632d90b02f2be52bea8b3ad9f13e95",
    ("avx2", "2nn", "ssgd"):
        "d4e6d7ba9af5df1711e8e49b1072def68fab8caff68c785eef08fe77c530efc5",
    ("avx2", "2nn", "hogwild"):
        "e5f7755bd3b48aa0176d7e01c1291cd9ab0ac5604da01c570e257d15a34eb272",
    ("avx2", "cnn", "fedavg"):
        "ee0e4c7d78aa8cfc3b0261e6681003b70c29a736f007dc9c7691271e106718e8",
    ("avx2", "cnn", "ssgd"):
        "a3f6d63995b755c8167d753e4b01ef14a1b25a57540043b8efa9904f4506a1cb",
    ("avx2", "cnn", "hogwild"):
        "95c5f26fcc18866179310e716ca10c56aa3881cec6501acfe87dba6e21c00fb6",
    ("baseline", "lenet", "fedavg"):
        "222e300c9523ac595ce7ae89eed5a3d3e8c37c28ad2056151d400c2241d11d32",
    ("baseline", "lenet", "ssgd"):
        "927fad1474a56bcde227d35de2765409d75e6a964d547a2dc7981e3a225ee0fa",
    ("baseline", "lenet", "hogwild"):
        "38428d8615dd92a720449f9bcacb53a40ef09b7d7d5c6d8cc9916eb1235a6bb0",
    ("baseline", "2nn", "fedavg"):
        "88a3fe717ef071895a4e68ac2062832f4c14b95049dc1aedc15fa290309cbbcc",
    ("baseline", "2nn", "ssgd"):
        "7f67ff7f5a375f85e8a9277768bbb3d314235a39b641bc8b8afb26501a3446a5",
    ("baseline", "2nn", "hogwild"):
        "87e198a8ea3c2bda88b9d0657171b4efe4c1c387d2e1ac781c6fa4701041b7bb",
    ("baseline", "cnn", "fedavg"):
        "0f9a2efb7dd8163c51f4f5126de3c8083442772a35eecd497ca105943b4b91d1",
    ("baseline", "cnn", "ssgd"):
        "dc52abcfabe1b832f6ebf8d5042b6f646299ec5ed3b4d6cf7a9394857edad423",
    ("baseline", "cnn", "hogwild"):
        "d059053f825586c43e2b5a223dd1fd5feaa9f7b004624a41fb9913468da4b363",
}


def can_run(isa):
    with open("/proc/cpuinfo") as file:
        flags = re.search(r"^flags\s*: (.*)$", file.read(), re.M)
    return bool(flags) and FLAGS[isa] <= set(flags[1].split())  # the baseline's table is x86's, too


def training(model, algorithm, out):
    return [SOUNDER, "train", *TASK, *ALGORITHMS[algorithm], "--model", model, "--out", out]


def bits(isa, arguments, out, launcher=()):
    subprocess.run([*launcher, *arguments], env=dict(ENVIRONMENT, SOUNDER_ISA=isa), check=True, timeout=DEADLINE, stdout=subprocess.DEVNULL)
    return sha256(os.path.join(out, "model.safetensors"))


class Bits(RunCase):
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

    def test_fedavg_has_the_same_bits_as_ever_for_1_to_4_workers(self):
        for workers in "1234":
            self.check("fedavg", "--workers", workers, sets=FLAGS if workers == "2" else WIDE)

    def test_ssgd_has_the_same_bits_as_ever_for_1_to_4_workers(self):
        for workers in "1234":
            self.check("ssgd", "--workers", workers, sets=FLAGS if workers == "2" else WIDE)

    def test_hogwild_with_one_worker_has_the_same_bits_as_ever(self):
        self.check("hogwild")

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
