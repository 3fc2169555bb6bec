"""Whole runs on several nodes: mpirun on this host, and across two network namespaces that the test joins itself.

Usage: test_nodes.py PATH_OF_SOUNDER [unittest arguments]
Exits with 77 where there is no mpirun or sounder was built without MPI.
"""
import glob, os, random, re, select, shutil, signal, struct, subprocess, sys, time, unittest

from runs import (DATA, OWN_SESSION, SANITIZED, SLOWED, SMALL, SOUNDER, RunCase, alive, children_of, command_line, merged, named, read_trace, state_of, wait_until)

# Two buckets: 676 * 400 weights fill the first one, the convolution before them makes the second.
BUCKETS_TRAIN = 400 if SANITIZED else 1600
BUCKETS_STEPS = BUCKETS_TRAIN // 8 // 32 + 1
TWO_BUCKETS = ["--data", f"synthetic:1x28x28:{BUCKETS_TRAIN}:200", "--model", "conv 4 3; relu; pool 2; dropout 0.5; linear 400; relu; linear 10",
               "--algorithm", "ssgd", "--clients", "8", "--batch-size", "32", "--rounds", "3"]
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               # More processes than cores, none of them bound to one; leaks are the business of MPI's authors.
               "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
               "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,vader",  # one machine: looking for networks is half of a short run
               "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}


def rank_of(pid):
    """Of a node's process among the nodes; -1 if it is gone."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = dict(line.split(b"=", 1) for line in file.read().split(b"\0") if b"=" in line)
    except OSError:
        return -1
    return int(variables.get(b"OMPI_COMM_WORLD_RANK", -1))


class NodesCase(RunCase):
    def start_nodes(self, nodes, *arguments, wrapper=()):
        command = ["mpirun", "-np", str(nodes), *wrapper, SOUNDER, "train", *merged(*arguments)]
        return self.start_command(command)

    def start_command(self, command, **more):
        # What Open MPI leaves in /dev/shm of nodes that are killed goes with the test's folder.
        process = subprocess.Popen(command, cwd=self.folder.name, text=True, **OWN_SESSION, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env={**ENVIRONMENT, "OMPI_MCA_btl_vader_backing_directory": self.folder.name}, **more)
        self.started.append(process)
        return process

    def train_nodes(self, nodes, *arguments, code=0):
        return self.finish(self.start_nodes(nodes, *arguments), code)

    def refused(self, nodes, *arguments, codes=(64, 69)):
        """What mpirun returns is the code of whoever ends first: the cause's, or 69 of those who hear of it."""
        process = self.start_nodes(nodes, *arguments)
        out, err = process.communicate(timeout=60 * SLOWED)
        self.assertIn(process.returncode, codes)
        return err

    def parents(self, process):
        """The nodes' processes, in the order of their ranks."""
        found = []
        for path in glob.glob(f"/proc/{process.pid}/task/*/children"):
            try:
                with open(path) as file:
                    found += map(int, file.read().split())
            except OSError:  # a thread of mpirun's that has ended meanwhile
                pass
        return sorted((pid for pid in found if command_line(pid)[1:2] == [b"train"]), key=rank_of)

    def stand_still(self, pids):
        """Nobody computes, or wants to, at many looks one after the other."""
        for _ in range(40):
            if any(state_of(pid) != "S" for pid in pids):
                return False
            time.sleep(0.005)
        return True

    def kill_workers_of_nodes(self, process, every_seconds, chooser, most):
        kills = 0
        while process.poll() is None and kills < most:
            workers = [worker for parent in self.parents(process) for worker in children_of(parent)]
            if not workers:
                time.sleep(0.005)
                continue
            try:
                os.kill(chooser.choice(workers), signal.SIGKILL)
                kills += 1
            except ProcessLookupError:  # its parent has reaped it meanwhile
                continue
            time.sleep(every_seconds)
        return kills

    def lose(self, process, run, number):
        """Sends the signal to the last node's parent; the others shall end with a sentence, and everybody's workers."""
        self.wait_for_round(run, 2)
        parents = self.parents(process)
        workers = [worker for parent in parents for worker in children_of(parent)]
        os.kill(parents[-1], number)
        _, err = process.communicate(timeout=60 * SLOWED)
        self.assertNotEqual(process.returncode, 0)
        self.assertTrue(wait_until(lambda: not any(alive(pid) for pid in parents + workers)), "somebody lives on")
        return err


