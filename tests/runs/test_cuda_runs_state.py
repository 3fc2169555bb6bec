"""What clients keep from turn to turn, on the emulated card (cards.py): the parameters that stay with them and the state of
their optimizers, beside the CPU's.

Usage: test_cuda_runs_state.py PATH_OF_SOUNDER_EMULATED [unittest arguments]
"""
import os, signal, sys, unittest

from cards import CARD, TINY, CardCase
from runs import children_of

NORMS = ["--model", "conv 3 3; groupnorm 3; pool 2; relu; linear 9; layernorm; linear 10"]
OWN = (["fedbn", *NORMS], ["fedbn", "--model", "conv 3 3; batchnorm; relu; linear 9; batchnorm; linear 10"], ["fedper"],
       ["lg-fedavg", "--momentum", "0.5"], ["local-only"], ["fedprox mu=0.1; personal head layers=2"],
       ["personal tensors names=conv1.bias,fc1.*; combine median", "--freeze", "conv1.weight"], ["fedper; send top-k 0.5 feedback=no"],
       ["fedrep head-epochs=3", "--momentum", "0.5"], ["fedrep head-epochs=2 layers=2; local prox; optimizer adam eps=0.01", "--lr", "0.01", "--clip-grad-norm", "0.5"],
       ["fedrep head-epochs=2", "--model", "conv 3 3; batchnorm; relu; linear 9; batchnorm; dropout 0.2; linear 10", "--finetune-epochs", "1"],
       ["ditto"], ["fedprox mu=0.1; personal ditto lambda=0.3 epochs=2", "--momentum", "0.5", "--finetune-epochs", "1"],
       ["ditto lambda=0 epochs=3; optimizer adam eps=0.01; send top-k 0.5 feedback=no", "--lr", "0.01", "--model", "conv 3 3; batchnorm; relu; dropout 0.2; linear 10"],
       ["ditto; combine median", "--freeze", "conv1.weight", "--clip-grad-norm", "0.5"],
       ["fedbabu epochs=2", "--momentum", "0.5"], ["fedbabu epochs=2 tunes=head layers=2; local prox mu=0.1", "--model", "conv 3 3; pool 2; relu; linear 9; linear 10", "--finetune-epochs", "1"])
KEPT = (["fedavg", "--momentum", "0.8"], ["fedprox; optimizer adam eps=0.01", "--lr", "0.01"],
        ["fedavg; optimizer sgd nesterov=yes", "--momentum", "0.8", "--clip-grad-norm", "0.5"], ["fedavg; schedule rounds steps=3", "--momentum", "0.5"])
CLIENTS = ["--clients", "5", "--clients-per-round", "3", "--partition", "dirichlet alpha=0.5", "--batch-size", "7"]
EPOCHS = ["--local-epochs", "2"]


