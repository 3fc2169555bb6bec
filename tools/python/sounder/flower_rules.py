"""Flower's strategies as texts of rules: one row each."""
from .command import Error

MEAN = "combine mean told"
ADAPTIVE = MEAN + "; server {} lr={s.eta:g} beta1={s.beta_1:g} beta2={s.beta_2:g} tau={s.tau:g} start=0"
ALIKE = "clients count alike, where Flower weighs them by num-examples"
# Flower's strategies as texts of rules, and what differs.
STRATEGIES = {
    "FedAvg": (MEAN, ""), "FedProx": (MEAN, ""),  # the clients' own term reads proximal-mu of the message
    "FedAvgM": (MEAN + "; server momentum lr={s.server_learning_rate:g} beta={s.server_momentum:g}", ""),
    "FedAdam": (ADAPTIVE.replace("{}", "adam") + " bias-correction=flower", ""), "FedYogi": (ADAPTIVE.replace("{}", "yogi"), ""),
    "FedAdagrad": (MEAN + "; server adagrad lr={s.eta:g} tau={s.tau:g} start=0", ""),
    "FedMedian": ("combine median", ""), "FedTrimmedAvg": ("combine trimmed share={s.beta:g}", ""),
    "Krum": ("combine krum byzantine={s.num_malicious_nodes}", ""), "Bulyan": ("combine bulyan byzantine={s.num_malicious_nodes}", ""),
    "MultiKrum": ("combine multi-krum byzantine={s.num_malicious_nodes} chosen={s.num_nodes_to_select}", ALIKE),
    "QFedAvg": ("combine qffl q={s.q:g}", "losses are those of the model before training, as in the paper, where Flower takes what clients tell"),
    "DifferentialPrivacyServerSideFixedClipping": ("send clip norm={s.clipping_norm:g}; combine mean uniform; release gaussian noise={s.noise_multiplier:g}", ALIKE),
    "DifferentialPrivacyServerSideAdaptiveClipping": (
        "send adaptive-clip norm={s.clipping_norm:g} quantile={s.target_clipped_quantile:g} rate={s.clip_norm_lr:g}; combine mean uniform; release gaussian noise={s.noise_multiplier:g}", ALIKE),
}


def rules(strategy):
    """(the text of rules, what differs). A class of the app's own may do anything, whatever it is derived from."""
    names = [type(one).__name__ for one in (strategy, getattr(strategy, "strategy", None)) if one is not None]
    own = any(not type(one).__module__.startswith("flwr.") for one in (strategy, getattr(strategy, "strategy", strategy)))
    if own or names[0] not in STRATEGIES or names[1:] and names[1] not in ("FedAvg", "FedProx"):
        raise Error(f"the strategy {' around '.join(names)} is not known here ({', '.join(STRATEGIES)} are); write what it does: "
                    f'--algorithm "{MEAN}; server average" (sounder help algorithms), or --aggregator "python3 aggregator.py"')
    text, differs = STRATEGIES[names[0]]
    return text.format(s=strategy), differs


# The other way: by the name of an algorithm, the strategy, and of each number the preset here and its name there.
ADAPTIVE_NUMBERS = {"lr": ("0.1", "eta"), "beta1": ("0.9", "beta_1"), "beta2": ("0.99", "beta_2"),
                    "tau": ("0.001", "tau"), "start": ("0", None)}
EQUALS = {
    "fedavg": ("FedAvg", {}), "fedprox": ("FedProx", {"mu": ("0.01", "proximal_mu")}),
    "fedavgm": ("FedAvgM", {"beta": ("0.9", "server_momentum"), "lr": ("1", "server_learning_rate")}),
    "fedadam": ("FedAdam", {**ADAPTIVE_NUMBERS, "bias-correction": ("flower", None)}),
    "fedyogi": ("FedYogi", {**ADAPTIVE_NUMBERS, "lr": ("0.01", "eta")}),
    "median": ("FedMedian", {}), "trimmed": ("FedTrimmedAvg", {"share": ("0.2", "beta")}),
    "krum": ("Krum", {"byzantine": ("1", "num_malicious_nodes")}),
    "bulyan": ("Bulyan", {"byzantine": ("1", "num_malicious_nodes")}),
}
# Numbers that differ from Flower's way unless they are given.
GIVEN = {"start", "bias-correction"}


def strategy_of(algorithm):
    """(the strategy's name, {argument: text}) of --algorithm; an Error for another than those of EQUALS."""
    name, *words = algorithm.split()
    given = dict(word.partition("=")[::2] for word in words)
    strategy, numbers = EQUALS.get(name, (None, {}))
    if strategy is None or ";" in algorithm or set(given) - set(numbers):
        raise Error(f'--algorithm "{algorithm}" is no strategy of Flower\'s; there are {", ".join(EQUALS)}, with their '
                    "numbers: export a run with one of them")
    for number, (preset, _) in numbers.items():
        if number in GIVEN and given.get(number) != preset:
            raise Error(f'--algorithm "{algorithm}" begins otherwise than Flower\'s {strategy}; train with '
                        f'"{algorithm} {number}={preset}"')
    return strategy, {argument: given.get(number, preset) for number, (preset, argument) in numbers.items() if argument}
