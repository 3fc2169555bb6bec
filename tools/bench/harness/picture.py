"""The picture: how many times as good Sounder is as each peer, one bar a row and peer, on a logarithmic axis."""
import math
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, BAR, GAP, TOP, BOTTOM = 960, 390, 70, 14, 12, 64, 34
COLOURS = ("#2f6f9f", "#9fc3dd", "#c9cfd6")  # newest PyTorch, an older one, another
PTHREAD_COLOUR = "#8a6d3b"
STYLE = ("text{font-family:system-ui,sans-serif;font-size:13px;fill:#24292f}.small{font-size:11px;fill:#57606a}"
         ".title{font-size:16px;font-weight:600}")


def bars_of(rows):
    """(row, [(peer, ratio)]) for the rows with a PyTorch side; with pthreads for the barrier."""
    for row in rows:
        peers = [label for label in row.others if label.startswith(("PyTorch", "pthread"))]
        if peers:
            yield row, [(label, row.ratio_of_medians(label)) for label in peers]


def ticks(low, high):
    """1, 2, 5, 10, ... within the axis."""
    steps = [mantissa * 10.0**power for power in range(-3, 7) for mantissa in (1, 2, 5)]
    return [step for step in steps if low <= step <= high]


def draw(rows, facts):
    """SVG text, or None when no row has a peer."""
    groups = list(bars_of(rows))
    if not groups:
        return None
    ratios = [ratio for _, bars in groups for _, ratio in bars]
    low, high = min(0.5, min(ratios) / 1.2), max(20, max(ratios) * 1.2)
    height = TOP + sum(len(bars) * BAR + GAP for _, bars in groups) + BOTTOM
    colours = choose_colours(groups)

    def x(ratio):
        share = math.log(ratio / low) / math.log(high / low)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
           f"<style>{STYLE}</style>", f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
           '<text class="title" x="16" y="26">Sounder beside its peers: times as good, on one machine</text>',
           f'<text class="small" x="16" y="44">{escape(facts["cpu"])}, {facts["cores"]} cores, {facts["date"][:10]}'
           "</text>"]
    svg += legend(colours)
    for tick in ticks(low, high):
        colour = "#57606a" if tick == 1 else "#e3e7eb"
        svg.append(f'<line x1="{x(tick)}" x2="{x(tick)}" y1="{TOP - 6}" y2="{height - BOTTOM}" stroke="{colour}"/>')
        svg.append(f'<text class="small" x="{x(tick)}" y="{height - BOTTOM + 16}" text-anchor="middle">{tick:g}x'
                   "</text>")
    y = TOP
    for row, bars in groups:
        middle = y + len(bars) * BAR / 2 + 4
        svg.append(f'<text x="{LEFT - 12}" y="{middle}" text-anchor="end">{escape(row.title)}</text>')
        for label, ratio in bars:
            start, end = sorted((x(1), x(ratio)))
            svg.append(f'<rect x="{start}" y="{y}" width="{max(end - start, 1):.1f}" height="{BAR - 2}" '
                       f'fill="{colours[label]}"><title>{escape(label)}</title></rect>')
            svg.append(f'<text class="small" x="{end + 5}" y="{y + BAR - 4}">{ratio:.3g}x</text>')
            y += BAR
        y += GAP
    return "\n".join(svg + ["</svg>", ""])


def choose_colours(groups):
    """Peer -> colour, in the order in which peers appear."""
    labels = dict.fromkeys(label for _, bars in groups for label, _ in bars)
    torches = [label for label in labels if label.startswith("PyTorch")]
    return {label: COLOURS[torches.index(label) % len(COLOURS)] if label in torches else PTHREAD_COLOUR
            for label in labels}


def legend(colours):
    x = WIDTH - 16 - 160 * len(colours)
    for label, colour in colours.items():
        yield f'<rect x="{x}" y="34" width="12" height="12" fill="{colour}"/>'
        yield f'<text class="small" x="{x + 17}" y="44">{escape(label)}</text>'
        x += 160
