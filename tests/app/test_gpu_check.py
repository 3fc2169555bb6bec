"""tools/gpu-check itself, on the emulated card and tiny jobs: it must work at its first run where there is a card.

Usage: test_gpu_check.py PATH_OF_SOUNDER_EMULATED [unittest arguments]
"""
import json, os, runpy, subprocess, sys, tempfile, unittest

SOUNDER = os.path.abspath(sys.argv[1])
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHECK = os.path.join(ROOT, "tools", "gpu-check")
PEER = os.path.join(ROOT, "tools", "bench", "peers", "card.py")


class GpuCheck(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="sounder-gpu-check-")
        self.addCleanup(self.folder.cleanup)
        self.report = os.path.join(self.folder.name, "report")

    def check(self, program, *options):
        environment = {**os.environ, "SOUNDER_GPU_CHECK_PROGRAM": program}
        if program is None:
            del environment["SOUNDER_GPU_CHECK_PROGRAM"]
        return subprocess.run([sys.executable, CHECK, self.report, *options], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env=environment, timeout=500)

    def test_all_that_can_be_checked_on_the_emulated_card_passes(self):
        result = self.check(SOUNDER, "--minutes", "6")
        self.assertEqual(result.returncode, 0, result.stdout)
        with open(os.path.join(self.report, "report.txt")) as text:
            self.assertEqual(text.read(), result.stdout)
        with open(os.path.join(self.report, "report.json")) as file:
            report = json.load(file)
        passed = [check["name"] for check in report["checks"] if check["passed"]]
        for name in ("kill -9 of a worker in a step: the run goes on to the same bits", "kill -9 of the parent: no worker is left",
                     "kill -9 of the parent: --resume goes on to the same bits", "ssgd: the same bits for 1, 2, 4 workers",
                     "hogwild of 4: accuracy as on the CPU"):
            self.assertIn(name, passed)
        cells = {(cell["workers"], cell["models_per_launch"]) for cell in report["speed"] if not cell["mps"]}
        self.assertEqual(cells, {(workers, models) for workers in (1, 2, 4) for models in (1, 4)})

    def test_a_program_that_fails_fails_the_check(self):
        result = self.check("/bin/false", "--minutes", "1")
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn("FAILED: kills, same bits, accuracies", result.stdout)

    def test_the_tests_of_a_carried_build_are_run_and_judged(self):
        built = os.path.join(self.folder.name, "built")
        os.makedirs(os.path.join(built, "tests", "on_card"))
        for name, code in (("test_good", 0), ("test_skipped", 77), ("test_bad", 1)):
            path = os.path.join(built, "tests", "on_card", name)
            with open(path, "w") as file:
                file.write(f"#!/bin/sh\nexit {code}\n")
            os.chmod(path, 0o755)
        result = self.check("/bin/false", "--minutes", "1", "--build", built)
        self.assertRegex(result.stdout, r"(?m)^ok +test_good\b")
        self.assertRegex(result.stdout, r"(?m)^skipped +test_skipped\b")
        self.assertRegex(result.stdout, r"(?m)^FAILED +test_bad\b")

    def test_a_packed_build_has_the_libraries_that_the_program_needs(self):
        packed = os.path.join(self.folder.name, "packed")
        pack = runpy.run_path(os.path.join(ROOT, "tools", "gpu-pack"))["pack"]
        pack(packed, os.path.dirname(SOUNDER))
        names = [name.split(".so")[0] for name in os.listdir(os.path.join(packed, "lib"))]
        self.assertIn("libjansson", names)
        self.assertFalse({"libc", "libm", "libstdc++"} & set(names))
        environment = {"LD_LIBRARY_PATH": os.path.join(packed, "lib")}
        subprocess.run([os.path.join(packed, "sounder"), "--version"], env=environment, check=True, stdout=subprocess.DEVNULL)

    def test_without_a_card_it_says_so(self):
        if os.path.exists("/dev/nvidiactl"):
            self.skipTest("there is a card here")
        result = self.check(None)
        self.assertEqual(result.returncode, 77)
        self.assertRegex(result.stdout, r"^gpu-check: no card here: .*\n$")

    def test_the_peers_run(self):
        if subprocess.run([sys.executable, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("python3 has no torch")
        for options in (["--job", "eager", "--workers", "2", "--model", "softmax"],
                        ["--job", "fedavg", "--model", "softmax", "--clients-per-round", "5"]):
            out = subprocess.run([sys.executable, PEER, *options, "--samples", "2000", "--device", "cpu"], text=True, check=True,
                                 stdout=subprocess.PIPE, timeout=300).stdout
            self.assertGreater(json.loads(out)["samples_per_second"], 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
