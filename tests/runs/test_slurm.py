"""tools/slurm/train.sbatch under a Slurm of one node, which the test starts itself, as root, with its own folders.

Usage: test_slurm.py PATH_OF_SOUNDER PATH_OF_TRAIN_SBATCH [unittest arguments]
Skips with a line where that Slurm cannot be started, and with exit code 77 where sounder was built without MPI.
"""
import json, os, re, shlex, shutil, socket, subprocess, sys, tempfile, unittest

from runs import OWN_SESSION, SLOWED, SOUNDER, RunCase, merged, wait_until

SMALL = ["--data", "synthetic:1x8x8:400:100", "--model", "conv 3 3; pool 2; relu; linear 10", "--clients", "8", "--rounds", "3", "--batch-size", "10"]
LONG = merged(*SMALL, "--rounds", "1000000")  # for as long as Slurm takes to do something
SCRIPT = os.path.abspath(sys.argv[2])
SLURM_CONF = """
ClusterName=sounder
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
KillWait=2
SchedulerParameters=sched_interval=1,batch_sched_delay=0
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=all Nodes={host} Default=YES State=UP PriorityTier=5 PreemptMode=OFF
PartitionName=low Nodes={host} State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=4
PartitionName=high Nodes={host} State=UP PriorityTier=9 PreemptMode=OFF
"""


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Slurm(RunCase):
    """One Slurm for all tests: it takes seconds to start and to stop."""

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("Slurm: needs root")
        for tool in ("munged", "slurmctld", "slurmd", "srun", "sbatch"):
            if not shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin"):
                raise unittest.SkipTest(f"Slurm: there is no {tool} here (packages slurm-wlm and munge)")
        cls.daemons, cls.home = [], tempfile.mkdtemp(prefix="sounder-slurm-")
        cls.addClassCleanup(shutil.rmtree, cls.home)
        cls.addClassCleanup(cls.stop)
        for name in ("state", "spool"):
            os.mkdir(os.path.join(cls.home, name))
        with open(os.path.join(cls.home, "munge.key"), "wb") as file:
            file.write(os.urandom(1024))
        os.chmod(file.name, 0o600)
        os.chmod(cls.home, 0o755)
        with open(os.path.join(cls.home, "slurm.conf"), "w") as file:
            file.write(SLURM_CONF.format(host=socket.gethostname().split(".")[0], folder=cls.home, ports=free_ports(2)))
        cls.environment = {**{name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "OMPI_"))},
                           "SLURM_CONF": file.name, "PATH": os.environ["PATH"] + ":/usr/sbin",
                           "SOUNDER": SOUNDER, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}
        munge = [f"--{name}={os.path.join(cls.home, 'munge.' + name.split('-')[0])}"
                 for name in ("socket", "key-file", "log-file", "pid-file", "seed-file")]
        cls.start_daemon(["munged", "--foreground", "--force", *munge])
        cls.start_daemon(["slurmctld", "-D"])
        cls.start_daemon(["slurmd", "-D"])
        if not wait_until(cls.is_idle, 30):
            raise unittest.SkipTest(f"Slurm does not start here: {cls.last_words()}")

    @classmethod
    def start_daemon(cls, command):
        with open(os.path.join(cls.home, command[0] + ".out"), "w") as log:
            cls.daemons.append(subprocess.Popen(command, env=cls.environment, stdout=log, stderr=log, **OWN_SESSION))

    @classmethod
    def stop(cls):
        for daemon in reversed(cls.daemons):
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    @classmethod
    def last_words(cls):
        words = []
        for name in ("munged.out", "slurmctld.out", "slurmd.out"):
            with open(os.path.join(cls.home, name)) as file:
                words += [line.strip() for line in file if "error" in line or "fatal" in line][-1:]
        return "; ".join(words) or "no node becomes idle"

    @classmethod
    def is_idle(cls):
        told = subprocess.run(["sinfo", "--noheader", "--format=%T"], env=cls.environment, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, timeout=60 * SLOWED)
        return "idle" in told.stdout

    def setUp(self):
        super().setUp()
        os.chmod(self.folder.name, 0o755)

    def ask(self, *command):
        return subprocess.run(command, env=self.environment, cwd=self.folder.name, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, timeout=60 * SLOWED).stdout

    def metrics(self, run):
        """Without a last line that a killed job did not finish."""
        with open(self.path(run, "metrics.jsonl")) as file:
            return [json.loads(line) for line in file if line.endswith("\n")]

    def assert_undisturbed(self, run):
        """Every round has the bits of a run to which nothing happens."""
        rounds = [(entry["round"], entry["model_xxh3"]) for entry in self.rounds(run)]
        self.train(*LONG, "--rounds", str(len(rounds)), "--workers", "2", "--checkpoint-every", "0", "--quiet", "--out", "calm")
        self.assertEqual(rounds, [(entry["round"], entry["model_xxh3"]) for entry in self.rounds("calm")])

    def submit(self, *arguments, nodes="2", partition="all", **variables):
        """Two nodes of Slurm are two tasks of its one node here."""
        told = self.ask("env", *(f"{name}={value}" for name, value in variables.items()), "sbatch", "--nodes=1",
                        f"--partition={partition}", f"--ntasks={nodes}", f"--ntasks-per-node={nodes}", "--cpus-per-task=2", SCRIPT, *merged(*arguments))
        self.assertRegex(told, r"Submitted batch job \d+")
        return re.search(r"\d+", told).group()

    def log(self, job):
        try:
            with open(self.path(f"sounder-{job}.log")) as file:
                return file.read()
        except OSError:
            return ""

    def wait_for(self, job, state="COMPLETED"):
        def ended():
            return re.search("JobState=(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL)", self.ask("scontrol", "show", "job", job))
        self.assertTrue(wait_until(ended, 150), f"job {job} goes on: {self.log(job)}")
        self.assertIn(f"JobState={state}", self.ask("scontrol", "show", "job", job), self.log(job))
        return self.log(job)

    def test_the_script_trains_on_two_nodes_and_gives_the_bits_of_one(self):
        self.train(*SMALL, "--workers", "2", "--out", "one")
        job = self.submit(*SMALL)
        log = self.wait_for(job)
        self.assertIn("2 workers on each of 2 nodes", log)
        self.assertEqual(self.model("one"), self.model(f"runs/slurm-{job}"))

    def test_a_cancelled_job_finishes_its_round_and_the_next_one_continues_it_on_another_number_of_nodes(self):
        job = self.submit(*LONG, OUT="torn", WAIT_SECONDS="1")
        self.wait_for_round("torn", 2)
        self.ask("scancel", "--signal=TERM", job)
        log = self.wait_for(job, "FAILED")  # exit code 143
        self.assertIn("--resume torn", log)
        more = len(self.rounds("torn")) + 2
        self.wait_for(self.submit(*LONG, "--rounds", str(more), nodes="1", OUT="torn"))
        self.assertEqual(len(self.rounds("torn")), more)
        self.assert_undisturbed("torn")

    def test_an_array_of_jobs_is_a_sweep(self):
        options = shlex.join(SMALL)
        told = self.ask("env", "WAIT_SECONDS=1", "sbatch", "--array=1-2", "--requeue", "--cpus-per-task=2", "--output=sweep-%a.log",
                        "--wrap", f"bash {SCRIPT} {options} --seed $SLURM_ARRAY_TASK_ID")
        self.assertRegex(told, r"Submitted batch job \d+")
        self.assertTrue(wait_until(lambda: not self.ask("squeue", "--noheader").strip(), 90))
        models = {self.model(os.path.join("runs", run)) for run in os.listdir(self.path("runs"))}
        for seed in "1", "2":
            self.train(*SMALL, "--workers", "1", "--seed", seed, "--out", seed)
        self.assertEqual(models, {self.model("1"), self.model("2")})

    def test_a_sweep_is_an_array_of_jobs_that_share_a_folder(self):
        script = os.path.join(os.path.dirname(SCRIPT), "sweep.sbatch")
        told = self.ask("env", "OUT=shared", "sbatch", "--array=1-2", "--cpus-per-task=2", script, *SMALL, "--seed", "1..3")
        self.assertRegex(told, r"Submitted batch job \d+")
        self.assertTrue(wait_until(lambda: not self.ask("squeue", "--noheader").strip(), 90))
        logs = []
        for name in sorted(os.listdir(self.folder.name)):
            if re.fullmatch(r"sounder-\d+-\d+\.log", name):
                with open(self.path(name)) as file:
                    logs.append(file.read())
        self.assertEqual([re.search(r"(\d) of (\d) runs are done", log).groups() for log in logs], [("2", "2"), ("1", "1")], logs)
        for seed in "1", "2", "3":
            self.train(*SMALL, "--workers", "1", "--seed", seed, "--out", seed)
            self.assertEqual(self.model(seed), self.model(f"shared/seed={seed}"))

    def test_a_job_that_a_more_important_one_displaces_goes_on_when_it_is_started_again(self):
        job = self.submit(*LONG, partition="low", OUT="displaced")
        self.wait_for_round("displaced", 2)
        told = self.ask("sbatch", "--partition=high", "--nodes=1", "--exclusive", "--wrap", "sleep 1", "--output=/dev/null")
        self.assertRegex(told, r"Submitted batch job \d+")
        self.assertTrue(wait_until(lambda: "Restarts=1" in self.ask("scontrol", "show", "job", job), 150), self.log(job))
        self.wait_for_round("displaced", self.rounds("displaced")[-1]["round"] + 2)
        self.ask("scancel", "--full", job)
        self.wait_for(job, "CANCELLED")
        self.assert_undisturbed("displaced")


if __name__ == "__main__":
    if not os.path.exists(os.path.join(os.path.dirname(SOUNDER), "sounder_mpi.so")):
        print("skipped: sounder was built without MPI")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