class Nodes(NodesCase):
    def test_a_budget_ends_all_nodes_after_one_round_and_a_larger_one_goes_on(self):
        small = ["--data", "synthetic:1x8x8:160:60", "--model", "softmax", "--clients", "6", "--workers", "1", "--quiet", "--until"]
        round_bytes = 6 * (650 * 4 * 2 + 16)
        self.train(*small, f"bytes={3 * round_bytes}", "--rounds", "9", "--out", "one")
        self.train_nodes(2, *small, f"bytes={round_bytes + 1}", "--rounds", "9", "--out", "two")
        self.assertEqual(self.rounds("two")[-1]["round"], 2)
        self.finish(self.start_command(["mpirun", "-np", "2", SOUNDER, "train", "--resume", "two", "--until", f"bytes={3 * round_bytes}"]))
        self.assertEqual([self.rounds(run)[-1]["round"] for run in ("one", "two")], [3, 3])
        self.assertEqual(self.model("two"), self.model("one"))

    def test_the_same_bits_for_any_number_of_nodes_and_workers(self):
        cases = {"fedavg": [*SMALL, "--rounds", "2"], "ssgd": [*TWO_BUCKETS, "--rounds", "2"],
                 "sampled": [*SMALL, "--rounds", "3", "--clients", "20", "--clients-per-round", "7", "--partition", "dirichlet",
                             "--alpha", "0.3"],
                 "global-batch": [*TWO_BUCKETS, "--rounds", "1", "--algorithm", "ssgd batch=global"]}
        for name, arguments in cases.items():
            with self.subTest(name):
                self.train(*arguments, "--workers", "4", "--out", f"{name}-1")
                for nodes, workers in ((2, 2), (4, 1), (3, 1)):
                    run = f"{name}-{nodes}"
                    self.train_nodes(nodes, *arguments, "--workers", str(workers), "--out", run)
                    self.assertEqual(self.model(run), self.model(f"{name}-1"), f"{nodes} nodes of {workers}")

    def test_losses_accuracy_and_clients_are_those_of_one_node(self):
        self.train(*SMALL, "--workers", "2", "--out", "one")
        out, _ = self.train_nodes(3, *SMALL, "--workers", "1", "--out", "three")
        self.assertIn("1 worker on each of 3 nodes", out)
        self.assertEqual(out.count("round 1/3"), 1, "node 0 alone prints")
        for one, three in zip(self.rounds("one"), self.rounds("three")):
            for key in ("train_loss", "test_loss", "test_accuracy", "samples"):
                self.assertEqual(one[key], three[key], key)
        clients = [entry for entry in self.metrics("three") if entry["type"] == "client" and entry["round"] == 1]
        self.assertEqual(sorted(entry["client"] for entry in clients), list(range(8)))
        self.assertEqual({entry["node"] for entry in clients}, {0, 1, 2})

    def test_the_same_bits_while_workers_of_all_nodes_are_killed(self):
        for name, arguments in (("fedavg", [*SMALL, "--local-epochs", "2"]), ("ssgd", TWO_BUCKETS)):
            with self.subTest(name):
                self.train(*arguments, "--workers", "2", "--out", f"{name}-calm")
                for attempt in range(10):  # one that is over before a worker was seen says nothing
                    storm = f"{name}-storm-{attempt}"
                    process = self.start_nodes(2, *arguments, "--workers", "2", "--on-worker-death", "respawn", "--out", storm)
                    # In lockstep each of them costs a round.
                    kills = self.kill_workers_of_nodes(process, 0.3 * SLOWED, random.Random(4), most=8)
                    self.finish(process)
                    self.assertEqual(self.model(f"{name}-calm"), self.model(storm))
                    if kills > 0:
                        break
                self.assertGreater(kills, 0)

    def test_a_lost_node_ends_the_run_with_a_sentence_and_it_resumes_with_other_numbers_of_nodes(self):
        for algorithm, arguments in (("fedavg", SMALL), ("ssgd", TWO_BUCKETS)):
            with self.subTest(algorithm):
                calm, torn = f"{algorithm}-calm", f"{algorithm}-torn"
                process = self.start_nodes(2, *arguments, "--rounds", "500", "--workers", "1", "--out", torn)
                err = self.lose(process, torn, signal.SIGKILL)
                self.assertRegex(err, r"sounder: node \d: error: node 1 \(process \d+ on \S+\) is lost: it has died; --resume")
                done = len(self.rounds(torn))
                self.train_nodes(3, "--resume", torn, "--workers", "1", "--rounds", str(done + 1))
                self.train("--resume", torn, "--workers", "4", "--rounds", str(done + 2))
                self.train(*arguments, "--rounds", str(done + 2), "--workers", "2", "--checkpoint-every", "0", "--out", calm)
                self.assertEqual(self.model(calm), self.model(torn))
                self.assertEqual([entry["round"] for entry in self.rounds(torn)], list(range(1, done + 3)))

    def test_a_node_that_falls_silent_is_lost_after_the_seconds_of_a_hang(self):
        process = self.start_nodes(3, *SMALL, "--rounds", "500", "--workers", "1", "--hang-seconds", "10", "--out", "run")
        err = self.lose(process, "run", signal.SIGSTOP)
        self.assertRegex(err, r"sounder: node \d: error: node 2 \(process \d+ on \S+\) is lost: nothing was heard of it for 10 s")

    def test_a_worker_may_die_while_its_node_waits_for_the_sums_of_another(self):
        arguments = [*TWO_BUCKETS, "--local-epochs", "4", "--workers", "2", "--on-worker-death", "respawn"]
        process = self.start_nodes(2, *arguments, "--rounds", "500", "--out", "torn")
        self.wait_for_round("torn", 1)
        near, far = self.parents(process)
        for _ in range(20):  # between the sums of two buckets and of two rounds nodes meet, too, and look after no worker
            os.kill(far, signal.SIGSTOP)
            workers = children_of(near)
            self.assertTrue(wait_until(lambda: self.stand_still(workers)), "they never come to where they need the far node's")
            os.kill(workers[0], signal.SIGKILL)
            noticed = wait_until(lambda: state_of(workers[0]) is None, 5)
            os.kill(far, signal.SIGCONT)
            if noticed:
                break
            self.wait_for_more_rounds("torn", 1)
        self.assertTrue(noticed, "its parent does not notice")
        self.wait_for_deaths("torn", 1)
        os.kill(near, signal.SIGTERM)
        self.finish(process, 128 + signal.SIGTERM)
        self.train(*arguments, "--rounds", str(len(self.rounds("torn"))), "--out", "calm")
        self.assertEqual(self.bits("calm"), self.bits("torn"))


