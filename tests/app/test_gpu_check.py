"""tools/gpu-check and its neighbours, rehearsed: on the emulated card, with stand-ins for what only a machine with a card has. They must
work at their first run there.

Usage: test_gpu_check.py PATH_OF_SOUNDER_EMULATED [unittest arguments]
"""
import json, os, runpy, shutil, subprocess, sys, tempfile, unittest

SOUNDER = os.path.abspath(sys.argv[1])
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TOOLS = os.path.join(ROOT, "tools")
STAND_INS = os.path.join(HERE, "stand_ins")
PEERS = os.path.join(TOOLS, "bench", "peers")


class Rehearsal(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="sounder-gpu-check-")
        self.addCleanup(self.folder.cleanup)
        self.report = self.path("report")

    def path(self, *parts):
        return os.path.join(self.folder.name, *parts)

    def check(self, *options, built=os.path.dirname(SOUNDER), programs=STAND_INS):
        environment = {**os.environ, "SOUNDER_GPU_REHEARSAL": built or "", "PATH": f"{programs}:{os.environ['PATH']}"}
        if built is None:
            del environment["SOUNDER_GPU_REHEARSAL"]
        return subprocess.run([sys.executable, os.path.join(TOOLS, "gpu-check"), self.report, *options], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env=environment, timeout=550)

    def read(self):
        with open(os.path.join(self.report, "report.json")) as file:
            return json.load(file)

    def passed(self):
        return [check["name"] for check in self.read()["checks"] if check["passed"]]

    def rows(self, kind):
        return [row for row in self.read()["rows"] if row["kind"] == kind]

    def built_with(self, **tests):
        """A build folder with programs that do nothing but end, and tests that end with these codes."""
        built = self.path("built")
        os.makedirs(os.path.join(built, "tests"))
        for name in ("sounder_emulated", "bench_card_emulated"):
            os.symlink("/bin/false", os.path.join(built, name))
        for name, code in tests.items():
            with open(os.path.join(built, "tests", name), "w") as file:
                file.write(f"#!/bin/sh\nexit {code}\n")
            os.chmod(os.path.join(built, "tests", name), 0o755)
        return built


class Stages(Rehearsal):
    def test_probe_build_bench_profile_and_default_find_what_they_should(self):
        result = self.check("--stages", "probe,build,bench,profile,default", "--patience", "3")
        self.assertEqual(result.returncode, 0, result.stdout)
        with open(os.path.join(self.report, "report.txt")) as text:
            self.assertEqual(text.read(), result.stdout)
        self.assertEqual({stage["state"] for stage in self.read()["stages"].values()}, {"done"})
        self.assertIn("Emulated card", self.read()["machine"]["nvidia_smi"])
        self.assertEqual({(cell["net"], cell["models"]) for cell in self.rows("cell")}, {("softmax", 1), ("softmax", 2), ("lenet", 1), ("lenet", 2), ("2nn", 2)})
        self.assertTrue(self.rows("cost"))
        self.assertEqual([(kernel["name"], kernel["us"]) for kernel in self.rows("kernel")], [("gather", 1.2345), ("linear_step", 1.2345)])
        for name in ("sounder is there", "--device auto takes the card", "without a wish one worker trains", "the plan for a context suffices"):
            self.assertIn(name, self.passed())

    def test_kills_mps_and_rounds_find_what_they_should(self):
        result = self.check("--stages", "kills,mps,rounds", "--patience", "3")
        self.assertEqual(result.returncode, 0, result.stdout)
        for name in ("fedavg: kill -9 of a worker in a step: the run goes on to the same bits", "ssgd: kill -9 of a worker in a step: the run goes on to the same bits",
                     "kill -9 of the parent: no worker is left", "kill -9 of the parent: --resume goes on to the same bits", "MPS starts",
                     "ssgd: the same bits for 1, 2, 4 workers", "hogwild of 4: accuracy as on the CPU"):
            self.assertIn(name, self.passed())
        self.assertEqual({(row["workers"], row["mps"]) for row in self.rows("rounds")}, {(1, False), (2, False), (2, True)})
        self.assertEqual([row["outcome"] for row in self.rows("mps_kill")], ["survived"])

    def test_unit_tests_are_run_judged_and_looked_at_by_the_sanitizer(self):
        built = self.built_with(test_cuda_ops=0, test_cuda_conv=77, test_cuda_aggregate=1)
        result = self.check("--stages", "tests,sanitize", built=built)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertRegex(result.stdout, r"(?m)^ok +test_cuda_ops\b")
        self.assertRegex(result.stdout, r"(?m)^skipped +test_cuda_conv\b")
        self.assertRegex(result.stdout, r"(?m)^FAILED +test_cuda_aggregate\b")
        for checker in ("memcheck", "racecheck", "synccheck"):
            self.assertRegex(result.stdout, rf"(?m)^ok +{checker}, test_cuda_ops\b")
            self.assertRegex(result.stdout, rf"(?m)^FAILED +{checker}, test_cuda_aggregate\b")
        self.assertRegex(result.stdout, r"(?m)^FAILED +memcheck, a run of one worker\b")

    def test_a_program_that_fails_fails_the_check_and_later_stages_run_all_the_same(self):
        result = self.check("--stages", "bench,rounds,probe", built=self.built_with())
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn("FAILED: bench, rounds", result.stdout)
        self.assertEqual([stage["state"] for stage in self.read()["stages"].values()], ["broken off", "broken off", "done"])

    def test_a_stage_whose_time_is_over_keeps_what_it_found_and_the_next_begins(self):
        slow = self.path("bin")
        shutil.copytree(STAND_INS, slow, symlinks=True)
        with open(os.path.join(slow, "ncu"), "w") as file:
            file.write("#!/bin/sh\nsleep 60\n")
        result = self.check("--stages", "build,profile,probe", "--minutes", "0.2", programs=slow)
        self.assertEqual([stage["state"] for stage in self.read()["stages"].values()][:2], ["done", "out of time"], result.stdout)
        self.assertIn("sounder is there", self.passed())

    def test_a_stage_that_does_not_exist_and_a_machine_without_a_card_are_named(self):
        self.assertIn("--stages nonsense: there are probe, build", self.check("--stages", "nonsense").stdout)
        if os.path.exists("/dev/nvidiactl"):
            self.skipTest("there is a card here")
        result = self.check(built=None)
        self.assertEqual(result.returncode, 77)
        self.assertRegex(result.stdout, r"^gpu-check: no card here: .*\n$")

    def test_the_two_commands_leave_time_of_their_ten_minutes(self):
        plans = runpy.run_path(os.path.join(TOOLS, "gpu", "plans.py"))
        self.assertLessEqual(sum(plans["FIRST"].values()), 9 * 60)
        self.assertLessEqual(sum(plans["SECOND"].values()), 8 * 60)


