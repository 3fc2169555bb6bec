"""The figures of a report, one table per kind of row, in Markdown: tools/gpu-check prints them as they come, tools/gpu-report makes pages of them."""
import collections

STEP = {"net": "{net}", "batch": "{batch}", "models": "{models}"}
SPEED = {"samples/s": "{samples_per_second:,.0f}"}
SHARES = {"of copy": "{of_copy_bandwidth:.1%}", "of peak": "{of_peak:.1%}"}
TABLES = {  # kind: title, columns
    "card": ("The GPU", {"GPU": "{name}", "copied bytes/s": "{copy_bytes_per_second:.3g}", "operations/s": "{peak_operations_per_second:.3g}"}),
    "cell": ("Steps of training", {**STEP, "TF32": "{tf32}", "momentum": "{momentum:g}", "kernels": "{kernels}",
                                   "us/step": "{microseconds_a_step:,.1f}", **SPEED, **SHARES}),
    "peer": ("Peers", {**STEP, "peer": "{peer}", **SPEED}),
    "beside": ("Beside the fastest peer", {**STEP, **SPEED, **SHARES, "peer, fp32": "{peer}", "its samples/s": "{theirs:,.0f}", "ratio": "{ratio:.2f}x",
                                            "peer, any precision": "{any_peer}", "samples/s of that": "{any_theirs:,.0f}", "ratio to that": "{any_ratio:.2f}x"}),
    "cost": ("Parts of a step", {**STEP, "part": "{part}", "us": "{microseconds:,.1f}", "bytes": "{bytes:,}", **SHARES}),
    "kernel": ("Kernels of a step", {**STEP, "kernel": "{name:.40}", "us": "{us:,.1f}", "MB": "{MB:,.1f}", "FMA": "{FMA %:.0f}%", "warps": "{warps %:.0f}%"}),
    "rounds": ("Whole rounds", {"net": "{model}", "workers": "{workers}", "models": "{models_per_launch}", "partition": "{partition}", "MPS": "{mps}", **SPEED}),
    "context": ("Memory of the GPU that a worker takes, MiB", {"all": "{worker_mib}", "context": "{context_mib}", "planned": "{planned_mib}"}),
}


def head(kind):
    columns = list(TABLES[kind][1])
    return f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"


def line(kind, row):
    return f"| {' | '.join(form.format_map(collections.defaultdict(float, row)) for form in TABLES[kind][1].values())} |"
