#include "noise_key.h"

#include <nettle/aes.h>
#include <nettle/ctr.h>
#include <stdlib.h>
#include <string.h>

bool noise_key_read(NoiseKey *key, const char *hex) {
    enum { DIGITS = 16 }; // of a word
    const size_t words = sizeof key->word / sizeof *key->word;
    if (strlen(hex) != words * DIGITS || hex[strspn(hex, "0123456789abcdefABCDEF")] != '\0') return false;
    for (size_t i = 0; i < words; i++) {
        char word[DIGITS + 1] = "";
        memcpy(word, hex + i * DIGITS, DIGITS);
        key->word[i] = strtoull(word, NULL, 16);
    }
    return true;
}

// Encrypts the counters first, first + 1, ..., each a whole number of 128 bits, the lowest byte last.
static void encrypt(void *blocks, const uint8_t key[NOISE_KEY_BYTES], uint64_t high, uint64_t first, size_t count) {
    struct aes256_ctx cipher;
    uint8_t counter[AES_BLOCK_SIZE];
    for (int i = 0; i < 8; i++) {
        counter[i] = (uint8_t)(high >> (56 - 8 * i));
        counter[8 + i] = (uint8_t)(first >> (56 - 8 * i));
    }
    memset(blocks, 0, count * AES_BLOCK_SIZE);
    aes256_set_encrypt_key(&cipher, key);
    ctr_crypt(&cipher, (nettle_cipher_func *)aes256_encrypt, AES_BLOCK_SIZE, counter, count * AES_BLOCK_SIZE, blocks,
              blocks);
}

// Purposes are below 2^8, so that the two blocks of a stream's key are those of no other stream.
void noise_begin(NoiseStream *stream, const NoiseKey *key, RngPurpose purpose, uint32_t a, uint32_t b, uint32_t c) {
    const uint64_t high = (uint64_t)purpose << 32 | a, low = (uint64_t)b << 32 | c, second = 1ull << 63;
    uint8_t of_run[NOISE_KEY_BYTES];
    memcpy(of_run, key->word, sizeof of_run);
    encrypt(stream->key, of_run, high, low, 1);
    encrypt(stream->key + AES_BLOCK_SIZE, of_run, high | second, low, 1);
    stream->first = stream->pair = UINT64_MAX;
}

RngBlock noise_block(NoiseStream *stream, uint64_t index) {
    const uint64_t first = index / NOISE_BLOCKS * NOISE_BLOCKS;
    if (stream->first != first) encrypt(stream->blocks, stream->key, 0, first, NOISE_BLOCKS);
    stream->first = first;
    return stream->blocks[index - first];
}

double noise_normal(NoiseStream *stream, uint64_t index) {
    if (stream->pair != index / 2) {
        stream->pair = index / 2;
        const RngBlock block = noise_block(stream, stream->pair);
        const double radius = sqrt(-2.0 * log(rng_open_unit(block.word[0], block.word[1])));
        double sine, cosine;
        sincos(6.283185307179586 * rng_open_unit(block.word[2], block.word[3]), &sine, &cosine);
        stream->normals[0] = radius * cosine;
        stream->normals[1] = radius * sine;
    }
    return stream->normals[index % 2];
}

void draw_begin(DrawStream *stream, const NoiseKey *key, uint64_t seed, RngPurpose purpose, uint32_t a, uint32_t b,
                uint32_t c) {
    stream->is_secret = key != NULL;
    if (key)
        noise_begin(&stream->noise, key, purpose, a, b, c);
    else
        stream->key = rng_key(seed, purpose, a, b, c);
}

RngBlock draw_block(DrawStream *stream, uint32_t index) {
    return stream->is_secret ? noise_block(&stream->noise, index) : rng_block(stream->key, index, 0, 0, 0);
}
