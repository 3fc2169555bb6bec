"""Runs in other people's dashboards: sounder.to_wandb and to_mlflow, beside stand-ins, and offline beside the real packages.

Usage: test_python_dashboards.py PATH_OF_SOUNDER FOLDER_OF_THE_PACKAGE [unittest arguments]   (exit 77: skipped, there is no NumPy)
"""
import importlib.util, os, struct, sys, tempfile, types, unittest
from unittest import mock

try:
    import numpy
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

os.environ["SOUNDER"] = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.abspath(sys.argv[2]))
import sounder

QUICK = {"data": "synthetic:1x8x8:400:100", "model": "softmax", "clients": 4, "rounds": 3, "workers": 1, "algorithm": "fedprox mu=0.1", "stragglers": "0 work=drop"}


def is_here(name):
    return importlib.util.find_spec(name) is not None


def records(place):
    """The records of wandb's file of an offline run: after 7 bytes LevelDB's log, blocks of 32 KiB with parts of 7 bytes and their text."""
    with open(place, "rb") as file:
        text = file.read()
    at, whole = 7, b""
    while at + 7 <= len(text):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        length, kind = struct.unpack_from("<HB", text, at + 4)
        whole += text[at + 7:at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # the only part of a record, or its last
            yield whole
            whole = b""


class Wandb(types.ModuleType):
    """What to_wandb needs of it: init gives a run with log, summary and finish."""

    def __init__(self):
        super().__init__("wandb")
        self.points, self.summary, self.ended = [], {}, False

    def init(self, **options):
        self.options = options
        return self

    def log(self, numbers, step):
        self.points.append((step, numbers))

    def finish(self):
        self.ended = True


class Mlflow(types.ModuleType):
    """What to_mlflow needs of it."""

    def __init__(self):
        super().__init__("mlflow")
        self.points, self.info = [], types.SimpleNamespace(run_id="7")

    def start_run(self, **options):
        self.options = options
        return self

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        pass

    def log_params(self, params):
        self.params = params

    def log_metrics(self, numbers, step=None):
        self.points.append((step, numbers))


class Dashboards(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="sounder-dashboards-")
        cls.run_of_all = sounder.train(os.path.join(cls.folder.name, "a run"), **QUICK)
        cls.accuracies = [row["test_accuracy"] for row in cls.run_of_all.rows("round")]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def check_points(self, points):
        self.assertEqual([(step, numbers["test_accuracy"]) for step, numbers in points], list(enumerate(self.accuracies, 1)))
        for _, numbers in points:
            self.assertTrue(all(type(value) in (int, float) for value in numbers.values()), numbers)

    def check_options(self, options):
        self.assertEqual({name: options[name] for name in ("algorithm", "clients", "stragglers", "lr")},
                         {"algorithm": "fedprox mu=0.1", "clients": "4", "stragglers": "0 work=drop", "lr": "0.01"})

    def test_wandb_gets_options_a_point_for_every_round_and_the_summary(self):
        with mock.patch.dict(sys.modules, wandb=Wandb()):
            board = sounder.to_wandb(self.run_of_all, project="fl")
        self.check_points(board.points)
        self.check_options(board.options["config"])
        self.assertEqual((board.options["name"], board.options["project"], board.ended), ("a run", "fl", True))
        self.assertEqual(board.summary["test_accuracy"], self.accuracies[-1])

    def test_mlflow_gets_options_a_point_for_every_round_and_the_summary(self):
        with mock.patch.dict(sys.modules, mlflow=Mlflow()):
            self.assertEqual(sounder.to_mlflow(self.run_of_all.folder, run_name="mine"), "7")  # a folder serves as well
            board = sys.modules["mlflow"]
        self.check_points(board.points[:-1])
        self.check_options(board.params)
        self.assertEqual(board.options["run_name"], "mine")
        self.assertEqual((board.points[-1][0], board.points[-1][1]["summary/test_accuracy"]), (None, self.accuracies[-1]))

    def test_a_missing_package_and_a_folder_without_rounds_are_told(self):
        for name, call in (("wandb", sounder.to_wandb), ("mlflow", sounder.to_mlflow)):
            with mock.patch.dict(sys.modules, {name: None}):
                with self.assertRaisesRegex(sounder.Error, f"to_{name}: .*; pip install {name}, or take rows"):
                    call(self.run_of_all)
            with self.assertRaisesRegex(sounder.Error, f"to_{name}: .*nothing has no round yet; give the folder of a run that has trained"):
                call(os.path.join(self.folder.name, "nothing"))

    @unittest.skipUnless(is_here("wandb"), "wandb is not installed")
    def test_the_real_wandb_takes_it_offline(self):
        import wandb
        from wandb.proto.wandb_internal_pb2 import Record

        board = sounder.to_wandb(self.run_of_all, mode="offline", dir=self.folder.name, settings={"console": "off", "silent": True})
        wandb.teardown()  # its service writes the file
        place = next(os.path.join(at, file) for at, _, files in os.walk(self.folder.name) for file in files if file.endswith(f"{board.id}.wandb"))
        points = []
        for data in records(place):
            record = Record.FromString(data)
            if record.WhichOneof("record_type") == "history":
                points.append({"/".join(item.nested_key) or item.key: float(item.value_json) for item in record.history.item})
        self.assertEqual([(point["_step"], point["test_accuracy"]) for point in points], list(enumerate(self.accuracies, 1)))

    @unittest.skipUnless(is_here("mlflow"), "mlflow is not installed")
    def test_the_real_mlflow_takes_it_in_a_folder(self):
        import mlflow

        with mock.patch.dict(os.environ, MLFLOW_ALLOW_FILE_STORE="true"):
            mlflow.set_tracking_uri(f"file:{self.folder.name}/mlruns")
            key = sounder.to_mlflow(self.run_of_all)
            history = mlflow.MlflowClient().get_metric_history(key, "test_accuracy")
            self.assertEqual([(point.step, point.value) for point in history], list(enumerate(self.accuracies, 1)))
            self.check_options(mlflow.get_run(key).data.params)
            self.assertEqual(mlflow.get_run(key).data.metrics["summary/test_accuracy"], self.accuracies[-1])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
