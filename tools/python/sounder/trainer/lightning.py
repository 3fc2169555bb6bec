"""A Trainer of Lightning in a turn: turn.lightning().

    def train(net, turn):                          # net: a LightningModule
        turn.lightning().fit(net, turn.loader())

It trains the turn's epochs, corrects before it clips and steps, and adds what training_step returns."""
import logging
import sys

from ..command import Error


def _package():
    """The one that the program's module is of: Lightning is installed under two names."""
    if "pytorch_lightning" in sys.modules and "lightning" not in sys.modules:
        import pytorch_lightning

        return pytorch_lightning
    import lightning.pytorch

    return lightning.pytorch


def trainer(turn, words):
    """A Trainer for one fit. Nothing is saved, logged elsewhere, or drawn. words: of the Trainer, in their place."""
    if turn.device is not None and str(turn.device) != "cpu":
        raise Error(f"turn.lightning(): the net is on {turn.device}, and Lightning moves a net back to the CPU when it has "
                    "trained it; leave device= out")
    package = _package()
    logging.getLogger(package.__name__).setLevel(logging.WARNING)

    class Adds(package.Callback):
        def on_before_optimizer_step(self, trainer, module, optimizer):
            turn.correct()

        def on_train_batch_end(self, trainer, module, outputs, batch, number):
            turn.progress()
            loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
            if loss is not None:  # as it was for the backward pass, a share of the step; none if the module steps itself
                extract = sys.modules[f"{package.__name__}.utilities.data"].extract_batch_size
                turn.add(loss.detach() * trainer.accumulate_grad_batches, extract(batch))

    unused = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary", "num_sanity_val_steps")
    given = {"max_epochs": turn.epochs, "gradient_clip_val": turn.clip or None, "accelerator": "cpu", "devices": 1,
             **dict.fromkeys(unused, False)}
    return package.Trainer(**{**given, **words, "callbacks": [Adds(), *words.get("callbacks", ())]})