class State(CardCase):
    def client_losses(self, run):
        return [(line["round"], line["client"], line["loss"]) for line in self.metrics(run) if line["type"] == "client"]

    def check(self, number, *words):
        """The CPU's model and losses, and the same bits by one worker, and by three that stop and resume."""
        cpu, one, parts = (f"{run}-{number}" for run in ("cpu", "one", "parts"))
        options = [*CLIENTS, *([] if "steps=" in words[0] else EPOCHS), "--rounds", "4", "--client-test", "0.2", "--eval-clients-every", "2", "--algorithm", *words]
        self.train(*TINY, *options, "--device", "cpu", "--out", cpu)
        self.train(*CARD, *options, "--workers", "1", "--out", one)
        self.train(*CARD, *options, "--workers", "3", "--models-per-launch", "2", "--rounds", "2", "--out", parts)
        self.train("--resume", parts, "--rounds", "4")
        self.assertEqual(self.model(parts), self.model(one))
        self.assertEqual(self.client_losses(parts), self.client_losses(one))
        expected, actual = self.tensors(cpu), self.tensors(one)
        for name in expected:
            for a, b in zip(expected[name][1], actual[name][1]):
                self.assertAlmostEqual(a, b, delta=1e-3, msg=name)
        self.assertEqual(len(self.client_losses(cpu)), len(self.client_losses(one)))
        for a, b in zip(self.client_losses(cpu), self.client_losses(one)):
            self.assertEqual(a[:2], b[:2])
            self.assertAlmostEqual(a[2], b[2], delta=1e-3)
        figures = [[(line["model"], line["loss_by_samples"]) for line in self.metrics(run) if line["type"] == "clients_evaluation"] for run in (cpu, one)]
        self.assertTrue(figures[0])
        for a, b in zip(*figures, strict=True):
            self.assertEqual(a[0], b[0])
            self.assertAlmostEqual(a[1], b[1], delta=1e-3)

    def test_parameters_that_stay_with_their_clients_are_those_of_the_cpu(self):
        for number, words in enumerate(OWN):
            with self.subTest(words):
                self.check(number, *words)

    def test_an_optimizer_that_lasts_is_the_cpus(self):
        for number, words in enumerate(KEPT):
            with self.subTest(words):
                self.check(number, *words, "--client-optimizer-state", "keep")
                self.train(*CARD, *CLIENTS, "--rounds", "4", "--algorithm", *words, "--client-optimizer-state", "fresh", "--workers", "1", "--out", f"fresh-{number}")
                self.assertNotEqual(self.model(f"fresh-{number}"), self.model(f"one-{number}"))

    def test_momenta_that_clients_average_are_those_of_the_cpu(self):
        for number, words in enumerate((["fedavg", "--momentum", "0.8"], ["fedprox; optimizer sgd nesterov=yes", "--momentum", "0.8", "--clip-grad-norm", "0.5"],
                                        ["fedavg; send clip 0.05; send qsgd", "--momentum", "0.5"], ["server momentum", "--momentum", "0.5", "--drop-out", "0.4"])):
            with self.subTest(words):
                self.check(number, *words, "--client-optimizer-state", "average")
                self.train(*CARD, *CLIENTS, *EPOCHS, "--rounds", "4", "--algorithm", *words, "--client-optimizer-state", "fresh", "--workers", "1", "--out", f"fresh-{number}")
                self.assertNotEqual(self.model(f"fresh-{number}"), self.model(f"one-{number}"))

    def test_a_client_whose_momentum_is_too_large_is_refused(self):
        net = ["--model", "linear 9; linear 9; linear 10", "--rounds", "1", "--workers", "1"]
        self.train(*TINY, *net, "--lr", "3", "--device", "cpu", "--out", "far")  # whose gradients are large
        options = [*TINY, *net, "--init", "far/model.safetensors", "--lr", "1e-30", "--momentum", "0.9", "--client-optimizer-state", "average"]
        told = []
        for device in "cpu", "cuda":
            _, err = self.train(*options, "--device", device, "--out", device, code=70)
            told.append([line for line in err.splitlines() if "update refused: the momentum of a weight of " in line])
        self.assertTrue(told[0])
        self.assertEqual(*([line.split(" became ")[0] for line in lines] for lines in told))

    def test_a_gradient_that_clients_look_at_first_is_that_of_the_cpu(self):
        self.check(0, "scaffold option=I", "--model", "conv 3 3; batchnorm; pool 2; relu; dropout 0.3; linear 9; linear 10", "--random-flip",
                   "--freeze", "conv1.bias,fc1.weight")

    def test_kills_and_late_copies_change_no_bit_of_what_clients_keep(self):
        for number, words in enumerate((["fedper"], ["ditto epochs=2"], ["optimizer adam", "--lr", "0.01", "--client-optimizer-state", "keep"],
                                        ["fedavg", "--momentum", "0.5", "--client-optimizer-state", "average"])):
            with self.subTest(words):
                options = [*CARD, *CLIENTS, "--workers", "2", "--rounds", "40", "--algorithm", *words]
                self.train(*options, "--out", f"whole-{number}")
                self.train(*options, "--out", f"late-{number}", env=self.emulated(PAGEABLE="late"))
                self.assertEqual(self.model(f"late-{number}"), self.model(f"whole-{number}"))
                process = self.start(*options, "--out", f"killed-{number}")
                self.wait_for_round(f"killed-{number}", 2)
                os.kill(min(children_of(process.pid)), signal.SIGKILL)
                self.wait_for_more_rounds(f"killed-{number}", 1)
                process.send_signal(signal.SIGKILL)
                process.communicate()
                self.assertEqual(process.returncode, -signal.SIGKILL)
                self.train("--resume", f"killed-{number}", "--rounds", "40")
                self.assertEqual(self.model(f"killed-{number}"), self.model(f"whole-{number}"))

    def test_a_client_whose_parameters_are_no_longer_finite_keeps_what_it_had(self):
        _, err = self.train(*CARD, "--algorithm", "local-only", "--lr", "1000", "--local-epochs", "9", "--workers", "1", "--out", "run")
        self.assertIn("its personal model is no longer finite and stays as it was", err)
        self.assertEqual(self.rounds("run")[-1]["updates_refused"], 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
