"""tools/gpu-check and its neighbours, rehearsed: on the emulated GPU, with stand-ins for what only a machine with a GPU has. They must
work at their first run there.

Usage: test_gpu_check.py PATH_OF_SOUNDER_EMULATED [unittest arguments]
"""
import glob, json, os, re, runpy, shutil, subprocess, sys, tempfile, unittest
from unittest import mock

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

    def check(self, *options, built=None, programs=STAND_INS):
        environment = {**os.environ, "SOUNDER_GPU_PLAN": os.path.join(HERE, "rehearsal_plan.py"), "PATH": f"{programs}:{os.environ['PATH']}"}
        return subprocess.run([sys.executable, os.path.join(TOOLS, "gpu-check"), self.report, "--build", built or self.build(), *options], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, timeout=550)

    def build(self, sounder=SOUNDER, bench_card=os.path.join(os.path.dirname(SOUNDER), "bench_card_emulated"), **tests):
        """A build folder with these programs, and unit tests that end with these codes."""
        built = self.path("built")
        os.makedirs(os.path.join(built, "tests", "on_card"))
        os.symlink(sounder, os.path.join(built, "sounder"))
        os.symlink(bench_card, os.path.join(built, "bench_card"))
        for name, code in tests.items():
            self.script(os.path.join(built, "tests", "on_card", name), f"echo {name} >>{built}/order; sleep 0.05; echo {name} >>{built}/order; exit {code}")
        return built

    @staticmethod
    def script(path, text):
        with open(path, "w") as file:
            file.write(f"#!/bin/sh\n{text}\n")
        os.chmod(path, 0o755)

    def read(self):
        with open(os.path.join(self.report, "report.json")) as file:
            return json.load(file)

    def passed(self):
        return [check["name"] for check in self.read()["checks"] if check["passed"]]

    def rows(self, kind):
        return [row for row in self.read()["rows"] if row["kind"] == kind]


