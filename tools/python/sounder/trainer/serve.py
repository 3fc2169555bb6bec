"""serve and turns: the loop of a trainer from its first line to its last."""
import contextlib
import inspect
import os
import sys
import traceback

import numpy as np

from ..command import Error
from ..seeds import seed_all
from .files import PACKAGE, own_files, versions
from .link import Data, Desk, Options, begin
from .look import Look
from .nursery import Nursery, obstacle, remedy
from .opened import give
from .samples import OwnSamples
from .tensors import ArrayNet
from .turn import Turn


def _torch_of(net):
    """Whether this net, or what makes it, is torch's."""
    made = getattr(net, "__mro__", None) or type(net).__mro__
    return any(kind.__module__.startswith("torch.nn") for kind in made)


def set_threads(count):
    torch = sys.modules.get("torch")
    if torch:
        torch.set_num_threads(count)


def _wants_data(make):
    """Whether what makes the net takes an argument that has no default."""
    try:
        wanted = [one for one in inspect.signature(make).parameters.values() if one.default is one.empty and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    except ValueError:  # built in
        return False
    return len(wanted) == 1


def made_net(net, data, exchange, device, seed):
    """The net behind what the user gave: a class or a function is called once, with the run's seed set."""
    seed_all(seed)
    if not isinstance(net, dict) and (isinstance(net, type) or not _torch_of(net)):
        net = net(data) if _wants_data(net) else net()
    if isinstance(net, dict):
        if device is not None:
            raise Error(f"device={device}: a dict of arrays has no device, the program computes where it likes; leave it out")
        return ArrayNet(net, exchange)
    from .torch_net import TorchNet

    return TorchNet(net, exchange, device)


def _state_floats(state, net):
    """A number, a function of the net, or the class of an optimizer."""
    if isinstance(state, type) and state.__module__.startswith("torch.optim"):
        from .keeping import floats_of

        return floats_of(net, state)
    return int(state(net) if callable(state) else state)


def _flat(net):
    """The weights that the program has made."""
    return np.concatenate([value.reshape(-1) for value in net.values()]).astype(np.float32)


def _attach(net, desk, hello):
    """Whether the desk has the weights that the program has made, for a turn that shows if this start is like the first."""
    made = _flat(net) if hello.get("witness") and not net.moves() else None
    net.attach(desk, hello["tensors"])
    if made is not None:
        desk.weights[...] = made
    return made is not None


def _describe(net, line, hello, whole_test, state, still, own):
    """The parent asks for names, shapes and initial values before the run begins. Returns the first line of this program as a nursery,
    or None: then the program has done its duty."""
    with os.fdopen(hello["desk"]["fd"], "wb", closefd=False) as file:
        file.write(_flat(net).tobytes())
    rehearses = bool(hello.get("nursery"))  # whether it can fork then is asked afterwards
    line.send(tensors=[[name, list(shape)] for name, shape in net.tensors()], views=int(own is None), whole_test=int(whole_test), state=state,
              still=int(still), stays=net.stays.told(), files=own_files(), versions=versions(), forks=int(rehearses),
              **net.statistics())
    told = line.receive() if rehearses else None
    return told and {**hello, **told}


def tell_error(line, error):
    """An exception ends the trainer: the log gets the whole of it, the worker its last line. Mistakes that this package finds would
    be made again, so they end the run at once."""
    trace = error.__traceback__
    while trace.tb_next and trace.tb_frame.f_code.co_filename.startswith(PACKAGE + os.sep):
        trace = trace.tb_next  # the user's own lines, without those that called them
    traceback.print_exception(type(error), error, trace)
    sentence = traceback.format_exception_only(type(error), error)[-1].strip()
    if sentence == "bdb.BdbQuit":
        sentence += ": a run's programs have no terminal; sounder.check(net, train, test, (x, y), hang_seconds=3600) runs turns in yours"
    with contextlib.suppress(OSError):
        line.send(error=str(error) if isinstance(error, Error) else sentence, fatal=int(isinstance(error, Error)))


def _be_nursery(line, desk, requests):
    """After the rehearsals: returns in each fork, or at once if there can be none."""
    why = obstacle()
    line.send(forks=int(not why), why=why, remedy=remedy() if why else None, files=own_files())
    if not why:
        Nursery(int(requests), line, desk).keep()


def _skip_rehearsal(line, told):
    """With a net that goes to a GPU: forks cannot share what the rehearsal would open there, so they begin before it."""
    line.send(turn=told["turn"], loss_sum=0.0, samples=0, steps=0)


@contextlib.contextmanager
def _returns(turn):
    """A function that fails after its hand_in has no result: the turn is done again."""
    try:
        yield
    except Exception:
        turn.handed_in = False
        raise


def _turns(net, exchange, device, whole_test, state, still, line, hello, own=None):
    requests = os.environ.pop("SOUNDER_NURSERY", None)
    set_threads(hello.get("threads", 1))
    if "samples" in hello:
        line.send(samples=own.write(hello["samples"]) if own else None)
        return
    hello["options"] = Options(hello.get("options", {}), line)
    data = Data(hello["data"], hello["options"])
    if own:
        own.check(data, whole=bool(hello.get("describe")))
    net = made_net(net, data, exchange, device, hello["seed"])
    state = _state_floats(state, net.net)
    if hello.get("describe"):
        hello = _describe(net, line, hello, whole_test, state, still, own)
        if hello is None:
            return
    desk = Desk(hello, hello["desk"]["fd"], state)
    made = _attach(net, desk, hello)
    line.send(ready=1, pid=os.getpid(), stays=net.stays.told(), files=own_files(), made=int(made))
    while (told := line.receive()) is not None:
        if told.get("forks"):
            _be_nursery(line, desk, requests)
            continue
        if told.get("rehearsal") and net.moves():
            _skip_rehearsal(line, told)
            continue
        net.place()
        turn = Turn(told, hello, desk, data, net, line, state)
        turn.loaded = own
        net.fetch(turn.trains, turn.still)
        before = desk.weights.copy() if turn.part == "client" else None  # a large test of a client is several turns of the same weights
        try:
            yield net.net, turn
        finally:  # also where a loop of the user's ends by break
            if before is not None:
                desk.weights[...] = before
            if turn.handed_in:
                turn.answer()
        if not turn.handed_in:
            raise Error(f"turn {told['turn']} was not handed in: call turn.hand_in() at its end")


def turns(net, exchange=None, device=None, whole_test=False, state=0, still=False):
    """The turns of this trainer, one after the other, for loops that cannot be functions.

        for turn in sounder.turns(net):
            ...
            turn.hand_in()

    net: a torch.nn.Module, or a dict of NumPy's arrays, which become the round's weights in place; or what makes one. exchange: names or patterns of the
    tensors that travel. A turn ends with its hand_in; the loop ends with the run. whole_test, state: as in serve. still: the loop leaves the
    tensors of turn.still as they are; parameters of a module need no gradient in such a turn.
    """
    line, hello = begin()
    sys.excepthook = lambda kind, error, trace: tell_error(line, error)
    for _, turn in _turns(net, exchange, device, whole_test, state, still, line, hello):
        yield turn


def serve(net, train, test=None, exchange=None, device=None, whole_test=False, state=0, still=False, data=None, client=None, optimizer=None,
          accumulate=1, autocast=None, schedule=None, loader=None):
    """Serves the turns of a run: train(net, turn) trains a client, test(net, turn) evaluates, without gradients. Or one function looks at a
    batch, serve(Net, look, data=(train_set, test_set), optimizer=torch.optim.AdamW), and the loop is the library's (look.py).

    net: a class or a function that makes the net, called once with the run's seed set; or a net. One that takes an argument gets the
    data, with their shape (channels, rows, columns) and classes. exchange: names or patterns of the
    tensors that travel; without it those of real and complex numbers, and if some parameter is frozen those that learn. device: where the net
    computes, such as "cuda". whole_test: a test is one turn with all of its samples, for figures that are no means over parts;
    otherwise it is dealt to all workers, 500 samples a turn. state: how many floats of an optimizer a client keeps from turn to turn in
    turn.state (--client-optimizer-state keep), as a number, a function of the net, or the class of an optimizer for turn.keep.
    still: the functions leave the tensors of turn.still as they are, which algorithms such as fedrep need; parameters of a module need no
    gradient in such a turn, so that most functions do.
    data: two Datasets of torch's, in place of --data; turn.loader() then has the turn's batches. client: the name of the attribute or column
    that says whose a sample is. With look: optimizer, a class or a function of the parameters (SGD); accumulate, batches per step;
    autocast="bf16"; schedule, a function of the optimizer, and of the turn's steps, that makes a scheduler; loader, words of the DataLoader.
    """
    give(locals())
    line, hello = begin()
    try:
        own = OwnSamples(data, client) if data is not None else None
        if test is None:
            look = Look(train, own, optimizer, accumulate, autocast, schedule, loader)
            train, test, still = look.train, look.test, True
        elif (optimizer, accumulate, autocast, schedule, loader) != (None, 1, None, None, None):
            raise Error("serve: optimizer, accumulate, autocast, schedule and loader go with one function that looks at a batch; train has its own")
        for made, turn in _turns(net, exchange, device, whole_test, state, still, line, hello, own):
            torch = sys.modules.get("torch")
            with _returns(turn), torch.no_grad() if torch and not turn.trains else contextlib.nullcontext():
                (train if turn.trains else test)(made, turn)
            turn.end()
    except Exception as error:
        tell_error(line, error)
        sys.exit(1)
