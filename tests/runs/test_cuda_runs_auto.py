"""Runs for which --device auto finds a card that cannot serve them (cards.py): they take the CPU, and say why in one line.

Usage: test_cuda_runs_auto.py PATH_OF_SOUNDER_EMULATED [unittest arguments]
"""
import os, re, signal, subprocess, sys, unittest

from cards import DATA, TINY, CardCase
from runs import SOUNDER, children_of, wait_until

MEBIBYTE = 1 << 20

# What is wrong with the card: the emulator's settings, a piece of the sentence, the exit code with --device cuda.
SITUATIONS = {
    "ipc": ({"IPC": "off"}, "cannot open GPU memory of the parent process (CUDA IPC", 69),
    "cublas": ({"CUBLAS": "off"}, "cuBLAS cannot be opened", 69),  # with --tf32, which needs it
    "memory": ({"MEMORY_BYTES": 250 * MEBIBYTE}, "not even one worker fits", 71),
    "busy": ({"FAIL": "cudaSetDevice:1=46", "FAIL_RANK": 0}, "GPU 0 cannot be used", 69),
    "exclusive": ({"MODE": "exclusive"}, "serves one process at a time", 69),
    "export": ({"FAIL": "cudaIpcGetMemHandle", "FAIL_RANK": "parent"}, "GPU memory cannot be shared between processes", 69),
}
TF32 = {"cublas": ["--tf32"]}


