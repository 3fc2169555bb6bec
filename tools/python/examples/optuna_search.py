"""Optuna searches a learning rate and a server's momentum, and prunes trials by the rounds of runs that still train.

    python3 tools/python/examples/optuna_search.py [FOLDER]       (needs optuna)
"""
import sys
import tempfile
import time

import optuna
import sounder

FOLDER = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
OPTIONS = {"data": "synthetic:1x8x8:400:100", "model": "linear 16; relu; linear classes", "clients": 10, "rounds": 40, "workers": 1}


def objective(trial):
    lr, beta = trial.suggest_float("lr", 1e-4, 0.3, log=True), trial.suggest_float("beta", 0, 0.9)
    told, algorithm = 0, f"fedavgm beta={beta:.3f}"
    with sounder.start(f"{FOLDER}/trial-{trial.number}", algorithm=algorithm, lr=f"{lr:.5f}", **OPTIONS) as run:
        while told < OPTIONS["rounds"]:
            ended = not run.is_running
            for row in run.rows("round")[told:]:
                told = row["round"]
                trial.report(row["test_loss"], told)
                if trial.should_prune():
                    raise optuna.TrialPruned()
            if ended:
                run.wait()  # an Error, if the run failed
                break
            time.sleep(0.05)
    return run.rows("round")[-1]["test_loss"]


optuna.logging.set_verbosity(optuna.logging.WARNING)
pruner = optuna.pruners.MedianPruner(n_startup_trials=3)
study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1), pruner=pruner)
study.optimize(objective, n_trials=8)
print([trial.state.name for trial in study.trials], round(study.best_value, 4), study.best_params)
