"""Adapters of PEFT on a frozen GPT-2 of random weights: they alone travel, and the run's adapter loads in PEFT again.

    python3 tools/python/examples/trainer_lora.py [FOLDER]       (needs transformers and peft)
"""
import argparse, json, os, sys, tempfile
import numpy as np
import sounder
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel

MODULES, LENGTH = (argparse, json, tempfile), 32  # characters of a sample


def base():
    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(vocab_size=128, n_positions=LENGTH, n_embd=32, n_layer=2, n_head=2))


def texts(module):
    text = np.fromfile(module.__file__, np.uint8) % 128
    return torch.from_numpy(text[: len(text) // LENGTH * LENGTH].reshape(-1, LENGTH)[:60].astype(np.int64))


def look(net, batch):
    return {"loss": net(input_ids=batch[0], labels=batch[0]).loss, "tokens": batch[0].numel()}


if "SOUNDER_TRAINER" in os.environ:
    rows = torch.cat([texts(module) for module in MODULES])
    train, test = (torch.utils.data.TensorDataset(part) for part in (rows, rows[::10]))
    train.author, test.author = np.repeat(range(len(MODULES)), 60), np.repeat(range(len(MODULES)), 6)
    adapter = LoraConfig(r=4, lora_alpha=8, target_modules=["c_attn"], fan_in_fan_out=True)
    make = lambda: get_peft_model(base(), adapter)
    sounder.serve(make, look, data=(train, test), client="author", optimizer=torch.optim.AdamW)
else:
    folder = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
    run = sounder.train(f"{folder}/run", trainer=os.path.abspath(__file__), rounds=3, lr=0.03)
    PeftModel.from_pretrained(base(), run.export_peft(f"{folder}/adapter"))
    print([round(row["test_metrics"]["perplexity"], 2) for row in run.rows("round")])
