"""What the tests of `sounder launch` share: a folder, launches in it that are children with a deadline, and reading what ranks print.

Ranks tell what they see by printing it, and that they live by their pid.
"""
import collections, os, random, re, socket, subprocess

from runs import SLOWED, SOUNDER, FolderCase, wait_until

DEADLINE = 180 * SLOWED  # importing PyTorch four times on a busy machine takes most of a minute


def lines_of_ranks(text):
    """{rank: [line, ...]} of the lines "[rank] line"; a line of another form is an error."""
    lines = collections.defaultdict(list)
    for line in text.splitlines():
        rank, content = re.fullmatch(r"\[(\d+)\] (.*)", line).groups()
        lines[int(rank)].append(content)
    return dict(lines)


def free_port():
    """Below those that the system gives to connections: nobody else gets it before it is used."""
    for port in random.sample(range(20000, 32768), 100):
        with socket.socket() as server:
            try:
                server.bind(("", port))
                return port
            except OSError:
                continue
    raise RuntimeError("there is no free port")


class LaunchTest(FolderCase):
    def write(self, name, text, mode=0o644):
        with open(self.path(name), "w") as file:
            file.write(text)
        os.chmod(self.path(name), mode)
        return self.path(name)

    def start(self, *arguments, **settings):
        environment = {key: value for key, value in os.environ.items()
                       if key != "OMP_NUM_THREADS" and not key.startswith(("PET_", "TORCH")) and not key.endswith(("RANK", "WORLD_SIZE"))}
        more = {"stdin": settings.pop("stdin", subprocess.DEVNULL)}
        more.update((name, settings.pop(name)) for name in ("cwd", "preexec_fn") if name in settings)
        if not any(word.replace("_", "-").startswith(("--standalone", "--master-port", "--rdzv-endpoint")) for word in arguments):
            environment["PET_MASTER_PORT"] = str(free_port())  # a launch has its port for itself, and tests run side by side
        environment.update(settings, TMPDIR=self.folder.name)
        process = subprocess.Popen(
            [SOUNDER, "launch", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True,
            **more
        )
        self.started.append(process)
        return process

    def finish(self, process, code=0):
        out, err = process.communicate(timeout=DEADLINE)
        self.assertEqual(process.returncode, code, out + err)
        return out, err

    def launch(self, *arguments, code=0, **settings):
        return self.finish(self.start(*arguments, **settings), code)

    def read_files(self, *names):
        """The contents of files that the ranks are writing, once all are there; for ranks that do not end."""
        self.assertTrue(wait_until(lambda: all(os.path.exists(self.path(name)) for name in names)), names)
        contents = []
        for name in names:
            self.assertTrue(wait_until(lambda: os.path.getsize(self.path(name)) > 0), name)
            with open(self.path(name)) as file:
                contents.append(file.read())
        return contents
