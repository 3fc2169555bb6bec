"""Runs that begin from the weights of a file.

Usage: test_init.py PATH_OF_SOUNDER [unittest arguments]; with the program on the emulated card the runs are on that.
"""
import json, os, struct, sys, unittest

from runs import SOUNDER, RunCase, parse_safetensors

TASK = ["--data", "synthetic:1x6x6:40:20", "--batch-size", "10", "--quiet", "--clients", "2", "--workers", "1", "--rounds", "1",
        "--device", "cuda" if "emulated" in os.path.basename(SOUNDER) else "cpu"]
NET = "conv 4 3; groupnorm 2; relu; linear 10"


def safetensors(tensors):
    """A file of float32 tensors: {name: (shape, values)}."""
    header, payload = {}, b""
    for name, (shape, values) in tensors.items():
        data = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(payload), len(payload) + len(data)]}
        payload += data
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + payload


class Init(RunCase):
    def tensors(self, run):
        with open(self.path(run, "model.safetensors"), "rb") as file:
            return parse_safetensors(file.read())[1]

    def write(self, name, tensors):
        with open(self.path(name), "wb") as file:
            file.write(safetensors(tensors))
        return name

    def test_training_begins_from_the_weights_of_a_file(self):
        self.train(*TASK, "--model", NET, "--lr", "0.1", "--out", "first")
        first = self.tensors("first")
        # Steps too small to move a weight: what comes out is what went in.
        self.train(*TASK, "--model", NET, "--lr", "1e-30", "--seed", "9", "--init", "first/model.safetensors", "--out", "again")
        self.assertEqual(self.tensors("again"), first)
        other = self.write("other.safetensors", dict(reversed({**first, "head.weight": ([2], [1, 2])}.items())))
        _, err = self.train(*TASK, "--model", NET, "--lr", "1e-30", "--init", other, "--out", "other")
        self.assertEqual(self.tensors("other"), first)
        self.assertIn("the net has no use for 1 of its tensors: head.weight", err)

    def test_a_run_that_is_resumed_goes_on_from_where_it_was(self):
        self.train(*TASK, "--model", NET, "--seed", "3", "--lr", "0.1", "--out", "first")
        begin = ["--model", NET, "--init", "first/model.safetensors"]
        self.train(*TASK, *begin, "--out", "two", "--rounds", "2")
        self.train(*TASK, *begin, "--out", "one")
        self.train("--resume", "one", "--rounds", "2", "--quiet")
        self.assertEqual(self.tensors("one"), self.tensors("two"))

    def test_what_does_not_fit_is_listed(self):
        self.train(*TASK, "--model", NET, "--out", "first")
        first = self.tensors("first")
        del first["norm1.bias"]
        first["conv1.weight"] = ([4, 9], first["conv1.weight"][1])
        self.write("short.safetensors", first)
        for file, code, sentence in (
                ("short.safetensors", 65, "--init: short.safetensors does not fit the net (2 of 6 tensors): "
                 "conv1.weight is 4x9, not 4x1x3x3, norm1.bias is missing"),
                ("none.safetensors", 66, "none.safetensors")):
            _, err = self.train(*TASK, "--model", NET, "--init", file, "--out", "refused", code=code)
            self.assertIn(sentence, err)
            self.assertFalse(os.path.exists(self.path("refused", "model.safetensors")))


if __name__ == "__main__":
    unittest.main(argv=["test_init.py"] + sys.argv[2:], verbosity=2)
