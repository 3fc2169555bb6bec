"""Two launches at one port: the second is refused before it starts a rank, whatever its ranks are.

Usage: test_launch_ports.py PATH_OF_SOUNDER [unittest arguments]
"""
import os, signal, socket, sys, unittest

from launches import LaunchTest, free_port
from runs import wait_until


class Ports(LaunchTest):
    def holder(self, *arguments):
        """A launch that has started its rank."""
        process = self.start(*arguments, "sh", "-c", f"echo $$ >{self.path('pid')}; exec sleep 300")
        self.read_files("pid")
        return process

    def test_a_second_launch_at_a_port_is_refused_until_the_first_has_ended(self):
        port = free_port()
        at_port = ["--master-port", str(port)]
        first = self.holder(*at_port)
        for more in ([], ["--rdzv-id", "another"], ["--nnodes", "2", "--node-rank", "0"]):
            remedy = "give another to all launchers" if "--nnodes" in more else "give --standalone, or another --master-port"
            _, err = self.launch(*at_port, *more, "touch", self.path("started"), code=69)
            self.assertEqual(err, f"sounder: error: --master-port {port}: another sounder launch (process {first.pid}) uses it, "
                                  f"and the ranks of both would meet; {remedy}\n")
        self.assertFalse(os.path.exists(self.path("started")))
        first.send_signal(signal.SIGTERM)
        self.finish(first, 128 + signal.SIGTERM)
        self.launch(*at_port, "touch", self.path("started"))
        self.assertTrue(os.path.exists(self.path("started")))

    def test_a_killed_launcher_lets_go_of_its_port(self):
        at_port = ["--master-port", str(free_port())]
        self.holder(*at_port).kill()
        self.assertTrue(wait_until(lambda: self.started[0].poll() is not None))
        self.launch(*at_port, "true")

    def test_a_port_at_which_another_program_listens_is_refused(self):
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            _, err = self.launch("--master-port", str(port), "true", code=69)
        self.assertEqual(err, f"sounder: error: --master-port {port}: cannot be opened: Address already in use; "
                              "give --standalone, or another --master-port\n")

    def test_each_attempt_has_an_identity_of_its_own_that_its_ranks_share(self):
        script = "echo $SOUNDER_LAUNCH_ID; [ $TORCHELASTIC_RESTART_COUNT = 1 ] || { [ $RANK = 0 ] && exit 1; exec sleep 300; }"
        seen = set()
        out, _ = self.launch("-n", "2", "--max-restarts", "1", "--grace-seconds", "0", "sh", "-c", script)
        seen.update(line.split()[1] for line in out.splitlines())
        self.assertRegex(" ".join(sorted(seen)), "^[0-9a-f]{16}( [0-9a-f]{16})$")

    def test_ranks_of_several_machines_have_none_since_each_launcher_would_draw_another(self):
        out, _ = self.launch(*"--nnodes 2 --node-rank 0 --meet-seconds 0".split(), "sh", "-c", "echo id=$SOUNDER_LAUNCH_ID", SOUNDER_LAUNCH_ID="outer")
        self.assertEqual(out, "[0] id=\n")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
