"""The streams of a noise key (fedavg/rules/noise_key.h) once more, by FIPS 197 and Box and Muller, in NumPy: what a key gives to
those who have it, and what papers.py adds to its steps."""
import numpy as np

from runs import NOISE_KEY


def _sbox():
    table, p, q = [0x63] * 256, 1, 1
    while True:
        p ^= (p << 1 ^ (0x11B if p & 0x80 else 0)) & 0xFF
        for shift in (1, 2, 4):
            q = (q ^ q << shift) & 0xFF
        q ^= 0x09 if q & 0x80 else 0
        turn = lambda n: (q << n | q >> 8 - n) & 0xFF
        table[p] = q ^ turn(1) ^ turn(2) ^ turn(3) ^ turn(4) ^ 0x63
        if p == 1:
            return np.array(table, np.uint8)


SBOX = _sbox()
DOUBLED = np.array([(2 * i ^ (0x1B if i & 0x80 else 0)) & 0xFF for i in range(256)], np.uint8)
ROWS = [4 * ((column + row) % 4) + row for column in range(4) for row in range(4)]  # ShiftRows


def _round_keys(key):
    words = [np.frombuffer(key[i:i + 4], np.uint8) for i in range(0, 32, 4)]
    factor = 1
    for i in range(8, 60):
        word = words[i - 1]
        if i % 8 == 0:
            word = SBOX[np.roll(word, -1)] ^ np.array([factor, 0, 0, 0], np.uint8)
            factor = int(DOUBLED[factor])
        elif i % 8 == 4:
            word = SBOX[word]
        words.append(words[i - 8] ^ word)
    return np.concatenate(words).reshape(15, 16)


def aes256(key, blocks):
    """blocks (n, 16) of uint8, each encrypted."""
    keys = _round_keys(key)
    state = blocks ^ keys[0]
    for i in range(1, 15):
        state = SBOX[state][:, ROWS]
        if i < 14:
            columns = state.reshape(-1, 4, 4)
            after, whole = np.roll(columns, -1, 2), np.bitwise_xor.reduce(columns, 2, keepdims=True)
            state = (columns ^ whole ^ DOUBLED[columns ^ after]).reshape(-1, 16)
        state = state ^ keys[i]
    return state


def _counters(*pairs):
    return np.array([np.frombuffer(high.to_bytes(8, "big") + low.to_bytes(8, "big"), np.uint8) for high, low in pairs])


def words(purpose, a, b, c, count, key=NOISE_KEY):
    """(count, 4) of uint32: the first blocks of a stream."""
    # The key is read as words of 64 bits, whose lowest byte is first in memory.
    of_run = b"".join(int(key[i:i + 16], 16).to_bytes(8, "little") for i in range(0, 64, 16))
    high, low = purpose << 32 | a, b << 32 | c
    own = aes256(of_run, _counters((high, low), (high | 1 << 63, low))).tobytes()
    return np.ascontiguousarray(aes256(own, _counters(*[(0, i) for i in range(count)]))).view("<u4")


def normals(purpose, a, b, c, count, key=NOISE_KEY):
    """The first numbers of a stream, two from a block."""
    w = words(purpose, a, b, c, (count + 1) // 2, key).astype(np.uint64)
    unit = lambda high, low: ((high << np.uint64(20) | low >> np.uint64(12)).astype(float) + 0.5) * 2.0 ** -52
    radius, turn = np.sqrt(-2 * np.log(unit(w[:, 0], w[:, 1]))), 2 * np.pi * unit(w[:, 2], w[:, 3])
    return np.stack([radius * np.cos(turn), radius * np.sin(turn)], 1).ravel()[:count]