class Neighbours(Rehearsal):
    def test_a_report_becomes_readmes_table_and_a_section_of_the_results(self):
        report = {"schema": 2, "date": "2026-11-22", "machine": {"kernel": "6.1", "cores": 16}, "card": {"name": "A card"}, "checks": [], "stages": {}, "rows": [
            {"kind": "card", "name": "A card", "copy_bytes_per_second": 4e12, "peak_operations_per_second": 6e13},
            *({"kind": "cell", "net": "2nn", "batch": 10, "models": models, "tf32": False, "momentum": 0.5, "kernels": 15, "microseconds_a_step": 100.0,
               "samples_per_second": 10000.0 * models, "of_copy_bandwidth": 0.5, "of_peak": 0.25} for models in (1, 100)),
            {"kind": "peer", "net": "2nn", "batch": 10, "models": 100, "peer": "JAX, vmap and scan", "samples_per_second": 500000.0, "ratio": 2.0}]}
        with open(self.path("report.json"), "w") as file:
            json.dump(report, file)
        os.makedirs(self.path("tools", "bench"))
        os.makedirs(self.path("src", "app"))
        for name, text in (("src/app/README.md", "# A\n\n## On a GPU\n\nText.\n\n## Options\n\nMore.\n"), ("tools/bench/RESULTS.md", "# R\n")):
            with open(self.path(name), "w") as file:
                file.write(text)
        for _ in range(2):  # the table is replaced, not doubled
            subprocess.run([os.path.join(TOOLS, "gpu-report"), self.path("report.json"), "--readme", "--root", self.folder.name], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([os.path.join(TOOLS, "gpu-report"), self.path("report.json"), "--results", "--root", self.folder.name], check=True, stdout=subprocess.DEVNULL)
        with open(self.path("src/app/README.md")) as file:
            readme = file.read()
        self.assertEqual(readme.count("| 2nn, 10 | 100 | 1,000,000 | 25% | 50% | JAX, vmap and scan (100 models): 500,000 | 2.0x |"), 1)
        self.assertLess(readme.index("<!-- card -->"), readme.index("## Options"))
        with open(self.path("tools/bench/RESULTS.md")) as file:
            self.assertIn("## 2026-11-22, A card", file.read())

    def test_a_packed_build_has_the_libraries_that_the_program_needs(self):
        packed = self.path("packed")
        pack = runpy.run_path(os.path.join(TOOLS, "gpu-pack"))["pack"]
        pack(packed, os.path.dirname(SOUNDER))
        names = [name.split(".so")[0] for name in os.listdir(os.path.join(packed, "lib"))]
        self.assertIn("libjansson", names)
        self.assertFalse({"libc", "libm", "libstdc++"} & set(names))
        environment = {"LD_LIBRARY_PATH": os.path.join(packed, "lib")}
        subprocess.run([os.path.join(packed, "sounder"), "--version"], env=environment, check=True, stdout=subprocess.DEVNULL)

    def test_a_kit_alone_answers_for_every_library_of_a_build(self):
        if not shutil.which("dpkg") or not shutil.which("pkg-config"):
            self.skipTest("a kit is made of Debian's packages")
        kit = self.path("kit")
        subprocess.run([os.path.join(TOOLS, "gpu-pack"), kit, "--kit"], check=True)
        self.assertFalse([name for folder, _, files in os.walk(kit) for name in files if os.path.islink(os.path.join(folder, name))])
        program = self.path("program.c")
        with open(program, "w") as file:
            file.write("#include <cblas.h>\n#include <isa-l.h>\n#include <jansson.h>\n#include <nettle/sha2.h>\n#include <xxhash.h>\n#include <yaml.h>\n"
                       "int main(void) { struct sha256_ctx context; sha256_init(&context); return json_object() && XXH3_64bits(\"\", 0) && crc32_gzip_refl(0, (void *)\"\", 0) == 0 "
                       "&& *yaml_get_version_string() ? 0 : 1; }\n")
        environment = {"PATH": os.path.join(kit, "bin") + ":/usr/bin:/bin"}
        words = subprocess.run(["pkg-config", "--cflags", "--libs", "jansson", "yaml-0.1", "nettle", "libisal", "libxxhash", "openblas", "cmocka"], text=True,
                               env=environment, check=True, stdout=subprocess.PIPE).stdout.split()
        self.assertTrue(all(kit in word for word in words if word.startswith(("-I", "-L"))), words)
        subprocess.run(["cc", "-o", self.path("program"), program, *words], check=True)
        subprocess.run([self.path("program")], check=True, env={"LD_LIBRARY_PATH": os.path.join(kit, "lib")})

    def peer(self, script, *options):
        out = subprocess.run([sys.executable, os.path.join(PEERS, script), *options, "--samples", "400", "--device", "cpu"], text=True, check=True,
                             stdout=subprocess.PIPE, timeout=300).stdout
        entries = [json.loads(line) for line in out.splitlines()]
        self.assertTrue(entries and all(entry["samples_per_second"] > 0 for entry in entries))
        return entries

    def test_the_peers_of_pytorch_run(self):
        if subprocess.run([sys.executable, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("python3 has no torch")
        for job in ("eager", "graph"):
            self.assertEqual([entry["net"] for entry in self.peer("card.py", "--job", job, "--nets", "softmax:10:1", "lenet:10:1")], ["softmax", "lenet"])
        if subprocess.run([sys.executable, "-c", "import torch.func"], stderr=subprocess.DEVNULL).returncode == 0:
            self.assertEqual(self.peer("card.py", "--job", "vmap", "--nets", "lenet:10:3")[0]["models"], 3)

    def test_a_step_is_captured_once_and_replayed_with_the_calls_that_pytorch_wants(self):
        if subprocess.run([sys.executable, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("python3 has no torch")
        stand_in = """
import contextlib, sys, types
sys.argv[1:] = []
import torch
import card
calls, replays = [], []
class Stream:
    def wait_stream(self, other): assert isinstance(other, Stream)
class Graph:
    def replay(self): replays.append(len(calls))
@contextlib.contextmanager
def graph(captured):
    assert isinstance(captured, Graph) and len(calls) == 3
    yield
current = Stream()
torch.cuda = types.SimpleNamespace(Stream=Stream, current_stream=lambda: current, stream=lambda side: contextlib.nullcontext(), CUDAGraph=Graph, graph=graph,
                                   synchronize=lambda: None)
run = card.captured(lambda: calls.append(1), "cuda")
card.wait_for("cuda")
run(), run()
assert (len(calls), replays) == (4, [4, 4]), (calls, replays)
"""
        subprocess.run([sys.executable, "-c", stand_in], check=True, cwd=PEERS)

    def test_the_peer_of_jax_runs(self):
        if subprocess.run([sys.executable, "-c", "import jax"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("python3 has no jax")
        self.assertEqual(self.peer("card_jax.py", "--nets", "softmax:10:3")[0]["models"], 3)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
