"""Runs on the emulated card (cards.py): where it is chosen, refused or absent, and the Multi-Process Service.

Usage: test_cuda_runs_options.py PATH_OF_SOUNDER_EMULATED [unittest arguments]
"""
import os, re, signal, socket, subprocess, sys, unittest, zipfile

from cards import CARD, DATA, MODEL, TINY, CardCase
from runs import DEADLINE, ENDLESS, children_of, wait_until
from test_data import npy

HERE = os.path.dirname(os.path.abspath(__file__))


class Options(CardCase):
    def test_without_a_card_auto_trains_on_the_cpu_unless_a_card_was_asked_for_by_number(self):
        self.train(*TINY, "--device", "cpu", "--workers", "2", "--out", "cpu")
        for missing in ({"DEVICES": 0}, {"DRIVER": 0}):
            run = f"{missing}"
            out, err = self.train(*TINY, "--workers", "2", "--out", run, env=self.emulated(**missing))
            self.assertNotIn("sounder:", err)
            self.assertNotIn("device: the CPU, for ", out)
            self.assertEqual(self.model("cpu"), self.model(run))
            _, err = self.train(*TINY, "--gpu", "0", "--workers", "2", "--out", f"{missing}-asked", env=self.emulated(**missing), code=69)
            self.assertIn("use --device cpu", self.has_one_sentence(err))
        self.assertEqual(self.train(*TINY, "--workers", "2", "--quiet", "--out", "quiet", env=self.emulated(DEVICES=0)), ("", ""))

    def test_what_waits_or_keeps_replicas_is_for_the_cpu_alone(self):
        for algorithm, sentence in (("hogwild bound=1", "schedule wild of --algorithm with steps or a bound is for the CPU alone"),
                                    ("hogwild steps=2", "schedule wild of --algorithm with steps or a bound is for the CPU alone"),
                                    ("easgd", "local elastic of --algorithm is for the CPU alone")):
            _, err = self.train("--data", DATA, "--model", MODEL, "--momentum", "0", "--algorithm", algorithm, "--device", "cuda", "--out", "no", code=64)
            self.assertIn(sentence, self.has_one_sentence(err))
        private = ["--data", DATA, "--model", MODEL, "--dp-sgd", "clip=1 noise=1", "--rounds", "1"]
        _, err = self.train(*private, "--device", "cuda", "--out", "no", code=64)
        self.assertIn('--dp-sgd "clip=1 noise=1" is for the CPU alone; use --device cpu', self.has_one_sentence(err))
        out, _ = self.train(*private, "--gpu", "0", "--out", "private")
        self.assertIn('device: the CPU, for --dp-sgd "clip=1 noise=1" is for the CPU alone\n', out)

    def test_without_a_card_cuda_is_refused_and_nothing_is_left(self):
        for missing in ({"DEVICES": 0}, {"DRIVER": 0}):
            _, err = self.train(*CARD, code=69, env=self.emulated(**missing))
            self.has_one_sentence(err)
            self.assertFalse(os.path.exists(self.path("runs")) and os.listdir(self.path("runs")))

    def test_gpu_and_local_rank_choose_the_card(self):
        for options, local_rank, card in ((["--gpu", "1"], "0", 1), ([], "2", 2), ([], "4", 1), ([], None, 0), (["--gpu", "0"], "2", 0)):
            environment = self.emulated(DEVICES=3)
            if local_rank:
                environment["LOCAL_RANK"] = local_rank
            run = f"run-{options}-{local_rank}"
            out, _ = self.train(*CARD, "--workers", "1", *options, "--out", run, env=environment)
            self.assertIn(f"(GPU {card})", out)
        _, err = self.train(*CARD, "--gpu", "3", "--out", "none", code=69, env=self.emulated(DEVICES=3))
        self.assertIn("3", self.has_one_sentence(err))

    def test_a_run_without_options_takes_one_worker_and_with_mps_a_few(self):
        cores = len(os.sched_getaffinity(0))
        free = [option for pair in zip(TINY[::2], TINY[1::2]) if pair[0] != "--clients" for option in pair]
        out, _ = self.train(*free, "--out", "run")
        self.assertRegex(out, rf"^Sounder .* 1 worker, {cores} clients?, Emulated card\n")
        out, _ = self.train(*free, "--algorithm", "ssgd", "--out", "ssgd")
        self.assertRegex(out, rf"^Sounder .* 1 worker, {cores} clients?, Emulated card\n")
        out, _ = self.train(*free, "--algorithm", "hogwild data=shard", "--out", "hogwild")
        self.assertRegex(out, r"^Sounder .* 1 worker, 1 client, Emulated card\n")
        self.assertEqual(self.rounds("hogwild")[-1]["samples"], 160)
        out, _ = self.train(*free, "--clients", "8", "--mps", "start", "--out", "mps", env=self.fake_mps())
        self.assertRegex(out, rf"^Sounder .* {4 if cores >= 8 else 2} workers, 8 clients, Emulated card\n")
        self.train("--resume", "run", "--rounds", "3", "--workers", "2")  # who asks for more gets them
        self.assertEqual(len(self.rounds("run")[-1]["barrier_wait_seconds"]), 2)

    def test_more_workers_than_mps_serves_are_refused(self):
        """And the daemon that was started for them ends, though its folder is taken away at once."""
        _, err = self.train(*TINY, "--clients", "70", "--workers", "60", "--device", "cuda", "--mps", "start", "--out", "run", code=64,
                            env=self.fake_mps())
        self.assertIn("--workers 60: MPS serves at most 60 processes on a GPU at a time", self.has_one_sentence(err))
        self.assertTrue(wait_until(lambda: self.processes_of(self.path("bin")) == []))

    @staticmethod
    def processes_of(folder):
        """Command lines that name the folder."""
        lines = []
        for number in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{number}/cmdline", "rb") as file:
                    lines.append(file.read())
            except OSError:
                continue  # it has ended meanwhile
        return [line for line in lines if folder.encode() in line]

    def test_tf32_trains(self):
        self.train(*CARD, "--workers", "1", "--tf32", "--out", "run")
        with open(self.path("run/config.yaml")) as file:
            self.assertIn("tf32: true", file.read())

    def test_a_configuration_of_a_card_serves_the_cpu(self):
        self.train(*TINY, "--workers", "2", "--out", "run")
        self.train("run/config.yaml", "--device", "cpu", "--out", "again")
        _, err = self.train("run/config.yaml", "--device", "cpu", "--mps", "off", "--out", "refused", code=64)
        self.assertIn("--mps off: only used with --device cuda", self.has_one_sentence(err))

    def fake_mps(self):
        """A folder with a stand-in for NVIDIA's control program, and an environment that finds it."""
        folder = self.path("bin")
        os.makedirs(folder, exist_ok=True)
        link = os.path.join(folder, "nvidia-cuda-mps-control")
        if not os.path.exists(link):
            os.symlink(os.path.join(HERE, "fake_mps_control.py"), link)
        environment = self.emulated()
        environment["PATH"] = folder + ":" + environment["PATH"]
        del environment["CUDA_MPS_PIPE_DIRECTORY"]
        return environment

    def has_ended(self, run):
        def quiet():
            try:
                with open(self.path(run, "mps/log/control.log")) as file:
                    return file.read().endswith("quit -t 1\n") and not os.path.exists(self.path(run, "mps/pipe"))
            except OSError:
                return False
        return wait_until(quiet)

    def test_mps_start_keeps_a_daemon_for_the_run_and_no_longer(self):
        out, err = self.train(*CARD, "--workers", "2", "--mps", "start", "--out", "run", env=self.fake_mps())
        self.assertIn("2 workers work side by side (MPS, started for this run)", out)
        self.assertNotIn("has not ended", err)
        self.assertTrue(self.has_ended("run"))
        for number in (signal.SIGTERM, signal.SIGKILL):
            process = self.start(*CARD, "--workers", "2", "--mps", "start", "--rounds", "500", "--out", number.name, env=self.fake_mps())
            self.wait_for_round(number.name, 1)
            self.assertTrue(os.path.exists(self.path(number.name, "mps/pipe/control")))
            process.send_signal(number)
            process.communicate(timeout=DEADLINE)
            self.assertTrue(self.has_ended(number.name), number.name)

    def test_a_daemon_whose_keeper_was_killed_is_ended_by_the_run_itself(self):
        process = self.start(*CARD, "--workers", "2", "--mps", "start", *ENDLESS, "--out", "run", env=self.fake_mps())
        self.wait_for_round("run", 1)
        with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
            keeper, = set(map(int, file.read().split())) - set(children_of(process.pid))
        os.kill(keeper, signal.SIGKILL)
        self.wait_for_more_rounds("run", 1)
        self.stop(process)
        self.assertTrue(self.has_ended("run"))

    def test_a_daemon_that_is_slow_to_quit_is_named_and_delays_a_stopped_run_but_briefly(self):
        warning = r"sounder: warning: --mps start: \S+ has not ended within {} s; .*: echo quit -t 1 \| CUDA_MPS_PIPE_DIRECTORY={}/mps/pipe nvidia-"
        environment = {**self.fake_mps(), "FAKE_MPS_HOLD": self.path("hold")}
        with open(self.path("hold"), "w"):
            pass
        options = [*CARD, "--workers", "2", "--mps", "start"]
        runs = {run: self.start(*options, *more, "--out", run, env=environment) for run, more in
                (("calm", []), ("ended", []), ("stopped", ["--local-epochs", "100000"]))}
        def trained():
            try:
                return {self.metrics(run)[-1]["type"] for run in ("calm", "ended")} == {"summary"}
            except (OSError, ValueError, IndexError):
                return False
        self.assertTrue(wait_until(trained))
        runs["ended"].send_signal(signal.SIGTERM)
        said = {"stopped": self.end_at_once(runs["stopped"]), "calm": self.finish(runs["calm"])[1], "ended": runs["ended"].communicate()[1]}
        for run, seconds in (("calm", 5), ("ended", 2), ("stopped", 2)):
            self.assertRegex(said[run], warning.format(seconds, re.escape(self.path(run))))
        os.unlink(self.path("hold"))
        self.assertTrue(all(map(self.has_ended, runs)))

    def test_a_running_mps_is_used_unless_it_is_not_wanted(self):
        environment = self.fake_mps()
        environment["CUDA_MPS_PIPE_DIRECTORY"] = self.path("pipe")
        environment["CUDA_MPS_LOG_DIRECTORY"] = self.path("log")
        os.makedirs(self.path("pipe")), os.makedirs(self.path("log"))
        control = os.path.join(self.path("bin"), "nvidia-cuda-mps-control")
        subprocess.run([control, "-d"], env=environment, check=True)
        self.assertTrue(wait_until(lambda: os.path.exists(self.path("pipe/control"))))
        try:
            for use, words in (("auto", "side by side (MPS),"), ("start", "side by side (MPS),"), ("off", "take turns (no MPS)")):
                out, _ = self.train(*CARD, "--workers", "2", "--mps", use, "--out", use, env=environment)
                self.assertIn(words, out)
        finally:
            subprocess.run([control], input="quit -t 0\n", text=True, env=environment, check=True)

    @unittest.skipIf(os.geteuid() != 0, "only root makes another user's file")
    def test_a_multi_process_service_of_another_user_is_avoided(self):
        for owner, words in ((12345, "take turns (no MPS)"), (0, "side by side (MPS),")):
            pipe = self.path(str(owner))
            os.makedirs(pipe)
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as daemon:
                daemon.bind(os.path.join(pipe, "control"))
                daemon.listen()
                os.chown(os.path.join(pipe, "control"), owner, owner)
                out, err = self.train(*CARD, "--workers", "2", "--log-level", "info", "--out", f"run-{owner}",
                                      env={**self.emulated(), "CUDA_MPS_PIPE_DIRECTORY": pipe})
            self.assertIn(words, out)
            self.assertEqual("is another user's; this run does without it" in err, owner != 0)

    def test_a_link_in_the_place_of_the_daemons_folder_is_not_followed(self):
        self.train(*CARD, "--workers", "1", "--rounds", "1", "--out", "gift")
        os.makedirs(self.path("mine", "pipe"))
        os.symlink(self.path("mine"), self.path("gift", "mps"))
        _, err = self.train("--resume", "gift", "--rounds", "2", "--mps", "start", code=64, env=self.fake_mps())
        self.assertIn("gift/mps is a link or a file, where the run makes a folder", err)
        self.assertEqual(os.listdir(self.path("mine")), ["pipe"])

    def test_mps_that_cannot_be_started_is_refused(self):
        _, err = self.train(*CARD, "--mps", "start", "--out", "run", code=69)
        self.assertIn("no nvidia-cuda-mps-control in PATH", self.has_one_sentence(err))
        long = "x" * 100
        _, err = self.train(*CARD, "--mps", "start", "--out", long, code=64, env=self.fake_mps())
        self.assertIn("too long a path for a socket", self.has_one_sentence(err))

if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
