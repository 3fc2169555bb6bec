"""Functions of each value by itself: what Sounder's layer lists, PyTorch and ONNX call them. A new one is a row here."""
from typing import NamedTuple, Optional


class Number(NamedTuple):
    """A function's number: its name in PyTorch and in ONNX, and its value where none is given."""
    torch: str
    onnx: str
    preset: float


class Function(NamedTuple):
    """op is empty if ONNX has no op of its own for it: onnx_ops.py then reads it from other nodes, and onnx_write.py writes those."""
    word: str
    module: str  # of torch.nn
    calls: tuple  # functions and methods of PyTorch
    op: str
    number: Optional[Number] = None

    def text(self, number):
        """The layer with this number, if it has one."""
        return f"{self.word} {number}" if self.number else self.word


FUNCTIONS = (
    Function("relu", "ReLU", ("relu", "relu_"), "Relu"),
    Function("relu6", "ReLU6", ("relu6",), ""),
    Function("leakyrelu", "LeakyReLU", ("leaky_relu",), "LeakyRelu", Number("negative_slope", "alpha", 0.01)),
    Function("tanh", "Tanh", ("tanh",), "Tanh"),
    Function("sigmoid", "Sigmoid", ("sigmoid",), "Sigmoid"),
    Function("elu", "ELU", ("elu",), "Elu", Number("alpha", "alpha", 1.0)),
)
OF_ONE_OP = {function.op: function for function in FUNCTIONS if function.op}
WRITTEN_AS_ONE_OP = {function.word: function for function in OF_ONE_OP.values()}
