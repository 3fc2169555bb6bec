"""Runs that begin from the weights of a file, and such whose nets learn only in part or read sequences.

Usage: test_init.py PATH_OF_SOUNDER [unittest arguments]; with the program on the emulated card the runs are on that.
"""
import json, os, shutil, struct, sys, unittest

from runs import SOUNDER, RunCase, parse_safetensors

ON_CARD = "emulated" in os.path.basename(SOUNDER)
TASK = ["--data", "synthetic:1x6x6:40:20", "--batch-size", "10", "--quiet", "--clients", "2", "--workers", "1", "--rounds", "1",
        "--device", "cuda" if ON_CARD else "cpu"]
NET = "conv 4 3; groupnorm 2; relu; linear 10"
NORM = "conv 4 3; batchnorm; relu; linear 10"


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

    def test_a_file_may_have_other_floats_and_the_prefixes_of_wrappers(self):
        self.train(*TASK, "--model", "linear 10", "--lr", "0.1", "--out", "first")
        first = self.tensors("first")
        def bfloat(value):
            return struct.pack("<f", value)[2:]
        packs = {"F64": lambda value: struct.pack("<d", value), "F16": lambda value: struct.pack("<e", value), "BF16": bfloat}
        reads = {"F64": lambda data: struct.unpack("<d", data)[0], "F16": lambda data: struct.unpack("<e", data)[0],
                 "BF16": lambda data: struct.unpack("<f", b"\0\0" + data)[0]}
        for number, (kind, prefix) in enumerate((("F64", "module."), ("F16", "_orig_mod.module."), ("BF16", "module._orig_mod."))):
            with self.subTest(kind):
                header, payload = {}, b""
                for name, (shape, values) in first.items():
                    data = b"".join(map(packs[kind], values))
                    header[prefix + name] = {"dtype": kind, "shape": shape, "data_offsets": [len(payload), len(payload) + len(data)]}
                    payload += data
                header[prefix + "tracked"] = {"dtype": "BOOL", "shape": [1], "data_offsets": [len(payload), len(payload) + 1]}  # which the net has no use for
                text = json.dumps(header).encode()
                with open(self.path("other.safetensors"), "wb") as file:
                    file.write(struct.pack("<Q", len(text)) + text + payload + b"\1")
                _, err = self.train(*TASK, "--model", "linear 10", "--lr", "1e-30", "--init", "other.safetensors", "--out", f"again{number}")
                self.assertEqual(self.tensors(f"again{number}"), {name: (shape, tuple(reads[kind](packs[kind](value)) for value in values)) for name, (shape, values) in first.items()})
                self.assertIn("the net has no use for 1 of its tensors: tracked", err)
                own, other = (json.loads(self.call("eval", model, "--model", "linear 10", "--data", TASK[1], "--seed", "1", "--json", "--log-level", "error")[0])
                              for model in ("first/model.safetensors", "other.safetensors"))
                self.assertAlmostEqual(own["test_loss"], other["test_loss"], places=2)

    def test_a_body_begins_from_a_file_and_a_head_for_other_classes_at_random(self):
        self.train(*TASK, "--model", NET, "--lr", "0.1", "--out", "first")
        first = self.tensors("first")
        other = NET.replace("linear 10", "linear 12; relu; linear 10")
        task = [*TASK, "--model", other, "--lr", "1e-30", "--init", "first/model.safetensors"]
        _, err = self.train(*task, "--out", "refused", code=65)
        self.assertRegex(err, r"does not fit the net \(4 of 8 tensors\): fc1.weight is 10x64, not 12x64, fc1.bias is 10, not 12, fc2.weight is missing, fc2.bias is missing; --init-partial takes those that fit\n")
        _, err = self.train(*task, "--init-partial", "--out", "run")
        self.assertIn("4 of the net's 8 tensors do not fit and keep their initial values: fc1.weight is 10x64, not 12x64, fc1.bias is 10, not 12, fc2.weight is missing, fc2.bias is missing\n", err)
        self.train(*TASK, "--model", other, "--lr", "1e-30", "--out", "fresh")
        for name, value in self.tensors("run").items():
            self.assertEqual(value, (self.tensors("fresh") if name.startswith("fc") else first)[name], name)
        with open(self.path("run/config.yaml")) as file:
            self.assertIn("init-partial: true\n", file.read())
        self.train("run/config.yaml", "--out", "again")
        self.assertEqual(self.tensors("again"), self.tensors("run"))
        os.remove(self.path("first/model.safetensors"))
        self.train("--resume", "run", "--rounds", "2")
        self.assertIn("--init-partial true: only used with --init", self.train(*TASK, "--model", NET, "--init-partial", "--out", "alone", code=64)[1])
        nothing = self.write("nothing.safetensors", {"a": ([1], [1])})
        self.assertIn("; no tensor fits", self.train(*TASK, "--model", NET, "--init", nothing, "--init-partial", "--out", "none", code=65)[1])

    def test_weights_of_another_table_are_doubted(self):
        def table(name, head, yes="yes"):
            with open(self.path(name), "w") as file:
                file.write("\n".join([head, *(f"{i % 7},{i % 5},{yes if i % 2 else 'no'}" for i in range(100))]) + "\n")
        table("one.csv", "age,size,label")
        table("turned.csv", "size,age,label")
        table("named.csv", "age,size,label", "maybe")
        task = ["--model", "linear 4; relu; linear classes", "--clients", "2", "--rounds", "1", "--quiet"]
        self.train("--data", "one.csv", *task, "--out", "one")
        doubt = "its model has seen data with "
        for data, more, word in (("turned.csv", [], "other columns, or in another order"), ("named.csv", [], "other names of classes"),
                                 ("named.csv", ["--init-partial"], None), ("one.csv", [], None)):
            with self.subTest(data):
                _, err = self.train("--data", data, *task, "--init", "one/model.safetensors", *more, "--out", f"of-{data}{len(more)}")
                self.assertIn(doubt + word, err) if word else self.assertNotIn(doubt, err)

    def test_personal_models_begin_from_the_weights_of_a_file_and_a_run_goes_on_without_it(self):
        self.train(*TASK, "--model", NET, "--lr", "0.1", "--rounds", "3", "--out", "first")
        clients = ["--clients", "4", "--clients-per-round", "2", "--client-test", "0.2", "--eval-clients-every", "1"]

        def losses(run):
            return [(line["round"], line["model"], line["loss_by_samples"]) for line in self.metrics(run) if line["type"] == "clients_evaluation"]

        for number, rule in enumerate(("ditto", "ditto; combine centered", *(() if ON_CARD else ("pfedme",)))):
            with self.subTest(rule):
                task = [*TASK, *clients, "--model", NET, "--algorithm", rule, "--init", "start.safetensors"]
                shutil.copy(self.path("first/model.safetensors"), self.path("start.safetensors"))
                self.train(*task, "--lr", "1e-30", *(["--algorithm", "pfedme lr=1e-30"] if rule == "pfedme" else []), "--out", f"still{number}")
                self.assertEqual(len({loss for _, _, loss in losses(f"still{number}")}), 1)  # of both models: they are the file's
                self.train(*task, "--lr", "0.05", "--rounds", "3", "--out", f"whole{number}")
                self.train(*task, "--lr", "0.05", "--out", f"run{number}")
                os.remove(self.path("start.safetensors"))
                self.train("--resume", f"run{number}", "--rounds", "3", "--quiet")
                self.assertEqual(losses(f"run{number}"), losses(f"whole{number}"))
                self.assertEqual(len(losses(f"run{number}")), 6)

    def check_frozen(self, start, *options, out):
        self.train(*TASK, "--model", NET, "--lr", "0.1", "--freeze", "conv*, norm1.bias fc1.bias", *options, "--out", out)
        after = self.tensors(out)
        moved = {name for name in start if after[name] != start[name]}
        self.assertEqual(moved, {"norm1.weight", "fc1.weight"}, options)

    def test_frozen_tensors_neither_move_nor_are_sent(self):
        self.train(*TASK, "--model", NET, "--lr", "1e-30", "--out", "start")
        start = self.tensors("start")
        rules = ["fedavg", "server adam", "combine median", "scaffold"]
        if not ON_CARD:
            rules += ["optimizer adam", "send top-k 0.5; optimizer adamw", "dp-fedavg noise=0.5", "feddyn", "ditto", "combine trimmed 0"]
        for number, rule in enumerate(rules):
            self.check_frozen(start, "--algorithm", rule, "--weight-decay", "0.1", out=f"frozen{number}")
        sent = [self.rounds(run)[-1]["up_bytes"] for run in ("start", "frozen0")]
        frozen = sum(len(start[name][1]) for name in start if name not in ("norm1.weight", "fc1.weight"))
        self.assertEqual(sent[0] - sent[1], 2 * 4 * frozen)
        up, down = ([self.rounds(run)[-1][key] for run in ("frozen0", "frozen3")] for key in ("up_bytes", "down_bytes"))
        self.assertEqual((up[1] - 2 * 16, down[1]), (2 * (up[0] - 2 * 16), 2 * down[0]))  # frozen tensors have no control variates
        if not ON_CARD:
            self.check_frozen(start, "--attack", "gaussian", "--attackers", "0", out="attacked")
        self.check_frozen(start, "--algorithm", "ssgd", out="lockstep")
        self.check_frozen(start, "--algorithm", "hogwild", "--workers", "2", "--clip-grad-norm", "1", out="wild")
        for workers in ("2", "4"):
            self.train(*TASK, "--model", NET, "--lr", "0.1", "--freeze", "conv*", "--workers", workers, "--out", f"workers{workers}")
        self.assertEqual(self.tensors("workers2"), self.tensors("workers4"))

    def test_what_cannot_be_frozen_is_refused(self):
        for options, sentence in ((["--freeze", "conv9.*"], '--freeze: "conv9.*" fits none of the net\'s tensors; there are conv1.weight'),
                                  (["--freeze", "*"], "--freeze: every tensor of the net that learns would be frozen; leave one"),
                                  (["--freeze", "conv*", "--algorithm", "ssgd", "--weight-decay", "0.1", "--device", "cpu"],
                                   "does not go with --weight-decay 0.1: frozen tensors would decay under --algorithm hogwild or ssgd")):
            _, err = self.train(*TASK, "--model", NET, *options, "--out", "refused", code=64)
            self.assertIn(sentence, err)

    def test_what_data_and_nets_do_not_go_with_is_refused_with_both_sides(self):
        targets, embedding = ["--data", "quadratics a=1,4 b=0,3", "--clients", "2", "--model", "linear 1"], ["--model", "embedding 256 4; lstm 5 last; linear 10"]
        for options, sentence in (([*targets, "--label-smoothing", "0.1"], '--label-smoothing 0.1 does not go with --data "quadratics a=1,4 b=0,3": those samples '
                                                                          "have no classes; leave it out"),
                                  ([*targets, "--drift", "labels"], "those samples have no labels; take pixels or classes"),
                                  ([*targets, "--random-crop", "2"], "those samples are no images; leave it out"),
                                  ([*embedding, "--drift", "pixels"], "--drift pixels does not go with --model \"embedding 256 4; "),
                                  ([*embedding, "--client-noise", "block"], "an embedding reads whole numbers; leave it out")):
            _, err = self.train(*TASK, *options, "--device", "cpu", "--out", "refused", code=64)
            self.assertIn(sentence, err)

    def test_nets_of_sequences_learn_with_any_number_of_workers(self):
        net = ["--model", "embedding 256 4; positions as e; attention 2 causal; add e; layernorm; linear 7 each; relu; lstm 6; lstm 5 last; linear 10", "--lr", "0.5"]
        for workers in ("1", "3"):
            self.train(*TASK, *net, "--local-epochs", "3", "--workers", workers, "--out", f"sequence{workers}")
        self.assertEqual(self.tensors("sequence1"), self.tensors("sequence3"))
        _, err = self.train(*TASK, *net, "--model", "embedding 20 4; lstm 5 last; linear 10", "--out", "refused", code=64)
        self.assertIn("but an embedding of 20 rows reads whole numbers from 0 to 19", err)
        _, err = self.train(*TASK, *net, "--random-flip", "--out", "refused", code=64)
        self.assertIn("an embedding reads no images", err)

    @unittest.skipIf(ON_CARD, "a card computes with subnormal numbers as fast as with any other")
    def test_steps_take_subnormal_numbers_for_zero(self):
        # The first layer's units rest, so that its steps add zeros to its weights.
        start = self.write("tiny.safetensors", {"fc1.weight": ([4, 36], [1e-40] * 144), "fc1.bias": ([4], [-1e9] * 4),
                                                "fc2.weight": ([10, 4], [0.1] * 40), "fc2.bias": ([10], [0] * 10)})
        for algorithm in "hogwild", "ssgd":
            self.train(*TASK, "--model", "linear 4; relu; linear 10", "--workers", "2", "--algorithm", algorithm, "--init", start,
                       "--out", algorithm)
            self.assertEqual(self.tensors(algorithm)["fc1.weight"], ([4, 36], (0,) * 144))

    def test_running_statistics_follow_the_batches_and_nothing_else(self):
        statistics = "norm1.running_mean", "norm1.running_var"

        def trained(out, *options):
            self.train(*TASK, "--model", NORM, "--lr", "1e-30", *options, "--out", out) # nothing else moves
            return {name: self.tensors(out)[name][1] for name in statistics}

        expected = trained("plain")
        self.assertNotIn(expected["norm1.running_mean"], [(0,) * 4])
        rules = "fedprox", "fednova", *(() if ON_CARD else ("optimizer adam", "optimizer adamw", "optimizer sgd nesterov=yes", "ditto"))
        for number, rule in enumerate(rules):
            momentum = ["--momentum", "0.5"] if "nesterov" in rule else []
            self.assertEqual(trained(f"rule{number}", "--algorithm", rule, *momentum, "--weight-decay", "0.1"), expected, rule)
        if not ON_CARD:
            self.assertEqual(trained("clip", "--clip-grad-norm", "1e-3"), expected)
        untouched = {"norm1.running_mean": (0,) * 4, "norm1.running_var": (1,) * 4}
        self.assertEqual(trained("frozen", "--freeze", "norm1.running*"), untouched)
        if not ON_CARD:
            self.assertEqual(trained("fedbn", "--algorithm", "fedbn"), untouched) # they stay with the clients
        half = trained("half", "--freeze", "norm1.running_var")
        self.assertEqual(half, {"norm1.running_mean": expected["norm1.running_mean"], "norm1.running_var": (1,) * 4})

    def test_no_running_variance_of_a_model_is_negative(self):
        """A step of ten updates takes a variance that shrinks by a third below zero."""
        def trained(out, lr, rule="average", rounds=1):
            self.train(*TASK, "--model", NORM, "--lr", "1e-30", "--rounds", str(rounds), "--algorithm", f"server {rule} lr={lr}", "--out", out)
            return self.tensors(out)["norm1.running_var"][1]

        self.assertTrue(all(0 < value < 0.9 for value in trained("one", 1)))
        self.assertEqual(trained("ten", 10), (0,) * 4)
        if not ON_CARD: # clients begin with another state than the model, whose mean over two rounds is half of the second's
            after = trained("after", 10, rounds=2)
            self.assertTrue(all(value > 0 for value in after))
            for value, mean in zip(after, trained("means", 10, "rounds-mean", 2)):
                self.assertAlmostEqual(mean, value / 2, delta=1e-6 * value)

    def test_a_variance_that_moves_too_far_is_refused_with_a_remedy(self):
        os.mkdir(self.path("wide"))
        for part in "train", "test":
            with open(self.path("wide", part + ".csv"), "w") as file:
                file.write("label,size\n" + "".join(f"{i % 2},{i * 1e4}\n" for i in range(40)))
        _, err = self.train(*TASK, "--data", "wide", "--model", "batchnorm; linear 2", "--out", "refused", code=70)
        self.assertRegex(err, r"client 0: update refused: a weight of norm1.running_var became [0-9.e+]+ \(it was 1\); running statistics move by less "
                              r"than 2\^20 in a round: bring the data near 1, by a mean and a deviation")

    def test_a_net_with_batch_norms_has_the_same_bits_for_any_number_of_workers(self):
        task = [*TASK, "--data", "synthetic:1x6x6:400:100", "--model", NORM, "--lr", "0.1", "--clients", "5", "--local-epochs", "3",
                "--rounds", "4", "--batch-size", "20"]
        for workers in "1", "3":
            self.train(*task, "--workers", workers, "--out", f"batch{workers}")
        self.assertEqual(self.tensors("batch1"), self.tensors("batch3"))

    def test_what_a_batch_norm_does_not_go_with_is_refused(self):
        for options, sentence in ((["--batch-size", "257", "--device", "cpu"],
                                   "--batch-size: a batchnorm in --model computes a batch at once, of at most 256 samples, not 257"),
                                  (["--algorithm", "ssgd", "--device", "cpu"], "has running statistics, which have no gradients to add up"),
                                  (["--algorithm", "hogwild", "--workers", "2", "--device", "cpu"], "has running statistics, which have no gradients to add up")):
            _, err = self.train(*TASK, "--model", NORM, *options, "--out", "refused", code=64)
            self.assertIn(sentence, err)

    def test_an_lstm_and_a_net_with_attention_learn_a_text_by_heart(self):
        os.mkdir(self.path("texts"))
        for name, times in (("train.txt", 60), ("test.txt", 10)):
            with open(self.path("texts", name), "w") as file:
                file.write("a sounder is a group of wild hogs. " * times)
        with open(self.path("texts", "text.json"), "w") as file:
            file.write('{"length": 12}')
        block = "embedding 32 16 as e; attention 4 causal; add e; layernorm; linear 32 each; gelu; linear classes"
        units, rounds = (12, "4") if ON_CARD else (24, "8")  # an emulated card is slow
        nets = [(f"embedding 32 8; lstm {units}; lstm {units} last; linear classes", "1"), *[(block, "0.1")] * (not ON_CARD)]
        for net, lr in nets:
            self.train("--data", "texts", "--model", net, "--clients", "2", "--workers", "1", "--batch-size", "20", "--lr", lr, "--momentum",
                       "0.5", "--rounds", rounds, "--quiet", "--out", f"text{lr}")
            self.assertGreater(self.rounds(f"text{lr}")[-1]["test_accuracy"], 0.9)
        run, figures = f"text{nets[0][1]}", {}
        def texts(name, train, test):
            os.mkdir(self.path(name))
            for part, text in ("train", train), ("test", test):
                with open(self.path(name, part + ".txt"), "w") as file:
                    file.write(text)
        heart, other = "a sounder is a group of wild hogs. ", "a group of wild hogs is wild. "  # the other has no n, e, and so other numbers
        texts("other", other * 9, other * 4), texts("numbered", heart * 2 + other, other * 4), texts("beyond", heart * 9, "a zebra sees a z\u00e9bu. " * 4)
        for data in "other", "numbered":
            out, err = self.call("eval", run, "--data", f"{data} length=12", "--json")
            self.assertNotIn("warning", err)
            figures[data] = {key: value for key, value in json.loads(out).items() if key.startswith("test_")}
        self.assertEqual(figures["other"], figures["numbered"])
        self.assertGreater(figures["other"]["test_accuracy"], 0.3 if ON_CARD else 0.5)  # of a smaller net there; by chance 0.1
        self.assertIn("those of --data other are 1x1x80; say length=12 in --data", self.call("eval", run, "--data", "other", code=64)[1])
        self.train("--data", "synthetic:1x4x3:20:10", "--model", "linear 10", "--clients", "2", "--rounds", "1", "--quiet", "--out", "images")
        self.assertIn("those of --data other are 1x1x80\n", self.call("eval", "images", "--data", "other", code=64)[1])
        for refused in (["eval", run], ["train", "--model", nets[0][0], "--init", run + "/model.safetensors", "--out", "refused", "--quiet"]):
            self.assertIn(f"{self.path('beyond')}: its texts have characters that are not in the model's vocabulary (4, in 24 places): b, z, \\xa9, \\xc3; leave",
                          self.call(*refused, "--data", "beyond length=12", code=65)[1])
        for data, letters in ("other", heart), ("beyond", heart + "bz"):
            _, err = self.train("--data", data + " length=12", "--model", nets[0][0], "--init", run + "/model.safetensors", "--init-partial", "--clients", "2", "--rounds", "1",
                                "--workers", "1", "--quiet", "--out", f"part-{data}")
            self.assertEqual("its model has seen data with another vocabulary" in err, data == "beyond")
            with open(self.path(f"part-{data}", "model.safetensors"), "rb") as file:
                self.assertEqual(json.loads(parse_safetensors(file.read())[0]["sounder.vocabulary"])[:9], sorted(set(letters))[:9])
        shutil.copy(self.path(run, "model.safetensors"), self.path("begin.safetensors"))
        self.train("--data", "other length=12", "--model", nets[0][0], "--init", "begin.safetensors", "--clients", "2", "--workers", "1", "--rounds", "1", "--lr", "0.01",
                   "--batch-size", "20", "--quiet", "--out", "tuned")
        os.remove(self.path("begin.safetensors"))
        self.train("--resume", "tuned", "--rounds", "2", "--quiet")
        os.remove(self.path("tuned", "model.safetensors"))  # as of a run that was killed
        self.train("--resume", "tuned", "--rounds", "3", "--quiet")
        for name in run, "tuned":
            with open(self.path(name, "model.safetensors"), "rb") as file:
                self.assertEqual(json.loads(parse_safetensors(file.read())[0]["sounder.vocabulary"]), sorted(set(heart)))
        self.assertAlmostEqual(json.loads(self.call("eval", "tuned", "--json")[0])["test_loss"], self.rounds("tuned")[-1]["test_loss"], delta=1e-5)

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

    def read_by_all(self, name, code):
        """What training and evaluation say of a file of weights."""
        training = self.train(*TASK, "--model", "linear 8; relu; linear classes", "--init", name, "--out", "begun-" + name, code=code)[1]
        evaluation = self.call("eval", name, "--device", "cpu", "--data", TASK[1], "--model", "linear 8; relu; linear classes", code=code)[1]
        return training, evaluation

    def test_no_reader_takes_a_weight_of_another_shape_or_without_a_value(self):
        task = [*TASK, "--model", "linear 8; relu; linear classes"]
        self.train(*task, "--out", "first")
        first = self.tensors("first")
        shape, values = first["fc1.weight"]
        for name, tensor, said in (("turned", (shape[::-1], values), "fc1.weight is 36x8, not 8x36 (save its transpose)"),
                                   ("flat", ([288], values), "fc1.weight is 288, not 8x36"),
                                   ("nan", (shape, [float("nan"), *values[1:]]), "fc1.weight has values that are not finite")):
            file = self.write(name + ".safetensors", {**first, "fc1.weight": tensor})
            for err in self.read_by_all(file, 65):
                self.assertIn(f"{file} does not fit the net (1 of 4 tensors): {said}", err)
        for err in self.read_by_all(self.write("more.safetensors", {**first, "fc3.weight": ([1], [1])}), 0):
            self.assertIn("more.safetensors: the net has no use for 1 of its tensors: fc3.weight", err)
        with open(self.path("first", "model.safetensors"), "rb") as file:
            whole = file.read()
        turned = whole.replace(b'"shape":[8,36]', b'"shape":[36,8]')
        self.assertNotEqual(turned, whole)
        with open(self.path("first", "model.safetensors"), "wb") as file:
            file.write(turned)
        self.assertIn("fc1.weight is 36x8, not 8x36", self.call("eval", "first", "--device", "cpu", code=65)[1])


if __name__ == "__main__":
    unittest.main(argv=["test_init.py"] + sys.argv[2:], verbosity=2)