class Agreement(NodesCase):
    """What nodes say to each other beside their sums, and of each other."""

    def test_nodes_with_options_of_their_own_are_refused(self):
        for own, shared in (("--lr", "0.2"), "0.1"), (("--workers", "2"), "1"):
            name = own[0]
            process = self.start_command(["mpirun", "-np", "1", SOUNDER, "train", *SMALL, name, shared, "--out", "run", ":",
                                          "-np", "1", SOUNDER, "train", *SMALL, *own, "--out", "run"])
            _, err = process.communicate(timeout=60 * SLOWED)
            self.assertNotEqual(process.returncode, 0)
            self.assertIn(f"node 1 was given {name} {own[1]}, but node 0 goes by {shared}; give all nodes the same options", err)

    def test_warnings_name_the_node(self):
        process = self.start_nodes(2, *SMALL, "--rounds", "500", "--workers", "2", "--out", "named")
        self.wait_for_round("named", 2)
        parent = self.parents(process)[-1]
        os.kill(children_of(parent)[0], signal.SIGKILL)
        self.wait_for_deaths("named", 1)
        os.kill(parent, signal.SIGTERM)
        _, err = self.finish(process, 128 + signal.SIGTERM)
        self.assertRegex(err, r"sounder: node [01]: warning: round \d+: rank [01] was killed by signal 9")

    def test_a_node_without_workers_ends_the_run_and_the_others_say_whose_message_to_read(self):
        process = self.start_nodes(2, *SMALL, "--rounds", "500", "--workers", "2", "--out", "run")
        self.wait_for_round("run", 1)
        for worker in children_of(self.parents(process)[1]):
            os.kill(worker, signal.SIGKILL)
        _, err = process.communicate(timeout=60 * SLOWED)
        self.assertIn("sounder: node 1: error: all 2 workers have died", err)
        self.assertRegex(err, r"sounder: node \d: error: node 1 \(process \d+ on \S+\) (has ended the run|is lost)")

    def test_what_one_node_finds_wrong_is_not_called_a_loss_by_the_others(self):
        err = self.refused(2, *SMALL, "--workers", "1", "--trace", "nowhere/trace.json", "--out", "run", codes=(73, 69))
        self.assertIn("--trace nowhere/trace.json: cannot be written", err)
        self.assertNotIn("is lost", err)

    def test_a_signal_to_any_node_ends_all_after_the_same_round(self):
        for which in (0, 1):
            with self.subTest(node=which):
                run = f"stopped-{which}"
                process = self.start_nodes(2, *SMALL, "--rounds", "500", "--workers", "1", "--out", run)
                self.wait_for_round(run, 1)
                os.kill(self.parents(process)[which], signal.SIGTERM)
                _, err = process.communicate(timeout=60 * SLOWED)
                self.assertEqual(process.returncode, 128 + signal.SIGTERM, err)
                self.assertIn(f"--resume {run}", err)
                done = len(self.rounds(run))
                self.assertLess(done, 500)
                self.assertTrue(os.path.exists(self.path(run, "checkpoints", f"round-{done:06d}.safetensors")))
                rounds = ["--rounds", str(done + 2)]
                self.train_nodes(2, "--resume", run, "--workers", "2", *rounds)
                self.train(*SMALL, *rounds, "--workers", "1", "--checkpoint-every", "0", "--out", f"calm-{which}")
                self.assertEqual(self.model(f"calm-{which}"), self.model(run))

    def test_the_trace_shows_all_nodes_and_every_job_once(self):
        for name, arguments in (("fedavg", SMALL), ("ssgd", TWO_BUCKETS)):
            self.train_nodes(2, *arguments, "--workers", "2", "--trace", f"{name}.json", "--out", name)
        tracks = read_trace(self.path("fedavg.json"))
        self.assertEqual(set(tracks), {(node, track) for node in (0, 1) for track in (0, 1, 2)})
        self.assertEqual(sorted((job["args"]["round"], job["args"]["client"]) for job in named(tracks, "client")),
                         [(round, client) for round in (1, 2, 3) for client in range(8)])
        exchanges = named(read_trace(self.path("ssgd.json")), "exchange bucket")
        self.assertEqual(sorted((span["pid"], span["args"]["bucket"]) for span in exchanges),
                         sorted([(node, bucket) for node in (0, 1) for bucket in (0, 1)] * (3 * BUCKETS_STEPS)))
        for entry in self.rounds("ssgd"):
            self.assertGreater(entry["exchange_seconds"], entry["exchange_hidden_seconds"])

    def test_hogwild_is_refused(self):
        err = self.refused(2, "--algorithm", "hogwild", "--data", DATA, "--out", "run")
        self.assertIn("--algorithm hogwild: its workers write one piece of memory, which 2 nodes do not share", err)

    def test_more_workers_on_all_nodes_than_shards_are_refused(self):
        err = self.refused(2, *TWO_BUCKETS, "--workers", "5", "--out", "run")
        self.assertIn("--workers is 5 on every node; raise --clients or lower --workers", err)

    def test_nodes_with_other_instructions_are_refused(self):
        for isa in ("", "SOUNDER_ISA=baseline"):
            with open(self.path(f"node{isa[:1]}"), "w") as file:
                file.write(f"#!/bin/sh\n{isa} exec {SOUNDER} \"$@\"\n")
            os.chmod(self.path(f"node{isa[:1]}"), 0o755)
        arguments = ["train", *SMALL, "--workers", "1", "--out", "run"]
        process = self.start_command(["mpirun", "-np", "1", "./node", *arguments, ":", "-np", "1", "./nodeS", *arguments])
        _, err = process.communicate(timeout=60 * SLOWED)
        self.assertIn("node 1 computes with baseline and node 0 with", err)
        self.assertFalse(os.path.exists(self.path("run")))

    def test_a_run_whose_clients_keep_something_is_resumed_on_two_nodes(self):
        run = ["--data", "synthetic:1x4x4:96:24", "--model", "linear classes", "--algorithm", "scaffold", "--clients", "20", "--clients-per-round", "4",
               "--workers", "1", "--checkpoint-every", "8", "--quiet"]
        self.train(*run, "--rounds", "40", "--out", "one")
        self.train(*run, "--rounds", "20", "--out", "two")
        self.train_nodes(2, "--resume", "two", "--rounds", "40", "--quiet")
        self.assertEqual(self.bits("two"), self.bits("one"))

    def test_what_clients_keep_has_to_fit_into_the_memory_of_every_node(self):
        """The first has it on its disk. The other is told that its machine has little memory."""
        with open("/proc/meminfo") as file, open(self.path("meminfo"), "w") as told:
            told.write(re.sub(r"(?m)^MemAvailable:.*$", "MemAvailable: 40000 kB", file.read()))
        mounted = subprocess.run(["unshare", "-m", "mount", "--bind", self.path("meminfo"), "/proc/meminfo"], stderr=subprocess.DEVNULL)
        if mounted.returncode != 0:
            self.skipTest("mounting is not permitted here")
        with open(self.path("poor"), "w") as file:
            file.write(f'#!/bin/sh\nexec unshare -m sh -c \'mount --bind {self.path("meminfo")} /proc/meminfo && exec {SOUNDER} "$@"\' sh "$@"\n')
        os.chmod(self.path("poor"), 0o755)
        arguments = ["train", "--data", "synthetic:1x4x4:4000:24", "--model", "linear 200; linear classes", "--algorithm", "scaffold", "--workers", "1",
                     "--clients", "4000", "--clients-per-round", "2", "--rounds", "2000", "--out", "run"]
        process = self.start_command(["mpirun", "-np", "1", SOUNDER, *arguments, ":", "-np", "1", "./poor", *arguments])
        _, err = process.communicate(timeout=60 * SLOWED)
        self.assertRegex(err, r"what the clients of --algorithm keep takes up to 98\.4 MB of memory on every node but the first, where 41\.0 MB are")
        self.assertFalse(os.path.exists(self.path("run")))

    def write_data(self, folder, seed):
        os.makedirs(folder)
        chooser = random.Random(seed)
        for name, count in (("train", 256), ("t10k", 64)):
            with open(os.path.join(folder, f"{name}-images-idx3-ubyte"), "wb") as file:
                file.write(struct.pack(">4I", 0x803, count, 8, 8) + chooser.randbytes(count * 64))
            with open(os.path.join(folder, f"{name}-labels-idx1-ubyte"), "wb") as file:
                file.write(struct.pack(">2I", 0x801, count) + bytes(i % 10 for i in range(count)))

    def train_in_two_folders(self):
        def on(folder):
            return ["-np", "1", "-wdir", self.path(folder), SOUNDER, "train", "--data", "data", "--model", "softmax", "--workers",
                    "1", "--clients", "2", "--rounds", "1", "--out", "run"]
        return self.start_command(["mpirun", *on("a"), ":", *on("b")])

    def test_every_node_needs_the_same_data(self):
        self.write_data(self.path("a", "data"), 1)
        self.write_data(self.path("b", "data"), 2)
        _, err = self.train_in_two_folders().communicate(timeout=60 * SLOWED)
        self.assertRegex(err, "the data set .* of node 1 is not that of node 0")
        shutil.rmtree(self.path("b", "data"))
        os.makedirs(self.path("b"), exist_ok=True)
        _, err = self.train_in_two_folders().communicate(timeout=60 * SLOWED)
        self.assertRegex(err, r"sounder: node \d: error: node 1 \(process \d+ on \S+\) (has ended the run|is lost)")
        self.assertFalse(os.path.exists(self.path("a", "run")), "the run began although it could not be")
        self.write_data(self.path("b", "data"), 1)
        self.finish(self.train_in_two_folders())
        self.assertTrue(os.path.exists(self.path("a", "run", "model.safetensors")))
        self.assertFalse(os.path.exists(self.path("b", "run")), "node 0 alone writes")

    def test_a_run_on_one_machine_never_loads_mpi(self):
        process = self.start(*SMALL, "--workers", "1", "--rounds", "500", "--out", "run", env={**os.environ, "PMIX_RANK": "0"})
        self.wait_for_round("run", 1)
        for pid in [process.pid, *children_of(process.pid)]:
            with open(f"/proc/{pid}/maps") as file:
                self.assertNotIn("libmpi", file.read())
        process = self.start_nodes(2, *SMALL, "--workers", "1", "--rounds", "500", "--out", "nodes")
        self.wait_for_round("nodes", 1)
        parents = self.parents(process)
        with open(f"/proc/{parents[0]}/maps") as file:
            self.assertIn("libmpi", file.read())
        with open(f"/proc/{children_of(parents[0])[0]}/maps") as file:
            self.assertNotIn("libmpi", file.read(), "workers start without it")
        for parent in parents:
            os.kill(parent, signal.SIGKILL)
        self.assertTrue(wait_until(lambda: not any(map(alive, parents))), "one still writes to its folder")