class Stages(Rehearsal):
    def test_build_probe_bench_profile_and_default_find_what_they_should(self):
        result = self.check("--stages", "build,probe,bench,profile,default", "--patience", "3")
        self.assertEqual(result.returncode, 0, result.stdout)
        with open(os.path.join(self.report, "report.txt")) as text:
            self.assertEqual(text.read(), result.stdout)
        self.assertEqual(set(self.read()["stages"].values()), {"done"})
        self.assertIn("Emulated card", self.read()["machine"]["nvidia_smi"])
        self.assertRegex(result.stdout, r"(?m)^twin +after one step of lenet")
        self.assertEqual([(cell["net"], cell["models"]) for cell in self.rows("cell")], [("softmax", 1), ("softmax", 2), ("lenet", 1), ("lenet", 2), ("2nn", 2)])
        self.assertEqual(len(self.rows("card")), 1)
        self.assertTrue(self.rows("cost"))
        self.assertEqual([(kernel["name"], kernel["us"]) for kernel in self.rows("kernel")], [("gather", 1.2345), ("linear_step", 1.2345), ("norm", 1.2345)])
        for name in ("sounder is there", "sounder doctor", "--device auto takes the GPU", "without a wish one worker trains", "the plan for a worker's context suffices"):
            self.assertIn(name, self.passed())

    def test_nets_have_their_names_and_rounds_of_unequal_clients_theirs(self):
        result = self.check("--third", "--patience", "3")
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertEqual([cell["net"] for cell in self.rows("cell")], ["transformer"])
        self.assertEqual([row["partition"] for row in self.rows("rounds")], ["dirichlet alpha=0.1"])
        if subprocess.run([sys.executable, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode == 0:
            self.assertEqual([(peer["peer"], peer["models"]) for peer in self.rows("peer")],
                             [("PyTorch, graph, bf16", 1), ("PyTorch, processes, default", 2)])

    def test_kills_mps_and_rounds_find_what_they_should(self):
        result = self.check("--stages", "kills,mps,rounds", "--patience", "3")
        self.assertEqual(result.returncode, 0, result.stdout)
        for name in ("fedavg: kill -9 of a worker in a step: the run ends with the same bits", "ssgd: kill -9 of a worker in a step: the run ends with the same bits",
                     "kill -9 of the parent: no worker is left", "kill -9 of the parent: the GPU's memory is back",
                     "kill -9 of the parent: --resume ends with the same bits", "MPS starts, and ends", "kill -9 of a worker with MPS",
                     "ssgd: the same bits for 1, 2, 4 workers, and again", "hogwild of 4: accuracy as on the CPU"):
            self.assertIn(name, self.passed())
        self.assertEqual({(row["workers"], row["mps"]) for row in self.rows("rounds")}, {(1, False), (2, False), (2, True)})

    def test_unit_tests_are_run_judged_and_looked_at_by_the_sanitizer(self):
        built = self.build(test_cuda_ops_cuda=0, test_cuda_conv_cuda=77, test_cuda_aggregate_cuda=1, test_group_cuda_cuda=0, test_cuda_share_cuda=0)
        result = self.check("--stages", "tests,sanitize", built=built)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertRegex(result.stdout, r"(?m)^ok +test_cuda_ops_cuda\b")
        self.assertRegex(result.stdout, r"(?m)^skipped +test_cuda_conv_cuda\b")
        self.assertRegex(result.stdout, r"(?m)^FAILED +test_cuda_aggregate_cuda\b")
        with open(os.path.join(built, "order")) as file:
            names = file.read().split()[:10]
        self.assertEqual(names[::2], names[1::2], "a test began before the one before it ended")
        for checker in ("memcheck", "racecheck", "synccheck"):
            self.assertRegex(result.stdout, rf"(?m)^ok +{checker}, test_cuda_ops_cuda\b")
            self.assertRegex(result.stdout, rf"(?m)^FAILED +{checker}, test_cuda_aggregate_cuda\b")
        self.assertRegex(result.stdout, r"== sanitize.*\nok +memcheck, a run of one worker\b")  # the first to begin
        for checker in ("racecheck", "initcheck"):
            self.assertRegex(result.stdout, rf"(?m)^ok +{checker}, a step of softmax:2:4\b")

    def test_a_machine_without_cmocka_and_make_gets_a_build_without_tests_by_ninja(self):
        tools = self.path("tools")
        shutil.copytree(STAND_INS, tools, symlinks=True)
        self.script(os.path.join(tools, "cmake"), f'echo "$@" >>{self.path("calls")}')
        os.symlink(sys.executable, os.path.join(tools, "python3"))
        with mock.patch.dict(os.environ, {"PATH": tools}):
            result = self.check("--stages", "build", built=self.folder.name, programs=tools)
        self.assertIn("cmocka is missing (libcmocka-dev, or a kit), so the build leaves the unit tests out\n", result.stdout)
        self.assertIn("FAILED  sounder is there\nFAILED  bench_card is there\n", result.stdout)
        with open(self.path("calls")) as file:
            configure, build, configure_card, build_card = file.read().splitlines()
        self.assertIn("-G Ninja -DSOUNDER_CUDA=ON", configure)
        self.assertIn("-DSOUNDER_TESTS=OFF", configure)
        self.assertTrue(build.endswith("--target sounder bench_card"))
        self.assertIn("tools/bench/card", configure_card)
        self.assertTrue(build_card.endswith("--target bench_card"))

    def test_bench_card_alone_is_linked_from_every_file_that_it_needs(self):
        """Read off the objects of this build, for building it alone takes nvcc."""
        with open(os.path.join(TOOLS, "bench", "card", "CMakeLists.txt")) as file:
            words = file.read()
        listed = {f"src/{room}/{name}" for room, name in re.findall(r"\$\{(nn|base)\}/(\w+\.cu?)\b", words)}
        listed |= {f"tools/bench/card/{name}" for name in re.search(r"add_executable\(bench_card (.*?) \$", words)[1].split()}
        for pattern in re.findall(r"\$\{root\}/(\S+/\*\.cu?)", words):
            listed |= {os.path.relpath(path, ROOT) for path in glob.glob(os.path.join(ROOT, pattern))}
        needs, gives, built = {}, {}, os.path.dirname(SOUNDER)
        objects = {}
        for path in glob.glob(os.path.join(built, "**", "*.o"), recursive=True):
            source = re.sub(r"CMakeFiles/\w+\.dir/|\.o$", "", os.path.relpath(path, built)).replace("__", "..")
            objects[path] = os.path.normpath(source)
        files = [path for path, source in objects.items() if source in listed or source.startswith("src/")]
        symbols = subprocess.run(["nm", "-A", "-P", *files], text=True, capture_output=True, check=True).stdout
        for path, name, kind in re.findall(r"(?m)^(.*): (\S+) (\S)", symbols):
            (needs if kind == "U" else gives if kind in "BDRTW" else {}).setdefault(objects[path], set()).add(name)
        self.assertIn("src/base/device_cuda.c", listed & set(needs))
        have = set().union(*(gives[source] for source in listed & set(gives)))
        lacks = set().union(*(needs[source] for source in listed & set(needs))) - have
        self.assertEqual({name: source for source in gives if source.startswith("src/") for name in lacks & gives[source]}, {})

    def test_a_finding_of_the_sanitizer_fails_its_check(self):
        for says, word in (("RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)", "ok"), ("RACECHECK SUMMARY: 1 hazard displayed (1 error)", "FAILED"),
                           ("ERROR SUMMARY: 0 errors", "ok"), ("ERROR SUMMARY: 2 errors", "FAILED"), ("nothing", "FAILED")):
            with self.subTest(says):
                tools = self.path(f"tools-{len(os.listdir(self.folder.name))}")
                shutil.copytree(STAND_INS, tools, symlinks=True)
                self.script(os.path.join(tools, "compute-sanitizer"), f"echo '========= {says}'")
                out = self.check("--stages", "sanitize", built=self.path("built") if os.path.exists(self.path("built")) else None, programs=tools).stdout
                self.assertRegex(out, rf"(?m)^{word} +racecheck, a step of softmax:2:4\b")

    def test_tests_that_are_all_skipped_are_a_failure(self):
        result = self.check("--stages", "tests", built=self.build(test_cuda_ops_cuda=77, test_cuda_conv_cuda=77))
        self.assertIn("FAILED  unit tests on the GPU: all were skipped", result.stdout)
        self.assertEqual(result.returncode, 1)

    def test_a_program_that_fails_fails_the_check_and_later_stages_run_all_the_same(self):
        self.script(self.path("fails"), 'test "$1" = --version && echo cuda')
        result = self.check("--stages", "bench,rounds,build", built=self.build(sounder=self.path("fails"), bench_card="/bin/false"))
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertTrue(result.stdout.endswith("\nFAILED: bench, rounds\n"), result.stdout)  # each name once, though three cells of bench failed
        self.assertEqual(list(self.read()["stages"].values()), ["done", "broken off", "done"])

    def test_a_build_without_code_for_gpus_is_not_used(self):
        self.script(self.path("without"), "echo 'sounder 0.1.0 (avx2 baseline; mpi)'")
        result = self.check("--stages", "probe", built=self.build(sounder=self.path("without")))
        self.assertIn("FAILED  probe: there is no sounder", result.stdout)

    def test_a_stage_whose_time_is_over_keeps_what_it_found_and_the_next_begins(self):
        slow = self.path("bin")
        shutil.copytree(STAND_INS, slow, symlinks=True)
        self.script(os.path.join(slow, "ncu"), "sleep 60")
        result = self.check("--stages", "build,profile,build", "--patience", "0.2", programs=slow)
        self.assertEqual(result.stdout.count("-- build: done"), 2, result.stdout)
        self.assertIn("-- profile: out of time: ncu was not done after 4 s, 4 s", result.stdout)
        self.assertIn("sounder is there", self.passed())

    def test_a_stage_that_does_not_exist_and_a_machine_without_a_gpu_are_named(self):
        self.assertIn("--stages nonsense: there are build, probe", self.check("--stages", "nonsense").stdout)
        if os.path.exists("/dev/nvidiactl"):
            self.skipTest("there is a GPU here")
        result = self.check(built=self.folder.name, programs=self.folder.name)
        self.assertEqual(result.returncode, 77)
        self.assertRegex(result.stdout, r"^gpu-check: no GPU here: .*\n$")

    def test_the_commands_leave_time_of_their_ten_minutes(self):
        plan = runpy.run_path(os.path.join(TOOLS, "gpu", "plan.py"))
        for stages in (plan["FIRST"], plan["SECOND"], plan["THIRD"]):
            self.assertLessEqual(sum(stages.values()), 7 * 60)


class Neighbours(Rehearsal):
    def test_reports_become_a_section_of_the_results_and_a_table_beside_the_fastest_peer(self):
        def cell(models, rate, **more):
            return {"kind": "cell", "net": "2nn", "batch": 10, "models": models, "tf32": False, "momentum": 0.5, "kernels": 15, "microseconds_a_step": 100.0,
                    "samples_per_second": rate, "of_copy_bandwidth": 0.5, "of_peak": 0.25, **more}
        def peer(name, rate, precision="fp32"):
            return {"kind": "peer", "net": "2nn", "batch": 10, "models": 100, "peer": name, "precision": precision, "samples_per_second": rate}
        first = {"schema": 2, "date": "2026-11-22", "machine": {"kernel": "6.1", "cores": 16, "nvidia_smi": "A card, 580", "cuda": "13.0"},
                 "checks": [{"name": "kept", "passed": True}, {"name": "bits", "passed": False}],
                 "rows": [cell(1, 5e3), cell(100, 1e6), cell(100, 9e6, tf32=True), cell(100, 8e6, momentum=0)]}
        second = {"schema": 2, "date": "2026-11-22", "checks": [], "rows": [peer("PyTorch, vmap", 4e5), peer("JAX, vmap and scan", 5e5), peer("PyTorch, eager", 1e5),
                                                                             peer("PyTorch, graph, bf16", 4e6, "bf16")]}
        for name, report in (("first", first), ("second", second)):
            with open(self.path(name), "w") as file:
                json.dump(report, file)
        def tables(*options):
            return subprocess.run([os.path.join(TOOLS, "gpu-report"), self.path("first"), self.path("second"), *options], check=True, text=True,
                                  stdout=subprocess.PIPE).stdout
        row = "| 2nn | 10 | 100 | 1,000,000 | 50.0% | 25.0% | JAX, vmap and scan | 500,000 | 2.00x | PyTorch, graph, bf16 | 4,000,000 | 0.25x |\n"
        self.assertTrue(tables("--readme").startswith("| net | batch | models |"))
        self.assertEqual(tables("--readme").count("\n| 2nn"), 1)
        self.assertIn(row, tables("--readme"))
        section = tables()
        for words in ("## 2026-11-22: A card\n", "A card, 580; CUDA 13.0; Linux 6.1, 16 cores.", "Checks passed: 1; failed: bits; skipped: none.", "### Steps of training\n", row,
                      "| 2nn | 10 | 1 | False | 0.5 | 15 | 100.0 | 5,000 | 50.0% | 25.0% |\n", "### Peers\n"):
            self.assertIn(words, section)
        self.assertNotIn("### Kernels", section)

    def test_a_kit_alone_answers_for_every_library_of_a_build(self):
        if not shutil.which("dpkg") or not shutil.which("pkg-config"):
            self.skipTest("a kit is made of Debian's packages")
        kit = self.path("kit")
        subprocess.run([os.path.join(TOOLS, "gpu-pack"), kit], check=True)
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
