"""RUN/tensorboard/, read by a reader that was written from the format, and by TensorBoard's own where it is installed.

Usage: test_tensorboard.py PATH_OF_SOUNDER [unittest arguments]
"""
import os, shutil, struct, subprocess, sys, unittest

from runs import RunCase

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator, HISTOGRAMS, SCALARS, TENSORS
    from tensorboard.plugins.hparams import plugin_data_pb2
except ImportError:
    EventAccumulator = None

SMALL = ["--data", "synthetic:1x8x8:400:100", "--model", "conv 3 3; pool 2; relu; linear 10", "--batch-size", "10", "--clients", "8",
         "--rounds", "3", "--device", "cpu"]

CASTAGNOLI = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    CASTAGNOLI.append(byte)


def masked_checksum(data):
    value = 0xFFFFFFFF
    for byte in data:
        value = CASTAGNOLI[(value ^ byte) & 0xFF] ^ value >> 8
    value ^= 0xFFFFFFFF
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    """The payloads of TFRecord's framing; checks every checksum and that nothing is left over."""
    while data:
        length, head = struct.unpack("<QI", data[:12])
        assert head == masked_checksum(data[:8]), "checksum of a length"
        payload, (tail,) = data[12 : 12 + length], struct.unpack("<I", data[12 + length : 16 + length])
        assert tail == masked_checksum(payload), "checksum of a payload"
        data = data[16 + length :]
        yield payload


def fields(data):
    """A protobuf message: field -> its values, numbers as numbers and what has a length as bytes."""
    def varint():
        nonlocal data
        value = shift = 0
        while True:
            byte, data = data[0], data[1:]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def take(count):
        nonlocal data
        assert len(data) >= count, "a message ends early"
        value, data = data[:count], data[count:]
        return value

    found = {}
    while data:
        key = varint()
        kind = key & 7
        if kind == 0:
            value = varint()
        elif kind == 1:
            (value,) = struct.unpack("<d", take(8))
        elif kind == 5:
            (value,) = struct.unpack("<f", take(4))
        else:
            assert kind == 2, f"wire type {kind}"
            value = take(varint())
        found.setdefault(key >> 3, []).append(value)
    return found


def doubles(data):
    return struct.unpack(f"<{len(data) // 8}d", data)


class Events:
    """All events of a folder: scalars[tag] and histograms[tag] are lists of (step, wall time, value)."""

    def __init__(self, folder):
        self.scalars, self.histograms, self.plugins, self.restarts = {}, {}, {}, 0
        self.files = sorted(os.listdir(folder))
        for name in self.files:
            with open(os.path.join(folder, name), "rb") as file:
                payloads = list(records(file.read()))
            assert fields(payloads[0])[3] == [b"brain.Event:2"]
            for payload in payloads[1:]:
                self.read(fields(payload))

    def read(self, event):
        (time,), (step,) = event[1], event[2]
        if 7 in event:
            assert fields(event[7][0])[1] == [1]  # a session starts: what is there from this step on never was
            self.restarts += 1
            for of in (self.scalars, self.histograms):
                for tag in of:
                    of[tag] = [entry for entry in of[tag] if entry[0] < step]
        for value in fields(event[5][0])[1] if 5 in event else []:
            value = fields(value)
            tag = value[1][0].decode()
            if 2 in value:
                self.scalars.setdefault(tag, []).append((step, time, value[2][0]))
            if 5 in value:
                self.histograms.setdefault(tag, []).append((step, time, fields(value[5][0])))
            if 9 in value:
                plugin = fields(fields(value[9][0])[1][0])
                self.plugins[tag] = (plugin[1][0].decode(), plugin[2][0], fields(value[8][0]))

    def options(self):
        name, content, _ = self.plugins["_hparams_/session_start_info"]
        assert name == "hparams"
        entries = [fields(entry) for entry in fields(fields(content)[3][0])[1]]
        return {entry[1][0].decode(): next(iter(fields(entry[2][0]).values()))[0] for entry in entries}