class TwoNetworks(NodesCase):
    """Nodes that reach each other through a wire alone: network namespaces joined by veth. Rank 1 is started by an `ssh`
    of the test's own that enters the other namespace."""

    def setUp(self):
        super().setUp()
        self.names = [f"sounder-{os.getpid()}-{side}" for side in "ab"]
        self.ends = ends = [f"snd{os.getpid() % 100000}{side}" for side in "ab"]
        for name in self.names:
            self.addCleanup(self.remove, name)
            self.need(["ip", "netns", "add", name])
            self.need(["ip", "-n", name, "link", "set", "lo", "up"])
        self.need(["ip", "link", "add", ends[0], "netns", self.names[0], "type", "veth", "peer", "name", ends[1], "netns",
                   self.names[1]])
        for name, end, address in zip(self.names, ends, ("10.213.7.1/24", "10.213.7.2/24")):
            self.need(["ip", "-n", name, "address", "add", address, "dev", end])
            self.need(["ip", "-n", name, "link", "set", end, "up"])
        with open(self.path("ssh"), "w") as file:  # ssh [-x] HOST COMMAND ...
            file.write(f"#!/bin/sh\nwhile [ \"${{1#-}}\" != \"$1\" ]; do shift; done\nshift\n"
                       f"exec ip netns exec {self.names[1]} unshare --uts sh -c \"hostname far-node; $*\"\n")
        os.chmod(self.path("ssh"), 0o755)

    def remove(self, name):
        self.kill_inside(name)
        subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL)

    def kill_inside(self, name):
        for pid in self.inside(name):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:  # it has ended meanwhile
                pass

    def inside(self, name):
        listed = subprocess.run(["ip", "netns", "pids", name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return [int(pid) for pid in listed.stdout.split()]

    def need(self, command):
        try:
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        except FileNotFoundError as missing:
            self.skipTest(f"two networks: {missing}")
        if done.returncode != 0:
            self.skipTest(f"two networks: {' '.join(command)}: {done.stderr.strip()}")

    def start_nodes(self, *arguments):
        return self.start_command(
            ["ip", "netns", "exec", self.names[0], "unshare", "--uts", "sh", "-c", "hostname near-node; exec \"$@\"", "sh",
             "mpirun", "--host", "near-node:1,10.213.7.2:1", "--map-by", "node", "--mca", "plm_rsh_agent", self.path("ssh"),
             "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "10.213.7.0/24", "--mca", "oob_tcp_if_include",
             "10.213.7.0/24", "-np", "2", SOUNDER, "train", *merged(*arguments)])

    def bytes_received(self):
        shown = subprocess.run(["ip", "netns", "exec", self.names[0], "cat", "/proc/net/dev"], stdout=subprocess.PIPE, text=True)
        return sum(int(line.split(":")[1].split()[0]) for line in shown.stdout.splitlines() if "snd" in line)

    def test_the_same_bits_over_a_wire(self):
        for name, arguments in (("fedavg", SMALL), ("ssgd", TWO_BUCKETS)):
            with self.subTest(name):
                self.train(*arguments, "--workers", "2", "--out", f"{name}-one")
                before = self.bytes_received()
                self.finish(self.start_nodes(*arguments, "--workers", "1", "--out", f"{name}-two"))
                self.assertEqual(self.model(f"{name}-one"), self.model(f"{name}-two"))
                if name == "ssgd":  # half of the gradient of 271 thousand weights comes in, and half of the mean
                    self.assertGreater(self.bytes_received() - before, 3 * BUCKETS_STEPS * 4 * 270000)

    def test_a_wire_that_is_cut_ends_the_run_on_both_sides(self):
        process = self.start_nodes(*SMALL, "--rounds", "500", "--workers", "1", "--hang-seconds", "10", "--out", "run")
        self.wait_for_round("run", 2)
        parents = [pid for name in self.names for pid in self.inside(name) if command_line(pid)[:2] == [SOUNDER.encode(), b"train"]]
        self.assertEqual(len(parents), 2)
        self.need(["ip", "-n", self.names[0], "link", "set", self.ends[0], "down"])
        self.assertTrue(wait_until(lambda: not any(alive(pid) for pid in parents)), "a node lives on")
        # Both run on this machine: if MPI's daemon on the far side is quicker to give up, its node is seen to be dead.
        sentence = r"sounder: node \d: error: (node 1 .* is lost: (nothing was heard of it for 10 s|it has died)|the connection between)"
        said = b""
        while not re.search(sentence, said.decode(errors="replace")):  # mpirun passes on what the near node said when it comes to it
            ready, _, _ = select.select([process.stderr], [], [], 60 * SLOWED)
            piece = os.read(process.stderr.fileno(), 65536) if ready else b""
            self.assertTrue(piece, f"not the sentence, but: {said}")
            said += piece
        # What the far node says, and that it is gone, does not come through to mpirun, which may wait for it for long.
        for name in self.names:
            self.kill_inside(name)
        process.communicate(timeout=60 * SLOWED)


def can_run():
    if not shutil.which("mpirun"):
        return "there is no mpirun here"
    if not os.path.exists(os.path.join(os.path.dirname(SOUNDER), "sounder_mpi.so")):
        return "sounder was built without MPI"
    return None


if __name__ == "__main__":
    if can_run():
        print(f"skipped: {can_run()}")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
