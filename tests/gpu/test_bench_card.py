"""bench_card on the emulated card: its figures mean nothing there, but what it counts must be right.

Usage: test_bench_card.py PATH_OF_BENCH_CARD_EMULATED [unittest arguments]
"""
import json, os, subprocess, sys, unittest

BENCH = os.path.abspath(sys.argv[1])
SMALL = ["--steps", "3", "--runs", "2", "--rows", "50", "--copy-mib", "1"]


def bench(*options, code=0):
    result = subprocess.run([BENCH, *options], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
    assert result.returncode == code, result.stderr
    return result.stdout if code == 0 else result.stderr


class BenchCard(unittest.TestCase):
    def lines(self, *options):
        return [json.loads(line) for line in bench("--json", *SMALL, *options).splitlines()]

    def test_there_is_a_cell_for_every_net_batch_number_of_models_and_precision(self):
        lines = self.lines("--nets", "softmax,linear 7; relu; linear 10", "--shape", "1x6x5", "--batches", "3,8", "--models", "1,2", "--tf32", "both")
        self.assertEqual(lines[0]["type"], "card")
        self.assertGreater(lines[0]["copy_bytes_per_second"], 0)
        cells = {(cell["net"], cell["batch"], cell["models"], cell["tf32"]) for cell in lines[1:]}
        self.assertEqual(len(cells), 16)
        self.assertTrue(all(cell["microseconds_a_step"] > 0 and cell["samples_per_second"] > 0 for cell in lines[1:]))

    def test_the_parts_of_a_step_add_up_to_its_bytes_and_operations(self):
        for momentum in ("0", "0.9"):
            _, cell, *costs = self.lines("--nets", "lenet", "--shape", "1x16x16", "--batches", "4", "--models", "2", "--momentum", momentum, "--costs")
            self.assertEqual(sum(cost["bytes"] for cost in costs), cell["bytes"])
            self.assertEqual(sum(cost["operations"] for cost in costs), cell["operations"])
            self.assertIn("linear gradient and step", [cost["part"] for cost in costs])
            self.assertTrue(all(cost["microseconds"] >= 0 for cost in costs))

    def test_bytes_and_operations_of_one_layer_are_those_counted_by_hand(self):
        models, batch, ins, outs = 3, 5, 30, 10
        columns = 8  # the batch, padded
        lanes, weights = lambda features: 4 * models * columns * features, 4 * models * (ins + 1) * outs
        for momentum, arrays in (("0", 2), ("0.5", 4)):
            _, cell = self.lines("--nets", "softmax", "--shape", "1x6x5", "--batches", str(batch), "--models", str(models), "--momentum", momentum)
            gather, forward = 1.25 * lanes(ins), lanes(ins) + lanes(outs) + weights
            step = lanes(ins) + lanes(outs) + arrays * weights
            self.assertEqual(cell["bytes"], gather + forward + 3 * lanes(outs) + step)
            self.assertEqual(cell["operations"], 2 * 2 * models * batch * ins * outs)
            self.assertEqual(cell["kernels"], 4)  # gather, product, loss, step

    def test_a_relu_is_a_part_of_the_normalisation_before_it_and_costs_no_bytes(self):
        models, columns, features = 2, 8, 4 * 4 * 3
        _, cell, *costs = self.lines("--nets", "conv 4 3; groupnorm 2; relu; linear 10", "--shape", "1x6x5", "--batches", "5", "--models", str(models), "--costs")
        parts, tensor = {cost["part"]: cost["bytes"] for cost in costs}, 4 * models * columns * features
        self.assertEqual(parts["norm 2 forward"], 2 * tensor)
        self.assertEqual(parts["norm 2 back"], 3 * tensor)
        self.assertFalse([part for part in parts if part.startswith("relu")])

    def test_one_step_runs_the_nets_it_names_and_a_table_is_printed_for_people(self):
        self.assertEqual(bench("--rows", "20", "--one-step", "softmax:2:3", "2nn:1").count("one step of"), 2)
        table = bench(*SMALL, "--nets", "softmax", "--batches", "4", "--models", "1", "--costs")
        self.assertRegex(table, r"(?m)^softmax +4 +1 false ")
        self.assertRegex(table, r"(?m)^    linear gradient and step ")

    def test_evaluations_have_a_cell_for_our_own_products_and_one_for_those_of_cublas(self):
        _, *cells = self.lines("--nets", "softmax", "--shape", "1x6x5", "--batches", "80", "--models", "1", "--tests")
        self.assertEqual([cell["net"] for cell in cells], ["softmax test", "softmax test by cuBLAS"])
        self.assertTrue(all(cell["microseconds_a_step"] > 0 for cell in cells))

    def test_wrong_options_are_refused_with_a_sentence(self):
        for options, words in ((["--batches", "x"], "--batches x: give whole numbers"), (["--nope", "1"], "--nope: no such option"),
                               (["--one-step", "lenet"], "--one-step lenet: give NET:MODELS"), (["--nets", "nonsense"], "nonsense")):
            self.assertIn(words, bench(*SMALL, *options, code=64))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