def single(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


class TensorBoard(RunCase):
    def events(self, run):
        return Events(self.path(run, "tensorboard"))

    def steps(self, run, tag="loss/train_loss"):
        return [step for step, _, _ in self.events(run).scalars[tag]]

    def forget(self, run, round):
        """As if the run had been killed in this round, of which it had told already."""
        os.remove(self.path(run, "model.safetensors"))
        os.remove(self.path(run, "checkpoints", f"round-{round:06}.safetensors"))

    def test_every_number_of_a_round_is_a_scalar_at_its_step(self):
        self.train(*SMALL, "--workers", "2", "--out", "run")
        events, rounds = self.events("run"), self.rounds("run")
        by_key = {tag.split("/")[1]: entries for tag, entries in events.scalars.items()}
        for line in rounds:
            for key, value in line.items():
                if key == "round" or not isinstance(value, (int, float)):
                    continue
                told = {step: told for step, _, told in by_key[key]}
                self.assertAlmostEqual(told[line["round"]], value, delta=1e-6 * abs(value), msg=key)
        for tag in ("loss/train_loss", "loss/test_loss", "accuracy/test_accuracy", "time/seconds", "time/samples_per_second",
                    "time/simulated_seconds", "network/up_bytes", "network/down_bytes_total", "cohort/clients_trained"):
            self.assertEqual([step for step, _, _ in events.scalars[tag]], [1, 2, 3], tag)
        self.assertEqual([len(entries) for entries in events.scalars.values()], [3] * len(events.scalars))
        self.assertRegex(rounds[0]["time"], r"\.\d{3}Z$")
        self.assertAlmostEqual(events.scalars["time/seconds"][0][1] % 60, float(rounds[0]["time"][17:23]), delta=0.0011)

    def test_what_clients_tell_is_a_histogram_of_them(self):
        self.train(*SMALL, "--workers", "2", "--eval-clients-every", "1", "--out", "run")
        events, lines = self.events("run"), self.metrics("run")
        for kind, tag, key in (("client", "clients/loss", "loss"), ("client", "clients/seconds", "seconds"),
                               ("client_evaluation", "clients_global/accuracy", "accuracy")):
            for step, _, told in events.histograms[tag]:
                values = [line[key] for line in lines if line["type"] == kind and line["round"] == step]
                self.assertEqual(len(values), 8)
                for field, expected in ((1, min(values)), (2, max(values)), (3, 8), (4, sum(values)), (5, sum(v * v for v in values))):
                    self.assertAlmostEqual(told[field][0], expected, delta=1e-8 * expected)
                limits, counts = doubles(told[6][0]), doubles(told[7][0])
                self.assertEqual(list(limits), sorted(set(limits)))
                self.assertEqual((len(counts), sum(counts)), (len(limits), 8))
                self.assertAlmostEqual(limits[-1], max(values))
        self.assertEqual([step for step, _, _ in events.histograms["clients/loss"]], [1, 2, 3])
        self.assertEqual(events.histograms["time/barrier_wait_seconds"][0][2][3], [2.0])  # one a rank
        evaluated = [line for line in lines if line["type"] == "clients_evaluation"]
        self.assertEqual([told for _, _, told in events.scalars["clients_global/accuracy_worst_tenth"]],
                         [single(line["accuracy_worst_tenth"]) for line in evaluated])

    def test_staleness_is_counted_by_updates(self):
        self.train(*SMALL[:4], "--device", "cpu", "--algorithm", "hogwild", "--workers", "2", "--rounds", "1", "--out", "run")
        (line,) = self.rounds("run")
        ((step, _, told),) = self.events("run").histograms["updates/staleness"]
        self.assertEqual((step, told[3]), (1, [sum(line["staleness"])]))
        self.assertEqual(list(doubles(told[7][0])), line["staleness"])
        self.assertEqual(doubles(told[6][0])[0], 0.5)
        mean = sum(i * count for i, count in enumerate(line["staleness"])) / sum(line["staleness"])
        self.assertAlmostEqual(self.events("run").scalars["updates/staleness_mean"][0][2], mean, places=4)

    def test_the_options_are_hyper_parameters_and_the_configuration_a_text(self):
        self.train(*SMALL, "--workers", "1", "--lr", "0.07", "--partition", "dirichlet", "--alpha", "0.3", "--out", "run")
        events = self.events("run")
        options = events.options()
        self.assertEqual((options["lr"], options["alpha"], options["clients"]), (0.07, 0.3, 8.0))
        self.assertEqual((options["model"], options["tensorboard"]), (SMALL[3].encode(), 1))
        self.assertEqual({"out", "patience"} & set(options), set())  # of the process alone; not asked for
        plugin, _, tensor = events.plugins["config"]
        with open(self.path("run", "config.yaml")) as file:
            self.assertEqual((plugin, tensor[8][0].decode()), ("text", "".join("    " + line for line in file)))
        self.assertEqual(events.plugins["_hparams_/session_end_info"][0], "hparams")

    def test_a_run_that_goes_on_tells_every_round_once(self):
        self.train(*SMALL, "--workers", "1", "--out", "run")
        self.forget("run", 3)
        self.train("--resume", "run", "--rounds", "5")
        events = self.events("run")
        self.assertEqual((len(events.files), events.restarts), (2, 1))
        for tag, entries in [*events.scalars.items(), *events.histograms.items()]:
            self.assertEqual([step for step, _, _ in entries], [1, 2, 3, 4, 5], tag)
        rounds = self.rounds("run")
        self.assertEqual([told for _, _, told in events.scalars["time/seconds"]], [single(line["seconds"]) for line in rounds])

    def test_each_process_has_a_file_behind_those_before_however_quickly_it_follows(self):
        self.train(*SMALL, "--workers", "1", "--rounds", "1", "--out", "run")
        for rounds in range(2, 7):
            self.train("--resume", "run", "--rounds", str(rounds), "--quiet")
        numbers = [name.split(".")[3] for name in os.listdir(self.path("run", "tensorboard"))]
        self.assertEqual((len(numbers), len(set(numbers))), (6, 6), numbers)

    def test_the_past_is_told_where_no_earlier_process_did(self):
        self.train(*SMALL, "--workers", "1", "--tensorboard=false", "--out", "run")
        self.assertFalse(os.path.exists(self.path("run", "tensorboard")))
        self.forget("run", 3)
        self.train("--resume", "run", "--rounds", "4", "--tensorboard")
        events = self.events("run")
        self.assertEqual((len(events.files), events.restarts), (1, 0))
        for tag, entries in [*events.scalars.items(), *events.histograms.items()]:
            self.assertEqual([step for step, _, _ in entries], [1, 2, 3, 4], tag)

    def test_what_cannot_be_written_is_a_warning_and_changes_nothing(self):
        self.train(*SMALL, "--workers", "1", "--rounds", "4", "--out", "calm")
        self.train(*SMALL, "--workers", "1", "--out", "run")
        self.forget("run", 3)
        shutil.rmtree(self.path("run", "tensorboard"))
        with open(self.path("run", "tensorboard"), "w"):
            pass
        _, err = self.train("--resume", "run", "--rounds", "4", "--quiet")
        self.assertRegex(err, r"^sounder: warning: run/tensorboard: cannot be opened: Not a directory; the run goes on without .*\n$")
        self.assertEqual(self.model("run"), self.model("calm"))

    def test_a_full_disk_ends_the_events_with_one_warning_and_a_whole_record(self):
        self.train(*SMALL, "--workers", "1", "--rounds", "1", "--out", "run")
        self.train(*SMALL, "--workers", "1", "--rounds", "8", "--out", "calm")
        os.remove(self.path("run", "model.safetensors"))
        folder = self.path("run", "tensorboard")
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", folder], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("mounting a small tmpfs is not permitted here")
        try:
            _, err = self.train("--resume", "run", "--rounds", "8", "--quiet")
            self.assertRegex(err, r"^sounder: warning: run/tensorboard: events\S+ an event cannot be written: No space left on device; .*\n$")
            self.assertEqual(self.steps("run")[0], 1)  # every record that is there can be read
        finally:
            subprocess.run(["umount", folder], check=True)
        self.assertEqual(self.model("run"), self.model("calm"))

    @unittest.skipUnless(EventAccumulator, "TensorBoard is not installed: its own reader is not tried")
    def test_tensorboards_own_reader_sees_every_tag(self):
        self.train(*SMALL, "--workers", "2", "--eval-clients-every", "2", "--out", "run")
        self.forget("run", 3)
        self.train("--resume", "run", "--rounds", "5")
        ours, theirs = self.events("run"), EventAccumulator(self.path("run", "tensorboard"), {SCALARS: 0, HISTOGRAMS: 0, TENSORS: 0})
        theirs.Reload()
        tags = theirs.Tags()
        self.assertEqual(set(tags[SCALARS]), set(ours.scalars))
        self.assertEqual(set(tags[HISTOGRAMS]), set(ours.histograms))
        self.assertEqual(set(tags[TENSORS]), {"config"} | {tag for tag in ours.plugins if tag.startswith("_hparams_/")})
        for tag, entries in ours.scalars.items():
            self.assertEqual([(event.step, event.wall_time, event.value) for event in theirs.Scalars(tag)], entries, tag)
        for tag, entries in ours.histograms.items():
            self.assertEqual([(event.step, event.histogram_value.num) for event in theirs.Histograms(tag)],
                             [(step, told[3][0]) for step, _, told in entries], tag)
        content = theirs.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
        start = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info
        self.assertEqual(start.hparams["model"].string_value, SMALL[3])
        self.assertEqual(start.hparams["clients"].number_value, 8)


if __name__ == "__main__":
    unittest.main(argv=["test_tensorboard.py"] + sys.argv[2:], verbosity=2)
