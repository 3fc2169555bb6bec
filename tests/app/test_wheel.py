"""The wheel, without building it: what pyproject.toml says, and which program an installed package starts.

Usage: test_wheel.py SOURCE_FOLDER [unittest arguments]   (exit 77: skipped, there is no tomllib, or no NumPy)
"""
import os, re, subprocess, sys, tempfile, unittest

SOURCE = os.path.abspath(sys.argv[1])
PACKAGE = os.path.join(SOURCE, "tools", "python")
try:
    import numpy  # noqa: F401
    import tomllib
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


def read(*path):
    with open(os.path.join(SOURCE, *path)) as file:
        return file.read()


class Metadata(unittest.TestCase):
    def setUp(self):
        self.file = tomllib.loads(read("tools", "python", "pyproject.toml"))
        self.wheel = self.file["tool"]["scikit-build"]

    def test_name_and_version_are_those_of_the_wheel_and_of_the_program(self):
        project = self.file["project"]
        self.assertEqual(project["name"], "sounder-fl")
        self.assertEqual(project["version"], re.search(r"project\(sounder VERSION ([\d.]+)", read("CMakeLists.txt"))[1])

    def test_files_are_the_package_and_the_build_of_this_tree(self):
        self.assertEqual(self.wheel["wheel"]["packages"], ["sounder"])
        self.assertTrue(os.path.exists(os.path.join(PACKAGE, "sounder", "__init__.py")))
        self.assertTrue(os.path.samefile(os.path.join(PACKAGE, self.wheel["cmake"]["source-dir"]), SOURCE))
        self.assertTrue(os.path.exists(os.path.join(PACKAGE, self.file["project"]["readme"])))

    def test_one_wheel_serves_every_python(self):
        self.assertEqual(self.wheel["wheel"]["py-api"], "py3")
        self.assertEqual(self.wheel["wheel"]["install-dir"], "/data")

    def test_every_option_of_the_build_exists(self):
        known = set(re.findall(r"(?:option\(|set\()(SOUNDER_\w+)", read("CMakeLists.txt")))
        options = {name for name in self.wheel["cmake"]["define"] if name.startswith("SOUNDER_")}
        self.assertIn("SOUNDER_WHEEL", options)
        self.assertLessEqual(options, known)

    def test_an_unknown_option_of_the_tool_is_refused(self):
        done = subprocess.run([os.path.join(SOURCE, "tools", "wheel"), "--gpu"], stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 64)
        self.assertIn("--gpu is no option", done.stderr)


class Installed(unittest.TestCase):
    """A folder that looks like an environment into which pip has installed the wheel."""
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="sounder-wheel-")
        self.addCleanup(folder.cleanup)
        self.site = os.path.join(folder.name, "lib", "site-packages")
        self.program = os.path.join(folder.name, "bin", "sounder")
        self.other = os.path.join(folder.name, "other", "sounder")
        about = os.path.join(self.site, "sounder_fl-0.1.0.dist-info")
        os.makedirs(about)
        for program in (self.program, self.other):
            os.makedirs(os.path.dirname(program))
            with open(program, "w") as file:
                os.chmod(program, 0o755)
                file.write("#!/bin/sh\n")
        for name, text in (("METADATA", "Metadata-Version: 2.1\nName: sounder-fl\nVersion: 0.1.0\n"),
                           ("RECORD", "../../bin/sounder,,\nsounder/__init__.py,,\n")):
            with open(os.path.join(about, name), "w") as file:
                file.write(text)

    def found(self, *paths, **settings):
        environment = {name: value for name, value in os.environ.items() if name != "SOUNDER"}
        environment.update(PYTHONPATH=os.pathsep.join(paths), PATH=os.path.dirname(self.other), PYTHONDONTWRITEBYTECODE="1", **settings)
        return subprocess.run([sys.executable, "-c", "from sounder import command; print(command.program())"], check=True, text=True,
                              stdout=subprocess.PIPE, env=environment).stdout.strip()

    def test_the_package_of_a_wheel_starts_the_program_of_the_wheel(self):
        subprocess.run(["cp", "-r", os.path.join(PACKAGE, "sounder"), self.site], check=True)
        self.assertEqual(self.found(self.site), self.program)
        self.assertEqual(self.found(self.site, SOUNDER="/a/program"), "/a/program")

    def test_the_package_of_a_clone_starts_the_program_on_the_path(self):
        subprocess.run(["cp", "-r", os.path.join(PACKAGE, "sounder"), self.site], check=True)
        self.assertEqual(self.found(PACKAGE, self.site), self.other)
        self.assertEqual(self.found(PACKAGE), self.other)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
