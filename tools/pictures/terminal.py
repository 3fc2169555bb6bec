"""Standard input as the picture of a terminal, an SVG on standard output: light text on dark, prompts in green."""
import sys
from xml.sax.saxutils import escape

LINE, LETTER, EDGE = 17, 7.8, 14

lines = [line.rstrip("\n") for line in sys.stdin]
width, height = LETTER * max(map(len, lines)) + 2 * EDGE, LINE * len(lines) + 2 * EDGE
print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}">')
print(f'<rect width="100%" height="100%" rx="8" fill="#1b1f24"/><g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" '
      'font-size="13" fill="#e6e6e6" xml:space="preserve">')
for number, line in enumerate(lines):
    colour = ' fill="#7ee787"' if line.startswith("$ ") else ""
    print(f'<text x="{EDGE}" y="{EDGE + LINE * number + 12}"{colour} textLength="{LETTER * len(line):.1f}">{escape(line).replace(" ", chr(160))}</text>'
          if line else "")
print("</g></svg>")
