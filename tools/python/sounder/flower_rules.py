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
