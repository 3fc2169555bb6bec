"""What the tests of ONNX's files share: small data, and what a file of given nodes makes of them."""
import json, os, random, subprocess, sys, warnings

try:
    import onnx
except ImportError as missing:
    print(f"skipped: {missing} (Debian: python3-onnx)")
    sys.exit(77)
os.environ["SOUNDER"] = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.abspath(sys.argv[2]))
import sounder
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

    def read(self, name):
        """The layer list and the file of weights that a file of ONNX's becomes; self.told: warnings."""
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            text, weights = sounder.layers(self.path(name)), sounder.write_weights(self.path(name + ".safetensors"), self.path(name))
        self.told = [str(warning.message) for warning in told]
        return text, weights

    def refused(self, name):
        with self.assertRaises(sounder.Error) as error:
            self.read(name)
        return str(error.exception)

    def evaluate(self, path, *arguments, data=DATA):
        """Loss and hits, of a run, of weights and a layer list, or of a file of ONNX's."""
        if path.endswith(".onnx"):
            text, path = self.read(path)
            arguments = ["--model", text]
        done = subprocess.run([SOUNDER, "eval", path, *arguments, *data, "--json"], cwd=self.folder.name, capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["test_loss"], json.loads(done.stdout)["hits"]
