"""`sounder export RUN --peft FOLDER`: the adapter of a run's model, as PEFT writes one."""
import os

from .command import Error
from .exports import TrainedRun, check_new, main
from .trainer.serve import made_net


def adapter_of(net, run):
    if not hasattr(net, "peft_config") or not hasattr(net, "save_pretrained"):
        raise Error(f"the net of {run.words[0]} is a {type(net).__name__} and no PeftModel: make it by "
                    "peft.get_peft_model(base, LoraConfig(...))")
    return net


def write_adapter(folder, out):
    """Writes the adapter of the run in `folder` into the folder `out`; returns a sentence."""
    check_new(out, "peft")
    run = TrainedRun(folder)
    if not os.path.exists(run.model):
        raise Error(f"{folder} has no model yet: sounder train --resume {folder} ends the run")
    net = adapter_of(made_net(run.served().net, run.about_data(), None, None, int(run.options["seed"])).net, run)
    run.run.load_into(net).save_pretrained(out)
    return f"adapter: {out}"


if __name__ == "__main__":
    main(write_adapter)
