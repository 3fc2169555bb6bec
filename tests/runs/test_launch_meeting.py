"""The launchers of several nodes, all of them on this machine: how they meet, and what they say when they do not.

Usage: test_launch_meeting.py PATH_OF_SOUNDER [unittest arguments]
"""
import os, resource, signal, socket, subprocess, sys, time, unittest

from launches import DEADLINE, LaunchTest, free_port
from runs import SLOWED, SOUNDER, wait_until


class Meeting(LaunchTest):
    def setUp(self):
        super().setUp()
        self.port = free_port()

    def node(self, rank, *arguments, **settings):
        """One that touches a file where it starts a rank."""
        program = ["sh", "-c", f"echo $RANK of $WORLD_SIZE; : >{self.path(f'started-{rank}')}"]
        return self.start(*f"--node-rank {rank} --master-addr 127.0.0.1 --master-port {self.port}".split(), *arguments, *program, **settings)

    def connect(self):
        """To node 0, as soon as it waits."""
        connected = []

        def try_it():
            try:
                connected.append(socket.create_connection(("127.0.0.1", self.port)))
            except OSError:
                pass
            return connected
        self.assertTrue(wait_until(try_it))
        return connected[0]

    def wait_for_dismissal(self, stranger):
        stranger.settimeout(DEADLINE)
        try:
            self.assertEqual(stranger.recv(1), b"")
        except ConnectionResetError:  # what it had sent was not read before
            pass

    def end(self, nodes, code, sentence):
        for process in nodes:
            _, err = self.finish(process, code)
            self.assertRegex(err, rf"^(sounder: waiting for .*\n)?sounder: error: {sentence}\n$")
        self.assertEqual([name for name in os.listdir(self.folder.name) if name.startswith("started")], [])

    def test_ranks_start_when_the_launchers_of_all_nodes_are_there(self):
        late = [self.node(rank, "-n", "2", "--nnodes", "3") for rank in (2, 0)]
        time.sleep(0.3)
        self.assertEqual(os.listdir(self.folder.name), [])
        for process, first in zip([*late, self.node(1, "-n", "2", "--nnodes", "3")], (4, 0, 2)):
            out, _ = self.finish(process)
            self.assertEqual(sorted(out.splitlines()), [f"[{rank}] {rank} of 6" for rank in (first, first + 1)])

    def test_launchers_that_were_not_started_alike_end_with_a_sentence_that_names_both(self):
        for first, second, sentence in (
                ("-n 2 --nnodes 2", "-n 1 --nnodes 2", r"--nnodes 2 --nproc-per-node 2, but node 1 \(127.0.0.1\) with --nnodes 2 --nproc-per-node 1"),
                ("-n 1 --nnodes 2", "-n 1 --nnodes 3", r"--nnodes 2 --nproc-per-node 1, but node 1 \(127.0.0.1\) with --nnodes 3 --nproc-per-node 1"),
                ("-n 1 --nnodes 3", "-n 1 --nnodes 2", r"--nnodes 3 --nproc-per-node 1, but node 1 \(127.0.0.1\) with --nnodes 2 --nproc-per-node 1")):
            with self.subTest(sentence):
                nodes = [self.node(0, *first.split()), self.node(1, *second.split())]
                self.end(nodes, 64, f"node 0 was started with {sentence}; give all the same")

    def test_more_nodes_may_meet_than_the_soft_limit_of_open_files_allows(self):
        first = self.node(0, "--nnodes", "60", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (45, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
        others = [self.connect() for _ in range(59)]
        for number, other in enumerate(others, 1):
            other.sendall(b"sounder launch: node %d of 60 with 1 ranks\n" % number)
        for other in others:
            other.settimeout(DEADLINE)
            self.assertEqual(other.recv(100), b"0 go\n")
            other.close()
        self.assertEqual(self.finish(first)[0], "[0] 0 of 60\n")

    def test_two_launchers_of_one_number_end_and_so_does_the_third(self):
        nodes = [self.node(rank, "--nnodes", "4") for rank in (0, 2, 2)]
        self.end(nodes, 64, r"--node-rank 2: two launchers were started with it \(127.0.0.1 and 127.0.0.1\); number them")

    def test_who_waits_in_vain_says_for_whom(self):
        self.end([self.node(rank, "--nnodes", "3", "--meet-seconds", "1") for rank in (0,)], 75,
                 "--nnodes 3: node 1 has not come within 1 s; start `sounder launch --nnodes 3 --node-rank 1` there, or raise --meet-seconds")
        self.end([self.node(1, "--nnodes", "3", "--meet-seconds", "0.5")], 75, r"--nnodes 3 --master-addr 127.0.0.1 --master-port \d+: node 0 "
                 "was not there within 0.5 s; start `sounder launch --nnodes 3 --node-rank 0` there, or raise --meet-seconds")

    def test_node_0_says_that_the_address_of_node_0_is_not_its_own(self):
        with socket.socket() as probe:
            try:
                probe.bind(("192.0.2.1", 0))
                self.skipTest("this machine takes any address for its own")
            except OSError:
                pass
        wait = f"--nnodes 2 --node-rank 0 --master-port {self.port} --meet-seconds 0.2 --master-addr".split()
        _, err = self.launch(*wait, "192.0.2.1", "true", code=75)  # reserved for documentation
        self.assertIn("sounder: warning: --master-addr 192.0.2.1: no address of this machine, which is node 0; give all launchers the address of node 0\n", err)
        self.assertNotIn("warning", self.launch(*wait, "127.0.0.1", "true", code=75)[1])

    def test_strangers_at_the_port_are_sent_away(self):
        first = self.node(0, "--nnodes", "2")
        strangers = [self.connect() for _ in range(3)]
        strangers[0].sendall(b"GET / HTTP/1.0\r\n\r\n")
        strangers[1].sendall(b"sounder launch: node 1 of 2 with 1 ranks and more\n")
        for process in (first, self.node(1, "--nnodes", "2")):
            self.finish(process)
        for stranger in strangers:
            stranger.close()

    def test_silent_strangers_do_not_keep_a_launcher_out(self):
        first = self.node(0, "--nnodes", "3")
        began = time.monotonic()
        strangers = [self.connect() for _ in range(2 * 16 + 3)]  # twice as many as there are places
        self.wait_for_dismissal(strangers[0])  # the oldest made room
        strangers[-1].setblocking(False)
        try:  # ... for the youngest, unless so long went by that it is sent away for its silence
            self.assertEqual((strangers[-1].recv(1), time.monotonic() - began > 3), (b"", True))
        except BlockingIOError:
            pass
        for process in (first, self.node(1, "--nnodes", "3"), self.node(2, "--nnodes", "3")):
            self.finish(process)
        for stranger in strangers:
            stranger.close()

    def test_a_stranger_that_says_nothing_is_sent_away_while_there_is_room(self):
        first = self.node(0, "--nnodes", "2")
        with self.connect() as stranger:
            stranger.sendall(b"sounder launch: node")  # and never the rest
            self.wait_for_dismissal(stranger)
        self.assertIsNone(first.poll())
        first.kill()

    def in_own_hosts(self, *command):
        """The same command where /etc/hosts is a file of ours."""
        return ["unshare", "-rm", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', self.path("hosts"), *command]

    def test_a_name_of_node_0_that_is_not_known_yet_is_waited_for(self):
        self.write("hosts", "")
        if subprocess.run(self.in_own_hosts("true"), capture_output=True).returncode != 0:
            self.skipTest("no namespace for an /etc/hosts of its own")
        self.write("hosts", "127.0.0.1 sounder-node-0.invalid\n")
        if subprocess.run(self.in_own_hosts("getent", "ahosts", "sounder-node-0.invalid"), capture_output=True).returncode != 0:
            self.skipTest("names are not looked up in /etc/hosts here")
        self.write("hosts", "")
        launch = f"launch --nnodes 2 --node-rank 1 --master-addr sounder-node-0.invalid --master-port {self.port}".split()

        def start(*arguments):
            self.started.append(subprocess.Popen(self.in_own_hosts(SOUNDER, *launch, *arguments, "true"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
            return self.started[-1]
        _, err = self.finish(start("--meet-seconds", "0.3"), 69)
        self.assertRegex(err, r"^sounder: error: --master-addr sounder-node-0.invalid: .* \(asked for 0.3 s: --meet-seconds\); give the name or address of node 0\n$")
        nodes = [start(), self.node(0, "--nnodes", "2")]
        time.sleep(0.5)
        self.assertEqual([process.poll() for process in nodes], [None, None])
        self.write("hosts", "127.0.0.1 sounder-node-0.invalid\n")
        for process in nodes:
            self.finish(process)

    def test_a_port_of_another_program_is_no_place_to_meet(self):
        with socket.create_server(("", self.port)) as other:
            self.end([self.node(0, "--nnodes", "2")], 69, rf"--master-port {self.port}: cannot be opened: Address already in use; give another to all launchers")
            second = self.node(1, "--nnodes", "2", "--meet-seconds", str(2 * SLOWED))
            other.settimeout(DEADLINE)
            connection, _ = other.accept()
            self.assertEqual(connection.recv(1000), b"sounder launch: node 1 of 2 with 1 ranks\n")
            connection.close()
            self.end([second], 75, r".*: the program at that port has no answer for node 1; start `sounder launch --nnodes 2 --node-rank 0` there, or give another port to all")

    def test_a_signal_ends_the_wait_and_the_others(self):
        first, second = self.node(0, "--nnodes", "3"), self.node(1, "--nnodes", "3")
        self.connect().close()
        first.send_signal(signal.SIGTERM)
        self.finish(first, 128 + signal.SIGTERM)
        if second.poll() is None:  # it has not come yet, and now nobody is there
            second.send_signal(signal.SIGINT)
        second.communicate(timeout=DEADLINE)
        self.assertIn(second.returncode, (75, 128 + signal.SIGINT, -signal.SIGINT))  # the last: before it began to wait
        self.assertEqual(os.listdir(self.folder.name), [])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
