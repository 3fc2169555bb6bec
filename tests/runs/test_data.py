"""Whole runs on data of one's own, in every form there is.

Usage: test_data.py PATH_OF_SOUNDER [unittest arguments]
"""
import array, csv, gzip, io, json, os, random, re, struct, subprocess, sys, unittest, zipfile

from runs import DEADLINE, SOUNDER, RunCase, parse_safetensors

TRAIN, TEST = 120, 60


def npy(kind, shape, payload):
    """A .npy file, without NumPy: it need not be there."""
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({', '.join(map(str, shape))},), }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + payload


def idx(shape, payload):
    return bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + payload


def images(count, seed):
    """Dark noise, with a bright row that tells the class."""
    chance = random.Random(seed)
    labels = bytes(chance.randrange(4) for _ in range(count))
    return b"".join(bytes(chance.randrange(40) + (200 if i // 8 // 2 == label else 0) for i in range(64)) for label in labels), labels


def images_as_arrays():
    x_train, y_train = images(TRAIN, 1)
    x_test, y_test = images(TEST, 2)
    return {"x_train": npy("|u1", (TRAIN, 8, 8), x_train), "y_train": npy("<i8", (TRAIN,), array.array("q", list(y_train)).tobytes()),
            "x_test": npy("|u1", (TEST, 8, 8), x_test), "y_test": npy("|u1", (TEST,), y_test)}


def numbers_as_arrays():
    """Two features far from 0, and a target that is linear in them."""
    def split(count, seed):
        chance = random.Random(seed)
        rows = [(chance.gauss(100, 10), chance.gauss(-3, 0.1)) for _ in range(count)]
        targets = [(a - 100) / 10 - 2 * (b + 3) / 0.1 + 1 for a, b in rows]
        return npy("<f8", (count, 2), array.array("d", sum(rows, ())).tobytes()), npy("<f4", (count,), array.array("f", targets).tobytes())
    x_train, y_train = split(TRAIN, 1)
    x_test, y_test = split(TEST, 2)
    return {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test,
            "mean": npy("<f8", (2,), struct.pack("<2d", 100, -3)), "std": npy("<f8", (2,), struct.pack("<2d", 10, 0.1))}


class Data(RunCase):
    def write(self, name, content):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
        return path

    def archive(self, name, arrays, method=zipfile.ZIP_STORED):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", method) as file:
            for array_name, content in arrays.items():
                with file.open(f"{array_name}.npy", "w", force_zip64=True) as member:  # as numpy.savez does
                    member.write(content)
        return self.write(name, packed.getvalue())

    def model_on(self, data, *more):
        run = os.path.basename(data).replace(".", "-") + "-run"
        self.train("--data", data, "--model", "linear 16; relu; linear classes", "--clients", "4", "--rounds", "3", "--workers", "2",
                   "--out", run, *more)
        return self.tensors(run)

    def config(self, run):
        with open(self.path(run, "config.yaml")) as file:
            return file.read()

    def tensors(self, run):
        """Without the notes, in which the data set has its name."""
        with open(self.path(run, "model.safetensors"), "rb") as file:
            return parse_safetensors(file.read())[1]

    def test_the_same_pixels_give_the_same_model_in_every_form(self):
        (x_train, y_train), (x_test, y_test) = images(TRAIN, 1), images(TEST, 2)
        self.write("idx/train-images-idx3-ubyte", idx((TRAIN, 8, 8), x_train))
        self.write("idx/train-labels-idx1-ubyte.gz", gzip.compress(idx((TRAIN,), y_train)))
        self.write("idx/t10k-images-idx3-ubyte", idx((TEST, 8, 8), x_test))
        self.write("idx/t10k-labels-idx1-ubyte", idx((TEST,), y_test))
        for name, content in images_as_arrays().items():
            self.write(f"folder/{name}.npy", content)
        expected = self.model_on("idx")
        self.assertEqual(self.model_on("folder"), expected)
        self.assertEqual(self.model_on(self.archive("stored.npz", images_as_arrays())), expected)
        self.archive("deflated.npz", images_as_arrays(), zipfile.ZIP_DEFLATED)
        self.assertEqual(self.model_on("deflated.npz"), expected)  # a name without '/', and twice: unpacked and kept
        self.train("--data", "deflated.npz", "--model", "linear 16; relu; linear classes", "--clients", "4", "--rounds", "3",
                   "--workers", "1", "--out", "kept")
        self.assertEqual(self.tensors("kept"), expected)
        self.train("--resume", "stored-npz-run", "--rounds", "4")
        self.assertGreater(self.rounds("stored-npz-run")[-1]["test_accuracy"], 0.5)

    def test_targets_are_learned_from_normalised_numbers(self):
        self.archive("numbers.npz", numbers_as_arrays())
        self.train("--data", "numbers.npz", "--model", "linear 1", "--clients", "3", "--rounds", "20", "--lr", "0.1", "--batch-size",
                   "10", "--momentum", "0", "--workers", "2", "--out", "run")
        rounds = self.rounds("run")
        self.assertGreater(rounds[0]["test_loss"], 1e-3)
        self.assertLess(rounds[-1]["test_loss"], 1e-6)

    def test_more_classes_than_a_byte_has_are_learned(self):
        classes = 300
        pictures = b"".join(bytes(255 if i == label else 0 for i in range(classes)) for label in range(classes))
        labels = npy("<u2", (classes,), array.array("H", range(classes)).tobytes())
        pixels = npy("|u1", (classes, classes), pictures)
        self.archive("many.npz", {"x_train": pixels, "y_train": labels, "x_test": pixels, "y_test": labels})
        self.train("--data", "many.npz", "--model", "linear classes", "--clients", "2", "--partition", "dirichlet", "--alpha", "1",
                   "--rounds", "10", "--lr", "1", "--momentum", "0.5", "--batch-size", "10", "--workers", "2", "--out", "many")
        self.assertGreater(self.rounds("many")[-1]["test_accuracy"], 0.9)  # a byte tells 256 of 300 apart

    def test_what_is_wrong_with_the_data_is_said_before_its_clients_are_counted(self):
        wide, labels = npy("|u1", (2, 65536), bytes(2 * 65536)), npy("|u1", (2,), bytes([0, 1]))
        self.archive("wide.npz", {"x_train": wide, "y_train": labels, "x_test": wide, "y_test": labels})
        _, err = self.train("--data", "wide.npz", "--clients-per-round", "1000", code=65)
        self.assertIn("wide.npz: x_train: samples of 1x1x65536; from 1 to 16 channels and to 65535 rows and columns are read", err)
        _, err = self.train("--data", "wide.npz", "--clients", "2", "--clients-per-round", "1000", code=64)
        self.assertIn("--clients-per-round 1000: there are only 2 clients; lower it or raise --clients", err)

    def test_clients_of_the_data_are_the_clients_of_the_run(self):
        owners = array.array("i", [i % 5 for i in range(TRAIN)])
        self.archive("owned.npz", {**images_as_arrays(), "client_train": npy("<i4", (TRAIN,), owners.tobytes())})
        self.train("--data", "owned.npz", "--model", "softmax", "--rounds", "1", "--workers", "2", "--out", "natural")
        clients = [line for line in self.metrics("natural") if line["type"] == "client"]
        self.assertEqual({(line["client"], line["samples"]) for line in clients}, {(i, TRAIN // 5) for i in range(5)})
        self.train("--data", "owned.npz", "--model", "softmax", "--rounds", "1", "--clients", "3", "--partition", "iid", "--workers",
                   "1", "--out", "iid")
        self.assertEqual(len([line for line in self.metrics("iid") if line["type"] == "client"]), 3)
        _, err = self.train("--data", "owned.npz", "--clients", "3", "--partition", "natural-id", code=64)
        self.assertIn("the data set has 5 users", err)

    def test_what_is_corrupt_is_one_sentence_before_anything_is_begun(self):
        whole = images_as_arrays()
        self.archive("cut.npz", {**whole, "x_test": whole["x_test"][:-1]})
        self.archive("label.npz", {**whole, "y_test": npy("|u1", (TEST,), bytes([9] * TEST))})
        self.write("no.npz", b"no archive at all")
        for data, said in (("cut.npz", "cut.npz: x_test"), ("label.npz", "label 9 of sample 0"), ("no.npz", "not a zip archive")):
            _, err = self.train("--data", data, "--out", "never", "--quiet", code=65)
            self.assertIn(said, err)
            self.assertEqual(len(err.splitlines()), 1, err)
            self.assertFalse(os.path.exists(self.path("never")))
        self.archive("missing.npz", {"x_train": whole["x_train"]})
        _, err = self.train("--data", "missing.npz", code=66)
        self.assertIn("no array y_train", err)

    def test_a_file_that_is_written_to_during_a_run_ends_it_with_a_sentence(self):
        """Cut off, its pages are gone for whoever has it mapped; written over, it is other data."""
        for name, change in (("cut", lambda path: os.truncate(path, 0)), ("same", lambda path: os.utime(path))):
            data = self.archive(f"{name}.npz", images_as_arrays())
            run = self.start("--data", data, "--model", "linear 16; relu; linear classes", "--clients", "4", "--rounds", "100000",
                             "--workers", "2", "--out", name)
            self.wait_for_round(name, 2)
            change(data)
            _, err = run.communicate(timeout=DEADLINE)
            self.assertEqual(run.returncode, 65, err)
            self.assertRegex(err, rf"{name}\.npz: x_(train|test) was written to, or its time changed")  # whichever is looked at next
            self.assertNotIn("worker", err)  # nobody died of it

    def test_data_sets_have_names_as_long_as_files_have(self):
        """The model's notes have the whole name, and a name is never cut within a letter, which its header would not hold."""
        for number, name in enumerate(("\u00e9" * 32, "\u65e5" * 83, "a" * 250)):
            data = self.archive(f"{name}.npz", images_as_arrays())
            self.train("--data", data, "--model", "softmax", "--clients", "2", "--rounds", "1", "--workers", "1", "--out", f"run{number}")
            told = json.loads(self.call("eval", f"run{number}/model.safetensors", "--json")[0])
            self.assertEqual(told["data"], f"{name}.npz")
        os.rename(self.path("run0"), self.path(os.fsdecode(b"M\xfcnchen")))  # not UTF-8, which JSON is
        self.assertEqual(json.loads(self.call("eval", os.fsdecode(b"M\xfcnchen"), "--json")[0])["model"], "M\ufffdnchen/model.safetensors")

    def test_a_model_is_evaluated_on_the_data_beside_it_or_says_where_it_looked(self):
        data = self.archive("mine.npz", images_as_arrays())
        self.train("--data", data, "--model", "softmax", "--clients", "2", "--rounds", "1", "--workers", "1", "--out", "run")
        os.mkdir(self.path("gift"))
        os.rename(self.path("run", "model.safetensors"), self.path("gift", "model.safetensors"))
        os.rename(data, self.path("gift", "mine.npz"))
        told = json.loads(self.call("eval", "gift/model.safetensors", "--json")[0])
        self.assertEqual((told["data"], told["samples"]), ("mine.npz", TEST))
        os.rename(self.path("gift", "mine.npz"), data)
        self.call("eval", "gift/model.safetensors")
        os.rename(data, self.path("other.npz"))
        _, err = self.call("eval", "gift/model.safetensors", code=66)
        self.assertIn("gift/model.safetensors was trained on mine.npz, which is neither here nor beside it; name it with --data", err)
        self.call("eval", "gift/model.safetensors", "--data", "other.npz")

    def test_data_that_may_be_meant_otherwise_are_doubted_once(self):
        """Classes as floating-point numbers, as NumPy's loadtxt gives them, and images with their channels last, mapped where they lie."""
        whole = images_as_arrays()
        floats = {name: npy("<f4", (count,), array.array("f", [i % 4 for i in range(count)]).tobytes())
                  for name, count in (("y_train", TRAIN), ("y_test", TEST))}
        self.archive("targets.npz", {**whole, **floats})
        last = {name: npy("|u1", (count, 8, 8, 1), content[-64 * count:]) for name, count, content in
                (("x_train", TRAIN, whole["x_train"]), ("x_test", TEST, whole["x_test"]))}
        self.archive("last.npz", {**whole, **last})
        for name, sentence in (("targets", "targets.npz: all targets are whole numbers, from 0 to 3, and will be learned as quantities, by the "
                                "squared loss; if they are classes, save y.astype('int64')"),
                               ("last", "last.npz: samples are read as 8 channels of 8x1; if they are images of 8x8 with their channels last")):
            said = self.train("--data", f"{name}.npz", "--model", "linear classes", "--clients", "2", "--rounds", "1", "--workers", "1",
                              "--out", name)[1], self.data(f"{name}.npz")[1]
            for err in said:
                self.assertEqual(err.count(sentence), 1, err)
                self.assertEqual(len(err.splitlines()), 1, err)

    def data(self, *arguments, code=0):
        where = {"SOUNDER_DATA": self.path("named"), "XDG_CACHE_HOME": self.path("cache")}
        done = subprocess.run([SOUNDER, "data", *arguments], cwd=self.folder.name, text=True, timeout=DEADLINE, capture_output=True,
                              env={**os.environ, **where})
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout, done.stderr

    def test_data_sets_are_listed_with_what_is_in_them_or_wrong_with_them(self):
        owners = npy("|u1", (TRAIN,), bytes(i % 5 for i in range(TRAIN)))
        self.archive("named/owned.npz", {**images_as_arrays(), "client_train": owners})
        self.archive("named/numbers.npz", numbers_as_arrays())
        self.write("named/nothing.txt", b"no data set")
        rows = {row["name"]: row for row in json.loads(self.data("named", "--format", "json")[0])}
        self.assertEqual(set(rows), {"owned.npz", "numbers.npz"})
        self.assertEqual(rows, {row["name"]: row for row in json.loads(self.data("--format", "json")[0])
                                if row["where"].startswith(self.folder.name)})
        owned, numbers = rows["owned.npz"], rows["numbers.npz"]
        self.assertEqual([owned[key] for key in ("form", "train", "test", "shape", "values", "classes", "clients")],
                         ["NumPy", TRAIN, TEST, "1x8x8", "uint8", 4, 5])
        self.assertEqual((numbers["values"], numbers["shape"]), ("float32, targets", "1x1x2"))
        titles = self.data("named")[0].splitlines()[0].split()
        self.assertIn("clients", titles)
        self.assertNotIn("problem", titles)  # nobody has one
        self.train("--data", "named/owned.npz", "--model", "softmax", "--rounds", "1", "--workers", "1", "--out", "run")
        self.assertIn(owned["xxh3"][2:], json.dumps(self.metrics("run")[0]))
        self.archive("named/cut.npz", {**images_as_arrays(), "y_test": b"cut"})
        out, err = self.data("named", code=65)
        self.assertIn("owned.npz", out)
        self.assertRegex(err, "cut.npz: y_test: truncated")
        _, err = self.data("nowhere", code=66)
        self.assertIn("nowhere", err)
        os.mkdir(self.path("empty"))
        _, err = self.data("empty", code=66)
        self.assertIn("empty: no data set here", err)

    def test_one_table_with_its_settings_is_a_data_set_for_every_command(self):
        chance = random.Random(1)
        rows = [(chance.gauss(2 * kind, 0.5), chance.gauss(-kind, 0.5), ("rose", "iris", "tulip")[kind], i) for i in range(90) for kind in (i % 3,)]
        self.write("t/flowers.csv", ("long;wide;kind;id\n" + "".join(f"{a:.2f};{b:.2f};{kind};{i}\n" for a, b, kind, i in rows)).encode())
        data = "t/flowers.csv label=kind without=id test-fraction=0.3"
        self.train("--data", data, "--model", "linear classes", "--clients", "3", "--rounds", "60", "--lr", "0.2", "--batch-size", "8",
                   "--workers", "1", "--out", "run")
        told = json.loads(self.call("eval", "run", "--json")[0])
        self.assertEqual((told["samples"], told["data"]), (27, "flowers.csv"))
        self.assertGreater(told["test_accuracy"], 0.8)
        self.assertIn(f"data: {self.path('t/flowers.csv')} label=kind without=id test-fraction=0.3", self.config("run"))
        self.train("run/config.yaml", "--out", "again")
        self.assertEqual(self.tensors("again"), self.tensors("run"))
        self.train("--resume", "run", "--rounds", "61")
        os.rename(self.path("run/model.safetensors"), self.path("t/moved.safetensors"))
        self.assertIn("/27", self.call("eval", "t/moved.safetensors")[0])  # its notes name table and settings, which is beside it
        self.assertEqual(json.loads(self.call("partition", "--data", data, "--clients", "3", "--partition", "iid", "--json")[0])["samples"], 63)
        self.assertIn("--json is given twice", self.call("partition", "--data", data, "--json", "--json=true", code=64)[1])
        for name in ("train", "test"):
            self.write(f"numbers/{name}.csv", b"x0,target,client\n" + b"".join(b"%d,%d.5,%d\n" % (i, i, i % 2) for i in range(20)))
        shown, _ = self.call("partition", "--data", "numbers")
        self.assertNotIn("class", shown)
        self.assertIn("client  samples\n     0       10\n     1       10\n", shown)
        listed, _ = self.data(data)
        for line in ("long +feature +[-0-9.]+ to [0-9.]+ +feature 0", "kind +label +3: iris, rose, tulip +90 +classes 0 to 2", "id +left out"):
            self.assertRegex(listed, line)
        listed, err = self.data("t/flowers.csv label=nothing", code=65)  # where no role is known, no column has one
        self.assertRegex(listed, "long +feature .*\n")
        listed, err = self.data("t/flowers.csv", code=65)
        self.assertRegex(listed, "kind +feature +3: .* 90 +refused")  # what its columns have, also where it is refused
        self.assertIn("there are long, wide, kind, id; name the one to be learned", err)

    def test_the_command_for_numbers_in_other_writing_makes_them_plain(self):
        for between, row in ((",", '"$1,234,567.50",43.8%,(152),"63,208",1 265,0'), (";", "€ 1,234,567.5;43.8 %;(152);63,208;1 265;0")):
            with open(self.path("other.csv"), "w") as file:
                file.write(between.join("abcde") + between + "label\n" + "".join(f"{row[:-1]}{i % 2}\n" for i in range(6)))
            _, err = self.call("train", "--data", "other.csv", "--model", "softmax", code=65)
            self.assertNotIn("one-hot", err)
            command = re.search("; (sed .*) TABLE > NEW", err).group(1)
            subprocess.run(f"{command} other.csv > plain.csv", shell=True, check=True, cwd=self.path("."))
            out = self.call("data", "plain.csv")[0]
            for column, value in zip("abcde", ("1234567.5", "43.8", "-152", "63208", "1265")):
                self.assertRegex(out, rf"(?m)^{column} +feature +{value} to {value} ")

    def test_a_setting_is_found_where_options_are(self):
        for typed, name in (("--label", "label"), ("--test-fraction", "test-fraction"), ("--test_fraction=0.2", "test-fraction"), ("--normalize", "normalize")):
            _, err = self.call("train", "--data", "mine.csv", typed, "x", code=64)
            self.assertIn(f'is a setting of your own files, after their place in --data: --data "PLACE {name}=..."', err)
        self.assertRegex(self.call("help", "normalize")[0], r"--data, a setting of your own files \(help data\):\n +normalize +samples enter as \(x - mean\)")

    def test_handwriting_of_many_users_meets_a_convolution(self):
        """FEMNIST's form: LEAF's JSON of flat images, a client per user, each tested on its own samples."""
        chance = random.Random(5)
        def sample(kind):
            return [round(min(1, max(0, (y // 7 == kind) * 0.8 + chance.gauss(0.1, 0.1))), 2) for y in range(28) for _ in range(28)]
        for part, count in (("train", 6), ("test", 3)):
            users = {f"writer-{u}": {"x": [sample(i % 4) for i in range(count)], "y": [i % 4 for i in range(count)]} for u in range(3)}
            self.write(f"femnist/{part}/all_data.json", json.dumps({"users": list(users), "num_samples": [count] * 3, "user_data": users}).encode())
        shaped = "femnist shape=1x28x28 normalize=yes"
        _, err = self.train("--data", "femnist", "--model", "conv 4 5; relu; pool 2; linear classes", "--rounds", "1", "--out", "flat", code=64)
        self.assertRegex(err, "1 row and 784 columns .*; images that are stored in one row get .* by shape=1x28x28 in --data")
        out, _ = self.train("--data", shaped, "--model", "conv 4 5; relu; pool 2; linear classes", "--rounds", "12", "--batch-size", "2", "--lr", "0.05",
                            "--eval-clients-every", "12", "--workers", "2", "--out", "run")
        self.assertIn("samples of 1x28x28 enter as (x - mean) / deviation of each channel\n", out)
        self.assertIn("clients have 9 test samples of their own", out)
        own = [row for row in self.metrics("run") if row["type"] == "client_evaluation"]
        self.assertEqual([(row["data"], row["samples"]) for row in own], 3 * [("client's test samples", 3)])
        self.assertGreater(min(row["accuracy"] for row in own), 0.6)
        table = list(csv.DictReader(io.StringIO(self.call("runs", "run", "--clients", "--format", "csv")[0])))
        self.assertEqual([(row["client"], row["rounds_trained"], row["training_samples"], row["test_samples"]) for row in table],
                         [(f"writer-{user}", "12", "6", "3") for user in range(3)])
        for row, told in zip(own, table):
            self.assertAlmostEqual(100 * row["accuracy"], float(told["global_accuracy_percent"]), places=3)
        self.assertRegex(self.call("runs", "run", "--clients")[0], r"(?m)^client +number +rounds +samples +tests +global accuracy % +global loss .*\nwriter-0 +0 +12 +6 +3 ")
        self.assertIn("no client of flat was tested; train with --eval-clients-every", self.call("runs", "flat", "--clients", code=64)[1] if
                      self.train("--data", "femnist", "--model", "softmax", "--rounds", "1", "--quiet", "--out", "flat") else "")
        self.assertIn("--clients: no client of flat was tested", self.call("runs", "run", "flat", "--clients", code=64)[1])
        self.assertIn(f"data: {self.path('femnist')} shape=1x28x28 normalize=yes", self.config("run"))

    def leaf(self, name, users):
        """users: {part: {user: (x, y)}}."""
        for part, of in users.items():
            told = {user: {"x": x, "y": y} for user, (x, y) in of.items()}
            self.write(f"{name}/{part}/all_data.json", json.dumps({"users": list(of), "num_samples": [len(y) for _, y in of.values()], "user_data": told}).encode())

    def test_plays_of_leaf_train_a_net_of_characters_with_a_client_per_role(self):
        speech = "who's there? nay, answer me: stand, and unfold yourself. long live the king! " * 3
        def lines(begin, count, length=20):
            return [speech[begin + i:begin + i + length] for i in range(count)], [speech[begin + i + length] for i in range(count)]
        self.leaf("play", {"train": {f"ROLE{i}": lines(20 * i, 30) for i in range(3)}, "test": {f"ROLE{i}": lines(20 * i + 5, 8) for i in range(3)}})
        letters = sorted(set(speech[:100]))
        self.assertRegex(self.data("play")[0], rf"LEAF +90 +24 +1x1x20 +characters +{len(letters)} +{len(letters)} +3 ")
        net = "embedding 64 8; lstm 32; lstm 32 last; linear classes"
        out, _ = self.train("--data", "play", "--model", net, "--rounds", "2", "--eval-clients-every", "2", "--workers", "2", "--out", "small")
        self.assertIn(f"texts of 20 characters enter as numbers below {len(letters)}, the vocabulary\n", out)
        self.assertIn("2 workers, 3 clients", out)
        self.train("--data", "play", "--model", "embedding 64 16; lstm 64 last; linear classes", "--rounds", "30", "--lr", "2", "--local-epochs", "4", "--batch-size", "5", "--quiet", "--out", "run")
        told = json.loads(self.call("eval", "run", "--json", "--confusion")[0])
        self.assertGreater(told["test_accuracy"], 0.6)
        self.assertEqual(told["class_names"], ["' '" if letter == " " else letter for letter in letters])
        with open(self.path("run/model.safetensors"), "rb") as file:
            self.assertEqual(json.loads(parse_safetensors(file.read())[0]["sounder.vocabulary"]), letters)
        other = lines(5, 8)  # of fewer characters: numbered as the model's
        self.leaf("other", {"train": {"NEW": other}, "test": {"NEW": other}})
        self.assertEqual(len(set("".join(other[0]))) < len(letters), True)
        self.assertGreater(json.loads(self.call("eval", "run", "--data", "other", "--json")[0])["test_accuracy"], 0.6)
        self.leaf("greek", {"train": {"NEW": (["x" * 19 + "\u03b1"], ["x"])}, "test": {"NEW": (["x" * 20], ["x"])}})
        self.assertIn("are not in the model's vocabulary (2, in 42 places): x, \u03b1; leave", self.call("eval", "run", "--data", "greek", code=65)[1])
        self.train("--data", "play length=8", "--model", "char-lstm", "--rounds", "1", "--quiet", "--out", "named")
        self.train("--resume", "small", "--rounds", "3")

    def test_tweets_of_leaf_have_two_classes_by_words_or_characters(self):
        chance = random.Random(4)
        def tweets(count):
            words = ("day", "cat", "train", "the", "monday")
            x, y = [], []
            for i in range(count):
                told = [chance.choice(words) for _ in range(chance.randrange(3, 6))]
                told.insert(chance.randrange(len(told)), ("awful", "great")[i % 2])
                x.append([str(i), "Mon", "NO_QUERY", "someone", " ".join(told).capitalize() + "!"])
                y.append(i % 2)
            return x, y
        self.leaf("tweets", {"train": {f"u{i}": tweets(20) for i in range(4)}, "test": {f"u{i}": tweets(6) for i in range(4)}})
        out, _ = self.train("--data", "tweets tokens=words", "--model", "embedding 16 8; lstm 16 last; linear classes", "--rounds", "15", "--lr", "1",
                            "--batch-size", "5", "--workers", "2", "--out", "words")
        self.assertIn("texts of 7 words enter as numbers below 9, the vocabulary; 0 is for others and for gaps in front\n", out)
        self.assertGreater(json.loads(self.call("eval", "words", "--json")[0])["test_accuracy"], 0.9)
        self.leaf("new", {"train": {"v": ([["Awful weather"], ["a great day"]], [0, 1])}, "test": {"v": ([["what a GREAT weather"]], [1])}})
        self.assertIn("those of --data new tokens=words are 1x1x4; say length=7 in --data", self.call("eval", "words", "--data", "new tokens=words", code=64)[1])
        out, err = self.call("eval", "words", "--data", "new tokens=words length=7", "--json")
        self.assertEqual(json.loads(out)["samples"], 1)
        self.assertIn("new: 5 of its words or characters are not in the model's vocabulary; they enter as 0\n", err)
        out, _ = self.train("--data", "tweets length=30", "--model", "embedding 64 8; lstm 16 last; linear classes", "--rounds", "1", "--out", "letters")
        self.assertIn("texts of 30 characters enter as numbers below ", out)
        self.assertIn("leave out tokens", self.call("train", "--data", "numbers tokens=words", "--model", "softmax", code=64)[1] if self.leaf("numbers", {part: {"u": ([[1.0, 2.0], [2.0, 1.0]], [0, 1])} for part in ("train", "test")}) is None else "")

    def test_a_model_sees_other_samples_as_it_saw_its_own(self):
        chance = random.Random(2)
        def table(name, kinds, count):
            lines = [f"{chance.gauss(1000 + 100 * 'abc'.index(kind), 20):.1f},{chance.gauss(0.1, 0.01):.3f},{'kind, ' + kind!r}".replace("'", '"') for _ in range(count) for kind in kinds]
            return self.write(name, ("x,y,kind\n" + "\n".join(lines) + "\n").encode())
        table("old.csv", "abc", 40), table("new.csv", "ca", 10)  # without b: a alone would be class 0 of both
        out, _ = self.train("--data", "old.csv label=kind normalize=yes", "--model", "linear classes", "--clients", "2", "--rounds", "40", "--lr", "0.5",
                            "--batch-size", "8", "--partition", "iid", "--workers", "1", "--out", "run")
        self.assertIn("samples of 2 numbers enter as (x - mean) / deviation of each feature\n", out)
        told = json.loads(self.call("eval", "run", "--data", "new.csv label=kind test-fraction=1", "--confusion", "--json", "--predictions", "p.csv")[0])
        self.assertEqual((told["samples"], told["class_names"]), (20, ["kind, a", "kind, b", "kind, c"]))
        self.assertGreater(told["confusion"]["0"][0] + told["confusion"]["2"][2], 17)  # not normalised by itself, and not as two classes
        self.assertEqual(told["confusion"]["1"], [0, 0, 0])
        with open(self.path("p.csv")) as file:
            self.assertIn('0,2,"kind, c","kind, c",', file.read().splitlines()[1])
        x, y = npy("<f4", (1, 2), struct.pack("<2f", 1000, 0.1)), npy("|u1", (1,), b"\0")
        self.archive("numbered.npz", {"x_train": x, "y_train": y, "x_test": x, "y_test": y})
        out, err = self.call("eval", "run", "--data", "numbered.npz", "--json")
        self.assertIn("numbered.npz: its labels are taken for the numbers of the model's classes, of which 0 is called kind, a\n", err)
        self.assertEqual(json.loads(out)["test_accuracy"], 1)
        self.assertRegex(self.call("eval", "run", "--confusion")[0], r"(?m)^class +kind, a +kind, b +kind, c   taken for\nkind, a +\d+ +\d+ +\d+$")
        self.assertRegex(self.call("eval", "run")[0], r"(?m)^by class  kind, a: \d+\.\d\d%  kind, b: ")
        self.assertEqual(json.loads(self.call("partition", "--data", "old.csv label=kind", "--clients", "2", "--json")[0])["class_names"], told["class_names"])
        with open(self.path("run/model.safetensors"), "rb") as file:
            notes = parse_safetensors(file.read())[0]
        self.assertEqual(json.loads(notes["sounder.class_names"]), told["class_names"])
        self.assertAlmostEqual(float(notes["sounder.feature_mean"].split(",")[0]), 1100, delta=15)
        _, err = self.call("train", "--data", "new.csv label=kind test-fraction=1", "--model", "softmax", code=64)
        self.assertIn("0 samples", err)

    def test_a_model_reads_a_table_that_has_some_of_its_values(self):
        def table(name, people):
            return self.write(name, ("age,sex,deck,label\n" + "".join(f"{age},{sex},{deck},{label}\n" for age, sex, deck, label in people)).encode())
        people = [(20 + i % 7, "fm"[i % 2], "ABC"[i % 3], ("dead", "alive")[i % 2]) for i in range(60)]
        table("all.csv", people), table("men.csv", [(a, "m", "A", label) for a, sex, _, label in people if sex == "m"]), table("other.csv", [(20, "d", "A", "dead"), (21, "m", "A", "alive")])
        _, err = self.train("--data", "all.csv text=one-hot", "--model", "linear classes", "--clients", "2", "--rounds", "30", "--lr", "0.01", "--out", "run")
        self.assertIn("all.csv: column sex alone says the answer to each sample; if it was made from what is to be learned, leave it out: without=sex in --data", err)
        with open(self.path("run/model.safetensors"), "rb") as file:
            notes = parse_safetensors(file.read())[0]
        self.assertEqual(json.loads(notes["sounder.features"]), ["age", {"sex": ["f", "m"]}, {"deck": ["A", "B", "C"]}])
        told = json.loads(self.call("eval", "run", "--data", "men.csv test-fraction=1", "--json")[0])
        self.assertEqual((told["samples"], told["test_accuracy"]), (30, 1.0))
        _, err = self.call("eval", "run", "--data", "other.csv test-fraction=1", code=65)
        self.assertIn('other.csv: column sex has "d", a value that the model does not know; it knows f, m; leave such rows out, or train', err)

    def test_whole_targets_are_classes_if_the_settings_say_so(self):
        x, y, half = npy("<f4", (4, 2), struct.pack("<8f", *range(8))), npy("<f8", (4,), struct.pack("<4d", 0, 2, 1, 2)), npy("<f8", (4,), struct.pack("<4d", 0, 2, 1.5, 2))
        self.archive("points.npz", {"x_train": x, "y_train": y, "x_test": x, "y_test": y})
        self.archive("halves.npz", {"x_train": x, "y_train": half, "x_test": x, "y_test": y})
        samples = {part: {"u": ([[1.0, 2.0], [2.0, 1.0]], [0.0, 2.0])} for part in ("train", "test")}
        self.leaf("points", samples)
        samples["train"]["u"][1][0] = 0.5
        self.leaf("halves", samples)
        for data in ("points.npz", "points"):
            self.train("--data", data + " classes=3", "--model", "linear classes", "--rounds", "1", "--out", "of-" + data)
            self.assertEqual(len(json.loads(self.call("eval", "of-" + data, "--json")[0])["test_accuracy_by_class"]), 3)
            self.assertIn("classes", self.call("train", "--data", data + " classes=2", "--model", "softmax", code=65)[1])
        self.assertIn("1.5 of sample 2 is no class, though --data says classes=3", self.call("train", "--data", "halves.npz classes=3", "--model", "softmax", code=65)[1])
        self.assertIn("no whole number, though --data says classes=N", self.call("train", "--data", "halves classes=3", "--model", "softmax", code=65)[1])

    def test_a_model_fills_gaps_as_those_of_its_training_samples(self):
        chance = random.Random(3)
        def table(name, middle, count, gap):
            rows = "".join(f"{'' if i % gap == 0 else round(chance.gauss(middle, 1), 2)},{chance.random():.2f},{'ab'[i % 2]}\n" for i in range(count))
            self.write(name, ("x,y,label\n" + rows).encode())
        table("old.csv", 50, 60, 5), table("new.csv", -50, 40, 4), table("whole.csv", 50, 20, 10 ** 9)
        out, _ = self.train("--data", "old.csv missing=flag normalize=yes", "--model", "softmax", "--clients", "2", "--rounds", "2", "--out", "run")
        with open(self.path("run/model.safetensors"), "rb") as file:
            notes = parse_safetensors(file.read())[0]
        self.assertEqual(json.loads(notes["sounder.features"]), ["x", {"x": None}, "y"])
        self.assertAlmostEqual(float(notes["sounder.feature_fill"].split(",")[0]), 50, delta=1)
        own = json.loads(self.call("eval", "run", "--json")[0])
        self.assertAlmostEqual(own["test_loss"], self.rounds("run")[-1]["test_loss"], places=9)
        for data in ("new.csv test-fraction=1", "whole.csv missing=flag test-fraction=1"):  # no gap, or a setting: the same three features
            self.assertGreater(json.loads(self.call("eval", "run", "--data", data, "--json")[0])["samples"], 19)
        self.train("--init", "run/model.safetensors", "--data", "new.csv missing=flag", "--model", "softmax", "--clients", "2", "--rounds", "1", "--out", "init")
        with open(self.path("init/model.safetensors"), "rb") as file:
            self.assertEqual(parse_safetensors(file.read())[0]["sounder.feature_fill"], notes["sounder.feature_fill"])  # not its own mean, -50
        self.call("eval", "init")
        self.assertIn("gaps are filled with one value for each feature\n", out)
        private = ("--algorithm", "dp-fedavg", "--sampling", "poisson", "--without", "1", "--rounds", "1", "--out", "private")
        out, _ = self.train("--data", "old.csv missing=flag normalize=yes", "--model", "softmax", "--clients", "3", *private)
        self.assertIn("one value for each feature, which the data set has for all its clients\n", out)
        self.assertIn("no noise is on what the model notes of its samples: means and deviations of features, values for gaps\n", out)
        out, _ = self.train("--data", "old.csv missing=drop", "--model", "softmax", "--clients", "2", "--rounds", "1", "--out", "dropped")
        self.assertIn("test samples; 12 rows with gaps left out  ->  dropped\n", out)
        self.assertIn("gaps in", self.call("eval", "dropped", "--data", "new.csv test-fraction=1", code=65)[1].replace("column x has", "gaps in"))

    def test_confusions_of_many_classes_are_listed_by_pairs(self):
        names = [f"kind of vehicle, number {i:02}" for i in range(40)]
        self.write("many.csv", ("x,kind\n" + "".join(f'{i // 2 * 2},"{names[i]}"\n' for i in range(40) for _ in range(10))).encode())
        self.train("--data", "many.csv label=kind normalize=yes", "--model", "linear 64; relu; linear classes", "--clients", "1", "--rounds", "2", "--quiet", "--out", "run")
        out, _ = self.call("eval", "run", "--confusion", "--confusion-file", "all.csv")
        with open(self.path("all.csv")) as file:
            rows = list(csv.reader(file))
        self.assertEqual((rows[0], [row[0] for row in rows[1:]]), (["class", *names], names))
        counts = {(a, b): int(rows[1 + a][1 + b]) for a in range(40) for b in range(40)}
        self.assertEqual(sum(counts.values()), 80)
        wrong = sorted(((-n, a, b) for (a, b), n in counts.items() if n and a != b))
        lines = out.splitlines()
        self.assertIn(f"the {min(20, len(wrong))} most frequent of {len(wrong)} confusions ({-sum(n for n, *_ in wrong)} of 80 samples are wrong)", out)
        self.assertIn(f"{-wrong[0][0]:7}  {-wrong[0][0] * 50:11.2f}%  {names[wrong[0][1]]}  {names[wrong[0][2]]}", lines)
        self.assertLess(max(map(len, lines)), 120)
        self.write("few.csv", ("x,kind\n" + "".join(f'{i},"{names[i]}"\n' for i in range(3) for _ in range(10))).encode())
        self.train("--data", "few.csv label=kind", "--model", "softmax", "--clients", "1", "--rounds", "1", "--quiet", "--out", "few")
        self.assertRegex(self.call("eval", "few", "--confusion")[0], "class +" + " +".join(names[:3]) + "   taken for")  # no two are cut to one name
        self.write("y.csv", ("x,target\n" + "".join(f"{i}.5,{i}.25\n" for i in range(20))).encode())
        self.train("--data", "y.csv", "--model", "linear 1", "--clients", "1", "--rounds", "1", "--lr", "0.001", "--quiet", "--out", "numbers")
        self.assertIn("have targets, no classes; leave out --confusion", self.call("eval", "numbers", "--confusion-file", "c.csv", code=64)[1])

    def test_archives_that_cannot_be_read_say_how_to_save_them(self):
        arrays = images_as_arrays()
        by_columns = {**arrays, "x_train": arrays["x_train"].replace(b"'fortran_order': False", b"'fortran_order': True ")}
        cases = (("bzip2.npz", arrays, zipfile.ZIP_BZIP2, "x_train.npy is packed by method 12; only stored and deflated members"),
                 ("lzma.npz", arrays, zipfile.ZIP_LZMA, "packed by method 14"),
                 ("columns.npz", by_columns, zipfile.ZIP_STORED, "x_train: stored column by column; save numpy.ascontiguousarray"),
                 ("positional.npz", {f"arr_{i}": array for i, array in enumerate(arrays.values())}, zipfile.ZIP_STORED, "no array x_train, but there are arr_0.npy, arr_1.npy"),
                 ("inside.npz", {f"data/{name}": array for name, array in arrays.items()}, zipfile.ZIP_STORED, "but there are data/x_train.npy"),
                 ("half.npz", {name: array for name, array in arrays.items() if "train" in name}, zipfile.ZIP_STORED, "no array x_test; .* or say test-fraction=0.2 in --data"))
        for name, content, method, sentence in cases:
            with self.subTest(name):
                self.archive(name, content, method)
                self.assertRegex(self.data(name, code=66 if "no array" in sentence or "there are" in sentence else 65)[1], sentence)

    def test_a_model_sees_samples_of_some_of_its_classes(self):
        def table(name, kinds):
            return self.write(name, ("x,label\n" + "".join(f"{kind}.{i},{kind}\n" for i in range(30) for kind in kinds)).encode())
        table("all.csv", range(3)), table("ward.csv", [2])
        self.train("--data", "all.csv", "--model", "linear 16; relu; linear classes", "--clients", "1", "--rounds", "40", "--lr", "0.1", "--quiet", "--out", "run")
        told = json.loads(self.call("eval", "run", "--data", "ward.csv test-fraction=1", "--json", "--confusion")[0])
        self.assertEqual((sum(told["confusion"]["2"]), len(told["confusion"])), (30, 3))
        table("five.csv", [2, 4])
        _, err = self.call("eval", "run", "--data", "five.csv test-fraction=1", code=65)
        self.assertIn('column label has "4"; 3 classes are whole numbers from 0 to 2', err)
        out, _ = self.train("--data", "ward.csv classes=3", "--model", "softmax", "--clients", "1", "--rounds", "1", "--init", "run/model.safetensors", "--init-partial", "--out", "tuned", code=65)
        self.train("--data", "ward.csv classes=3", "--model", "linear 16; relu; linear classes", "--clients", "1", "--rounds", "1", "--init", "run/model.safetensors", "--quiet", "--out", "tuned")
        self.assertIn("ward.csv classes=3\n", self.config("tuned"))
        self.train("--resume", "tuned", "--rounds", "2", "--quiet")

    def test_columns_are_told_with_the_values_that_only_tests_have(self):
        os.mkdir(self.path("parts"))
        self.write("parts/train.csv", b"a,t,label\n1,u,x\n2,v,y\n")
        self.write("parts/test.csv", b"a,t,label\n1,w,x\n")
        out, _ = self.data("parts text=one-hot")
        self.assertRegex(out, r"(?m)^t +feature +3: u, v, w +3 +features 1 to 3$")
        _, err = self.call("train", "--data", "synthetic normalize=yes", "--model", "softmax", code=64)
        self.assertIn("synthetic: has no settings, which are for files of your own; leave them out", err)

    def test_a_model_knows_its_classes_again_whatever_their_names(self):
        label = "class of a name that is longer than a line of results has room for"
        self.write("names.csv", ("x,label\n" + 10 * ('0,"two\nlines\x1b[31m"\n1,' + label + "\n")).encode())
        self.train("--data", "names.csv", "--model", "softmax", "--clients", "2", "--rounds", "1", "--quiet", "--out", "run")
        out, _ = self.call("eval", "run", "--data", "names.csv test-fraction=1")
        self.assertRegex(out, r"(?m)^by class  " + label[:39] + r"\.\.\. \(0\): \d+\.\d\d%  two\?lines\?\[31m: ")

    def test_pixels_enter_a_model_as_those_that_it_was_trained_on(self):
        chance = random.Random(3)
        def part(count, brighter):  # two classes of colour images that differ in brightness
            pixels = bytes(60 + brighter + 30 * (i % 2) + chance.randrange(20) for i in range(count) for _ in range(12))
            return npy("|u1", (count, 3, 2, 2), pixels), npy("|u1", (count,), bytes(i % 2 for i in range(count)))
        (x_train, y_train), (x_test, y_test), (brighter, _) = part(80, 0), part(20, 0), part(80, 120)
        self.archive("own.npz", {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test})
        self.archive("all.npz", {"x": x_test, "y": y_test})
        self.archive("brighter.npz", {"x_train": brighter, "y_train": y_train, "x_test": x_test, "y_test": y_test})
        self.train("--data", "own.npz", "--model", "softmax", "--clients", "2", "--rounds", "20", "--lr", "0.3", "--quiet", "--out", "run")
        of = [json.loads(self.call("eval", "run", *data, "--json")[0])
              for data in ((), ("--data", "all.npz test-fraction=1"), ("--data", "brighter.npz"))]  # by their own pixels: NaN, and one class
        self.assertGreater(of[0]["test_accuracy"], 0.9)
        for other in of[1:]:
            self.assertAlmostEqual(other["test_loss"], of[0]["test_loss"], places=3)

    def test_no_name_of_a_file_commands_a_terminal(self):
        for name in ("red\x1b[31m.npz", "two\nlines.npz", os.fsdecode(b"M\xfcnchen.npz")):
            self.archive(os.path.join("raw", name), images_as_arrays() if "red" in name else {"x_train": b"cut"})
        for form in ("text", "csv", "md", "json"):
            out, err = self.data("raw", "--format", form, code=65)
            self.assertEqual([letter for letter in out + err if letter != "\n" and not letter.isprintable()], [])
            self.assertRegex(out, r"red.*31m\.npz")
            self.assertRegex(out, r"nchen\.npz: x\\?_train: truncated")

    def test_data_get_is_the_script_beside_the_program(self):
        self.assertIn("usage: sounder data get mnist", self.data("get", "--help")[0])
        self.assertIn("no data set nothing; known are mnist", self.data("get", "nothing", code=64)[1])
        self.assertIn("needs a name", self.data("get", code=64)[1])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
