"""sounder doctor on the emulated card, with each fault that a machine may have, and without a card.

Usage: test_doctor.py PATH_OF_SOUNDER_EMULATED PATH_OF_SOUNDER [unittest arguments]
"""
import glob, os, signal, struct, subprocess, sys, tempfile, time, unittest

EMULATED, SOUNDER = (os.path.abspath(path) for path in sys.argv[1:3])
ROWS = ["driver", "GPU", "code", "memory", "MPS", "access", "view", "worker", "twin", "speed"]


def linux_sees_a_card():
    def vendor(path):
        with open(path) as file:
            return int(file.read(), 16)
    devices = any(os.path.exists(path) for path in ("/dev/nvidia0", "/dev/dxg"))
    return devices or any(vendor(path) == 0x10de for path in glob.glob("/sys/bus/pci/devices/*/vendor"))


def has_code(program):
    refusal = subprocess.run([program, "train", "--device", "cuda", "--plan"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                             env={**os.environ, "SOUNDER_EMULATED_DRIVER": "0"})
    return "was built without CUDA" not in refusal.stderr


class Doctor(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="sounder-test-doctor-")
        self.addCleanup(self.folder.cleanup)

    def start(self, program, settings):
        environment = {name: value for name, value in os.environ.items() if name not in ("LOCAL_RANK", "CUDA_VISIBLE_DEVICES")}
        environment.update({f"SOUNDER_EMULATED_{name}": str(value) for name, value in settings.items()})
        environment.update(TMPDIR=self.folder.name, CUDA_MPS_PIPE_DIRECTORY=os.path.join(self.folder.name, "no-mps"))
        return subprocess.Popen([program, "doctor", "--samples", "100"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env=environment)

    def lines_of(self, process, *codes):
        """What it has printed, by the first words of lines."""
        out, _ = process.communicate(timeout=240)
        self.assertIn(process.returncode, codes, out)
        self.assertEqual(os.listdir(self.folder.name), [], "something is left behind")
        return dict(line.split(None, 1) for line in out.splitlines())

    def ask(self, code, program=EMULATED, **settings):
        return self.lines_of(self.start(program, settings), code)

    def fails_at(self, row, sentence, **settings):
        lines = self.ask(1, **settings)
        self.assertEqual(list(lines), ROWS[:ROWS.index(row) + 1])
        self.assertRegex(lines[row], f"^FAILED: .*{sentence}")
        self.assertFalse([name for name in lines if name != row and "FAILED" in lines[name]])

    def test_a_card_that_serves_gets_ten_lines(self):
        lines = self.ask(0)
        self.assertEqual(list(lines), ROWS)
        self.assertIn("Emulated card (GPU 0)", lines["GPU"])
        self.assertIn("managed memory", lines["view"])
        self.assertRegex(lines["speed"], r"^1 worker: [\d,]+ samples/s of lenet, \d+\.\d\d s to start; the CPU with \d+ workers?: [\d,]+ samples/s")
        self.assertNotIn("FAILED", "".join(lines.values()))

    def test_what_needs_cublas_is_named_where_it_is_missing(self):
        self.assertEqual(self.ask(0, CUBLAS="off")["access"],
                         "several processes may use the GPU, but without cuBLAS batches of more than 64 and --tf32 run on the CPU")

    def test_what_does_not_serve_is_named_with_what_to_do_about_it(self):
        self.fails_at("driver", "CMAKE_CUDA_ARCHITECTURES=80", FAIL="cudaFuncGetAttributes")
        self.fails_at("access", "nvidia-smi -i 0 -c DEFAULT", MODE="exclusive")
        self.fails_at("worker", "docker run --pid=host", IPC="off")
        self.fails_at("worker", "not even one worker fits; lower --batch-size", MEMORY_BYTES=250 << 20)
        self.fails_at("worker", "illegal memory access", FAIL="kernel:1", FAIL_RANK=0)

    def bends_a_weight(self, process):
        """Of the model that the card has trained, before it is compared."""
        model = os.path.join(self.folder.name, "sounder-doctor-*", "cuda", "model.safetensors")
        while not glob.glob(model) and process.poll() is None:
            time.sleep(0.001)
        process.send_signal(signal.SIGSTOP)
        for path in glob.glob(model):
            with open(path, "r+b") as file:
                file.seek(-4, os.SEEK_END)
                weight, = struct.unpack("<f", file.read())
                file.seek(-4, os.SEEK_END)
                file.write(struct.pack("<f", weight + 0.001))
        process.send_signal(signal.SIGCONT)

    def test_a_card_that_computes_wrong_is_found_out(self):
        for _ in range(5):  # on a busy machine the comparison may be over before the file is seen
            process = self.start(EMULATED, {})
            self.bends_a_weight(process)
            lines = self.lines_of(process, 0, 1)
            if process.returncode == 1:
                break
        self.assertEqual(list(lines), ROWS[:ROWS.index("twin") + 1])
        self.assertRegex(lines["twin"], "FAILED: Emulated card computes wrong: after one step of lenet a weight is 1.0e-03 from the CPU's")

    def test_memory_that_a_card_refuses_is_no_fault(self):
        for setting in ("off", "refused"):
            self.assertIn("pinned memory", self.ask(0, MANAGED=setting)["view"])

    @unittest.skipIf(linux_sees_a_card(), "this machine has a card, and is told what keeps it from serving")
    def test_a_machine_without_a_card_is_well_and_told_what_one_would_need(self):
        for program, settings in ((EMULATED, {"DEVICES": 0}), (EMULATED, {"DRIVER": 0}), (SOUNDER, {})):
            lines = self.ask(0, program=program, **settings)
            self.assertEqual(list(lines), ["driver", "CPU", "runs"])
            self.assertRegex(lines["CPU"], r"[\d,]+ samples/s of lenet")
            missing = "and its driver; this program has code for it" if has_code(program) else "its driver, and a build where CUDA"
            self.assertIn("compute capability 7.0 or later, " + missing, lines["runs"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
