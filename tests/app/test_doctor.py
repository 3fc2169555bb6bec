"""sounder doctor on the emulated card, with each fault that a machine may have, and without a card.

Usage: test_doctor.py PATH_OF_SOUNDER_EMULATED PATH_OF_SOUNDER [unittest arguments]
"""
import glob, os, subprocess, sys, tempfile, unittest

EMULATED, SOUNDER = (os.path.abspath(path) for path in sys.argv[1:3])
ROWS = ["driver", "GPU", "code", "memory", "MPS", "access", "view", "worker", "twin", "speed"]


def linux_sees_a_card():
    def vendor(path):
        with open(path) as file:
            return int(file.read(), 16)
    devices = any(os.path.exists(path) for path in ("/dev/nvidia0", "/dev/dxg"))
    return devices or any(vendor(path) == 0x10de for path in glob.glob("/sys/bus/pci/devices/*/vendor"))


class Doctor(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="sounder-test-doctor-")
        self.addCleanup(self.folder.cleanup)

    def ask(self, code, program=EMULATED, **settings):
        """The lines that it prints, by their first words."""
        environment = {name: value for name, value in os.environ.items() if name not in ("LOCAL_RANK", "CUDA_VISIBLE_DEVICES")}
        environment.update({f"SOUNDER_EMULATED_{name}": str(value) for name, value in settings.items()})
        environment.update(TMPDIR=self.folder.name, CUDA_MPS_PIPE_DIRECTORY=os.path.join(self.folder.name, "no-mps"))
        done = subprocess.run([program, "doctor", "--samples", "320"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=environment, timeout=240)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(os.listdir(self.folder.name), [], "something is left behind")
        return dict(line.split(None, 1) for line in done.stdout.splitlines())

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

    def test_what_does_not_serve_is_named_with_what_to_do_about_it(self):
        self.fails_at("driver", "CMAKE_CUDA_ARCHITECTURES=80", FAIL="cudaFuncGetAttributes")
        self.fails_at("access", "LD_LIBRARY_PATH", CUBLAS="off")
        self.fails_at("access", "nvidia-smi -i 0 -c DEFAULT", MODE="exclusive")
        self.fails_at("worker", "docker run --pid=host", IPC="off")
        self.fails_at("worker", "not even one worker fits; lower --batch-size", MEMORY_BYTES=250 << 20)
        self.fails_at("worker", "illegal memory access", FAIL="kernel:1", FAIL_RANK=0)

    def test_memory_that_a_card_refuses_is_no_fault(self):
        for setting in ("off", "refused"):
            self.assertIn("pinned memory", self.ask(0, MANAGED=setting)["view"])

    @unittest.skipIf(linux_sees_a_card(), "this machine has a card, and is told what keeps it from serving")
    def test_a_machine_without_a_card_is_well_and_told_what_one_would_need(self):
        for program, settings in ((EMULATED, {"DEVICES": 0}), (EMULATED, {"DRIVER": 0}), (SOUNDER, {})):
            lines = self.ask(0, program=program, **settings)
            self.assertEqual(list(lines), ["driver", "CPU", "runs"])
            self.assertRegex(lines["CPU"], r"[\d,]+ samples/s of lenet")
            self.assertIn("compute capability 7.0 or later, its driver, and a build where CUDA", lines["runs"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
