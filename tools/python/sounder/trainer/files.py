"""What a trainer consists of: its program, the modules that it has imported from the program's folder, and libraries. A run records the
hash of the files and the versions of the libraries, so that --resume and diff know when they have changed."""
import os
import platform
import sys

PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
INSTALLED = ("site-packages", "dist-packages")
LIBRARIES = ("numpy", "torch", "jax", "tensorflow", "sklearn", "transformers")  # whose versions may have other bits


def own_files():
    program = getattr(sys.modules["__main__"], "__file__", None)
    if not program:
        return []  # an interactive interpreter, or python -c
    program = os.path.realpath(program)
    folder = os.path.dirname(program)
    found = set()
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        path = os.path.realpath(path) if isinstance(path, str) else ""
        inside = os.path.relpath(path, folder).split(os.sep) if path.startswith(folder + os.sep) else [".."]
        if inside[0] != ".." and not set(inside) & set(INSTALLED) and not path.startswith(PACKAGE + os.sep) and path != program:
            found.add(path)
    return [program, *sorted(path for path in found if os.path.isfile(path))]


def versions():
    """Of Python, and of the libraries that the program has imported."""
    imported = {name: getattr(sys.modules.get(name), "__version__", None) for name in LIBRARIES}
    return ", ".join([f"Python {platform.python_version()}"] + [f"{name} {version}" for name, version in imported.items() if version])
