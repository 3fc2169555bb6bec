"""A Trainer of transformers or TRL in a turn: turn.hf_arguments(folder) and turn.hf().

    def train(net, turn):
        Trainer(net, turn.hf_arguments("scratch"), train_dataset=Subset(texts, numbers), callbacks=[turn.hf()]).train()

The Trainer chooses its own batches of these samples; the turn gets its steps and its mean loss."""
from transformers import TrainerCallback, TrainingArguments


def arguments(turn, folder, words):
    """Those of the turn; nothing is saved, logged elsewhere, or drawn on the terminal. words: further ones, which come first."""
    given = {"learning_rate": turn.lr, "num_train_epochs": turn.epochs, "per_device_train_batch_size": turn.batch_size, "weight_decay": turn.weight_decay,
             "max_grad_norm": turn.clip or 0.0, "seed": turn.seed % (1 << 32), "lr_scheduler_type": "constant", "save_strategy": "no",
             "logging_strategy": "no", "report_to": [], "disable_tqdm": True, "use_cpu": str(turn.device or "cpu") == "cpu"}
    return TrainingArguments(output_dir=folder, **{**given, **words})


class HandsIn(TrainerCallback):
    """Corrects before each step of the optimizer, after the Trainer has clipped, and tells the loss at the end."""

    def __init__(self, turn):
        self.turn = turn

    def on_step_begin(self, args, state, control, **kwargs):
        self.turn.progress()

    def on_substep_end(self, args, state, control, **kwargs):
        self.turn.progress()

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        self.turn.correct()

    def on_train_end(self, args, state, control, **kwargs):
        losses = [line["train_loss"] for line in state.log_history if "train_loss" in line]
        self.turn.add(losses[-1] if losses else float("nan"), self.turn.samples)
