"""What the tests of ONNX's files share: small data, and what a file of given nodes makes of them."""
import json, random, subprocess

from onnx_bytes import model, node, tensor
from runs import DEADLINE, SOUNDER, RunCase

DATA = ["--data", "synthetic:2x8x8:80:60", "--device", "cpu"]
LETTERS = ["--data", "synthetic:1x1x6:80:60", "--device", "cpu"]


def numbers(count, seed, low=-0.4, high=0.4):
    draw = random.Random(seed)
    return [draw.uniform(low, high) for _ in range(count)]


def whole(name, value):
    return node("Constant", "", name, value=tensor("", [len(value)] if isinstance(value, list) else [], value if isinstance(value, list) else [value]))


class OnnxCase(RunCase):
    def write(self, name, nodes, tensors, shape=("n", 2, 8, 8), **more):
        with open(self.path(name), "wb") as file:
            file.write(model(nodes, tensors, shape, **more))
        return name

    def run_eval(self, *arguments, code=0, data=DATA, **more):
        done = subprocess.run([SOUNDER, "eval", *arguments, *data, "--json"], cwd=self.folder.name, capture_output=True, text=True, timeout=DEADLINE, **more)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def evaluate(self, *arguments, code=0, **more):
        done = self.run_eval(*arguments, code=code, **more)
        return (json.loads(done.stdout)["test_loss"], json.loads(done.stdout)["hits"]) if code == 0 else done.stderr
