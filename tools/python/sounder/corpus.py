"""A corpus that every machine has: python3 -m sounder.corpus OUT.npz [LENGTH [VOCABULARY]] writes modules of
Python's own library as rows of tokens, a client per module, by byte pairs that are learned from them."""
import sys

from . import BPE, Error, library_texts, write_tokens

if __name__ == "__main__":
    try:
        path, length, vocabulary = [*sys.argv[1:4], *["corpus.npz", "64", "512"][len(sys.argv) - 1 :]]
        texts = library_texts()
        print(write_tokens(path, texts, BPE.learn(texts.values(), int(vocabulary)), int(length)))
    except (Error, ValueError) as problem:
        sys.exit(f"{problem}\nusage: python3 -m sounder.corpus OUT.npz [LENGTH [VOCABULARY]]")
