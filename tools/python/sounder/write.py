"""Writes a folder or file of data as a file for --data: python3 -m sounder.write PATH OUT.npz [options]"""
import argparse
import sys

from .command import Error
from .data import write_data
from .forms import NAMES


def _size(text):
    rows, by, columns = text.partition("x")
    if not (by and rows.isdigit() and columns.isdigit() and int(rows) and int(columns)):
        raise argparse.ArgumentTypeError(f"{text}: give ROWSxCOLUMNS, such as 32x32")
    return int(rows), int(columns)


def _columns(text):
    names = tuple(text.split(","))
    if len(names) != 2:
        raise argparse.ArgumentTypeError(f"{text}: give two names X,Y, such as image,label")
    return names


def main(arguments):
    parser = argparse.ArgumentParser(prog="python3 -m sounder.write", description="Writes data as a file for --data.",
                                     epilog=f"PATH is one of: {', '.join(NAMES)}.")
    parser.add_argument("path", metavar="PATH", help="the data, with splits train and test, or the training set")
    parser.add_argument("out", metavar="OUT.npz", help="the file to write")
    parser.add_argument("--test", metavar="PATH", help="the test set, where PATH has none")
    parser.add_argument("--client", metavar="NAME", help="whose samples: a column's name, or a level of folders")
    parser.add_argument("--columns", metavar="X,Y", type=_columns, help="the columns of samples and of labels")
    parser.add_argument("--size", metavar="ROWSxCOLUMNS", type=_size, help="the size to which images are scaled")
    given = parser.parse_args(arguments)
    try:
        named = {"client": given.client, "columns": given.columns, "size": given.size}
        print(write_data(given.out, given.path, given.test, **named))
    except Error as problem:
        print(f"sounder.write: {problem}", file=sys.stderr)
        return 65
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