class Auto(CardCase):
    def took_the_cpu(self, out, piece):
        lines = [line for line in out.splitlines() if line.startswith("device: ")]
        self.assertEqual(len(lines), 1, out)
        self.assertRegex(lines[0], "^device: the CPU, for ")
        self.assertIn(piece, lines[0])
        self.assertEqual(out.count("Sounder "), 1, out)

    def test_a_stop_signal_that_comes_before_the_card_is_given_up_is_not_lost(self):
        process = self.start(*TINY, "--rounds", "100000", "--device", "auto", "--out", "run", env=self.emulated(IPC="off", RESET_MILLISECONDS=300))
        self.assertTrue(wait_until(lambda: children_of(process.pid)))  # the parent takes signals for the run now
        process.terminate()
        _, err = self.finish(process, 143)
        self.assertIn("stopped by signal 15 at once, before the first round was done", err)

    def test_a_stop_signal_that_comes_as_the_card_is_closed_ends_the_run_in_good_order(self):
        def blocks_signals(pid):
            with open(f"/proc/{pid}/status") as file:
                return int(re.search(r"SigBlk:\s*(\w+)", file.read())[1], 16) >> (signal.SIGTERM - 1) & 1

        for name, settings, sentence in (("given-up", {"MEMORY_BYTES": 250 * MEBIBYTE}, "stopped by signal 15 before the first round was done"),
                                         ("finished", {}, "stopped by signal 15 after round 2, the last")):
            with self.subTest(name):
                process = self.start(*TINY, "--workers", "1", "--out", name, env=self.emulated(**settings, RESET_MILLISECONDS=1000))
                self.assertTrue(wait_until(lambda: blocks_signals(process.pid) if name == "given-up" else os.path.exists(self.path("finished/model.safetensors"))))
                process.terminate()
                _, err = self.finish(process, 143)
                self.assertIn(sentence, err)
                self.assertNotIn("sounder: error", err)
        self.assertEqual(self.summary("finished")["device"], "Emulated card")

    def test_what_is_wrong_on_either_device_is_not_tried_again_on_the_cpu(self):
        out, err = self.train(*TINY, "--algorithm", "fedbn", "--out", "run", code=64)
        self.assertEqual(out, "")  # the heading of a second try
        self.assertIn("the net has no normalisation layers", self.has_one_sentence(err))

    def test_a_quiet_run_warns_that_an_option_of_a_card_has_no_effect(self):
        for number, (wish, settings, piece) in enumerate(((["--tf32"], {"CUBLAS": "off"}, "--tf32 has no effect: the CPU trains, for "), (["--models-per-launch", "2"], {"DEVICES": 0}, "--models-per-launch has no effect: the CPU trains, for there is no GPU: "),
                                      (["--models-per-launch", "2", "--algorithm", "pfedme"], {}, "--models-per-launch has no effect: the CPU trains, for personal moreau"))):
            out, err = self.train(*TINY, *wish, "--quiet", "--out", f"quiet-{number}", env=self.emulated(**settings))
            self.assertEqual((out, err.count("\n")), ("", 1), err)
            self.assertIn("sounder: warning: " + piece, err)
            _, err = self.train(*TINY, *wish, "--out", f"loud-{number}", env=self.emulated(**settings))
            self.assertEqual(err, "")

    def test_a_card_that_cannot_serve_leaves_the_run_to_the_cpu_and_one_line_says_why(self):
        for algorithm in ("fedavg", "hogwild data=shard"):  # whose clients are as many as workers
            options = [*TINY[:-4], "--algorithm", algorithm, "--rounds", "2", *(["--clients", "4"] if algorithm == "fedavg" else [])]
            if algorithm != "fedavg":
                options += ["--workers", "1"]  # several race
            self.train(*options, "--device", "cpu", "--out", "cpu-" + algorithm)
            for name, (settings, piece, _) in SITUATIONS.items():
                with self.subTest(name, algorithm=algorithm):
                    run = f"{name}-{algorithm}"
                    out, _ = self.train(*options, *TF32.get(name, []), "--out", run, env=self.emulated(**settings))
                    self.took_the_cpu(out, piece)
                    self.assertEqual(self.model("cpu-" + algorithm), self.model(run))
                    self.assertEqual(self.summary(run)["device"], "cpu")
                    self.assertEqual([line["type"] for line in self.metrics(run)].count("start"), 1)

    def test_device_cuda_ends_there_with_a_sentence_before_the_heading_and_leaves_nothing(self):
        for name, (settings, piece, code) in SITUATIONS.items():
            with self.subTest(name):
                out, err = self.train(*TINY, *TF32.get(name, []), "--device", "cuda", "--out", name, code=code, env=self.emulated(**settings))
                self.assertEqual(out, "")
                last = err.splitlines()[-1]
                self.assertRegex(last, "^sounder: error: ")
                self.assertIn(piece, last)
                self.assertFalse(os.path.exists(self.path(name)))

    def test_batches_that_no_card_computes_are_refused_before_the_heading_or_trained_on_the_cpu(self):
        options = ["--data", "synthetic:1x4x4:64:8", "--model", "linear 200000; linear 10", "--batch-size", "11000",
                   "--clients", "2", "--rounds", "1", "--workers", "1"]
        piece = "batches of 11000 samples cannot be computed at once on a GPU"
        out, err = self.train(*options, "--device", "cuda", "--out", "run", code=64)
        self.assertEqual(out, "")
        self.assertIn(piece, self.has_one_sentence(err))
        out, err = self.train(*options, "--out", "run")
        self.took_the_cpu(out, piece)
        self.assertEqual(err, "")

    def test_a_personal_model_gets_the_line_where_a_card_was_asked_for(self):
        out, err = self.train(*TINY, "--algorithm", "pfedme", "--gpu", "0", "--out", "run")
        self.took_the_cpu(out, "personal moreau of --algorithm is for the CPU alone")
        self.assertEqual(err, "")

    def test_small_batches_are_trained_without_cublas(self):
        for model in ("2nn", "lenet", "cnn"):
            with self.subTest(model):
                options = ["--data", "synthetic:1x28x28:16:4", "--model", model, "--batch-size", "8", "--clients", "1", "--rounds", "1", "--device", "cuda"]
                self.train(*options, "--out", "with-" + model, env=self.emulated())
                self.train(*options, "--out", "without-" + model, env=self.emulated(CUBLAS="off"))
                self.assertEqual(self.model("with-" + model), self.model("without-" + model))

    def test_a_run_of_the_cpu_is_resumed_there_with_the_same_bits(self):
        settings = self.emulated(IPC="off")
        self.train(*TINY, "--rounds", "4", "--device", "cpu", "--out", "calm")
        self.train(*TINY, "--rounds", "2", "--out", "run", env=settings)
        out, _ = self.train("--resume", "run", "--rounds", "4", env=settings)
        self.took_the_cpu(out, "CUDA IPC")
        self.assertEqual(self.model("calm"), self.model("run"))

    def test_an_evaluation_falls_back_too(self):
        self.train(*TINY, "--device", "cpu", "--out", "run")
        for settings in ({"CUBLAS": "off"}, {"MEMORY_BYTES": 65 * MEBIBYTE}):
            out, err = self.call("eval", "run", "--tf32", "--log-level", "info", **self.emulated(**settings))
            self.assertRegex(out, r"s  cpu\nby class  0: ")
            self.assertIn("evaluated on the CPU, for ", err)

    def test_a_card_of_wsl_gets_the_line_though_it_is_on_no_bus(self):
        script = ("mkdir -p dev && mount -t tmpfs none dev && touch dev/dxg dev/null dev/urandom && mkdir dev/shm && "
                  "for name in null urandom shm; do mount --rbind /dev/$name dev/$name || exit 9; done; mount --rbind dev /dev || exit 9; "
                  'exec "$@"')
        def run(*command):
            return subprocess.run(["unshare", "-rm", "sh", "-c", script, "sh", *command], cwd=self.path(), env=self.emulated(DRIVER=0),
                                  capture_output=True, text=True)
        tried = run("true")
        if tried.returncode != 0:
            self.skipTest("no mount namespaces here: " + tried.stderr)
        done = run(SOUNDER, "train", *TINY, "--out", "run")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.took_the_cpu(done.stdout, "there is no GPU: no NVIDIA driver was found")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
