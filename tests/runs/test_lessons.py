#!/usr/bin/env python3
"""The course as a book (tools/lessons): each lesson's header is whole, each question has an answer, each file that a page
names is there; and two readers on one machine do not disturb each other. What a lesson prints is checked by
tools/lessons/check_lesson.py, one test for each lesson.

Usage: test_lessons.py SOUNDER SOURCE_FOLDER
"""
import glob, os, re, subprocess, sys, tempfile, unittest

SOUNDER, SOURCE = map(os.path.abspath, sys.argv[1:3])
FOLDER = os.path.join(SOURCE, "tools/lessons")
FIELDS = ("Question", "Build", "Run", "Read", "PyTorch")
READERS = 6


def text_of(name):
    with open(os.path.join(FOLDER, name)) as file:
        return file.read()


LESSONS = {int(name[:2]): name for name in map(os.path.basename, sorted(glob.glob(FOLDER + "/*.c")))}
BOOK, ANSWERS = text_of("README.md"), text_of("answers.md")
HEADERS = {number: re.match(r"(//.*\n)+", text_of(name)).group() for number, name in LESSONS.items()}


def field(header, name):
    """What follows `// NAME: ` up to the next field, or None."""
    found = re.search(rf"^// {name}\b[^\n]*?: ?((?:.|\n)*?)(?=^// (?:{'|'.join(FIELDS)}|Prints|Change)\b|^//\n|\Z)", header, re.M)
    return found and found[1]


def paths_in(text):
    return re.findall(r"\b(?:shm|fedavg|src|datasets|tools|tests)/[\w./-]*\w\.\w+", text)


class Book(unittest.TestCase):
    def test_lessons_have_numbers_from_1_on_and_whole_headers(self):
        self.assertEqual(list(LESSONS), list(range(1, len(LESSONS) + 1)))
        for number, header in HEADERS.items():
            with self.subTest(LESSONS[number]):
                self.assertRegex(header, rf"\A// Lesson {number}\. ")
                for name in FIELDS:
                    self.assertIsNotNone(field(header, name), f"no {name}:")
                self.assertIn("?", field(header, "Question"))

    def test_each_question_has_an_answer(self):
        to_lessons, at_the_end = ANSWERS.split("\n## At the end\n")
        questions = re.findall(r"^(\d)\. .*\?$", BOOK.split("\n## At the end\n")[1], re.M)
        self.assertEqual(questions, re.findall(r"^(\d)\. ", at_the_end, re.M))
        answers = dict(re.findall(r"^(\d+)\. ((?:.|\n)*?)(?=^\d+\. |\Z)", to_lessons, re.M))
        self.assertEqual([int(number) for number in answers], list(LESSONS))
        for number, header in HEADERS.items():
            if "?" in field(header, "Read"):
                self.assertIn("**Read:**", answers[str(number)], LESSONS[number])
        for row in re.findall(r"^\| ([\d, ]+) \| `.*\? \|$", BOOK, re.M):
            for number in row.split(", "):
                self.assertIn("**Read:**", answers[number], f"the map's lesson {number}")

    def test_files_that_the_pages_name_are_there(self):
        pages = {"README.md": BOOK, "answers.md": ANSWERS, **{LESSONS[number]: header for number, header in HEADERS.items()}}
        named = {(page, path) for page, text in pages.items() for path in paths_in(text)}
        self.assertGreater(len(named), 30)
        self.assertEqual([], [(page, path) for page, path in sorted(named) if not os.path.exists(os.path.join(SOURCE, path))])

    def test_the_book_and_the_help_list_each_lesson(self):
        told = subprocess.run([SOUNDER, "help", "lessons"], capture_output=True, text=True, check=True).stdout
        for number, name in LESSONS.items():
            self.assertRegex(BOOK, rf"\| {number} \| \[[^\]]+\]\({re.escape(name)}\)")
            self.assertIn(name, told)

    def test_where_a_mapping_is_new_a_drawing_shows_who_maps_it(self):
        for number in (1, 2, 3, 4, 11, 15, 16, 17, 18, 19, 20, 21, 22, 24, 26, 27, 28):
            self.assertRegex(HEADERS[number], r"(?m)^//   .*(\[|─)", LESSONS[number])
        days = re.split(r"^## Day \d\. ", BOOK, flags=re.M)[1:]
        self.assertEqual(6, len(days))
        for number, day in enumerate(days, 1):
            self.assertIn("```text\n", day, f"day {number} has no drawing")


class Readers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="lessons-")
        self.lesson = os.path.join(self.folder.name, "lesson")
        self.build(3)

    def build(self, number):
        subprocess.run(["cc", "-O2", "-o", self.lesson, os.path.join(FOLDER, LESSONS[number])], check=True)

    def tearDown(self):
        self.folder.cleanup()

    def run_at_once(self, count):
        readers = [subprocess.Popen([self.lesson], stdout=subprocess.PIPE, text=True) for _ in range(count)]
        return [(reader.communicate(timeout=60)[0], reader.pid, reader.returncode) for reader in readers]

    def test_many_readers_of_lesson_3_do_not_disturb_each_other(self):
        for _ in range(3):
            for printed, pid, code in self.run_at_once(READERS):
                self.assertEqual(0, code)
                self.assertIn(f"shm_open   opened: by its name         left after kill -9: /dev/shm/lesson-03-{pid}\n", printed)
                self.assertEqual(3, printed.count("left after kill -9: no\n"))
                self.assertFalse(os.path.exists(f"/dev/shm/lesson-03-{pid}"))

    def test_lesson_3_removes_the_name_of_a_run_that_was_killed_and_of_no_other(self):
        with subprocess.Popen(["true"]) as ended:
            ended.wait()
        names = [f"/dev/shm/lesson-03-{pid}" for pid in (ended.pid, os.getpid())]
        for name in names:
            open(name, "w").close()
        try:
            self.run_at_once(1)
            self.assertEqual([False, True], [os.path.exists(name) for name in names])
        finally:
            os.remove(names[1])

    def test_lesson_5_refuses_an_order_that_would_never_end(self):
        self.build(5)
        for order in ("0 0 0 0 0 1 1 1", "0 1 2", "a"):
            done = subprocess.run([self.lesson, order], capture_output=True, text=True, timeout=60)
            self.assertEqual((os.EX_USAGE, "an order is made of 0 and 1, each at most 4 times\n"), (done.returncode, done.stderr), order)
        done = subprocess.run([self.lesson, "0 1 1 0 0 0 1 1"], capture_output=True, text=True, timeout=60)
        self.assertIn("order 0 1 1 0 0 0 1 1: 1 of 4 counts are lost\n", done.stdout)

    @unittest.skipUnless("SOUNDER_EXHAUSTIVE" in os.environ and len(os.sched_getaffinity(0)) > 1, "takes many seconds and two cores")
    def test_lesson_9_measures_on_a_busy_machine(self):
        self.build(9)
        others = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(3 * len(os.sched_getaffinity(0)))]
        try:
            codes = [subprocess.run([self.lesson], capture_output=True).returncode for _ in range(4)]
        finally:
            for other in others:
                other.kill()
                other.wait()
        self.assertEqual([0] * 4, codes)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
