#include "datasets/formats/leaf_text.h"

#include <ctype.h>
#include <string.h>

#include "base/text.h"
#include "datasets/settings.h"

enum { USUAL_WORDS = 25, USUAL_CHARACTERS = 140, MOST_WORDS = 10000, MOST_CHARACTERS = 65534 };

void leaf_texts_begin(LeafTexts *texts, const Form *settings) {
    *texts = (LeafTexts){.by_words = settings_say(settings, SETTING_TOKENS, "words"),
                         .length = (uint32_t)settings->number[SETTING_LENGTH],
                         .most = (uint32_t)settings->number[SETTING_VOCABULARY],
                         .shortest = SIZE_MAX};
}

// Tokens --------------------------------------------------------------------------------------------------------------

typedef struct Token {
    const char *begin;
    size_t bytes; // 0: there is no more
} Token;

static bool is_word_byte(char byte) {
    return isalnum((unsigned char)byte) || (unsigned char)byte >= 0x80 || byte == '_' || byte == '\'';
}

// LEAF's words: runs of letters, digits, _ and '; and . , ! ? ; each by itself.
static Token next_word(const char *text) {
    while (*text && !is_word_byte(*text) && !strchr(".,!?;", *text))
        text++;
    Token token = {text, *text && !is_word_byte(*text)};
    while (is_word_byte(text[token.bytes]) && is_word_byte(*text))
        token.bytes++;
    return token;
}

static Token next_token(const LeafTexts *texts, const char *text) {
    if (texts->by_words) return next_word(text);
    return (Token){text, *text ? (text_letter(text) ? text_letter(text) : 1) : 0};
}

static size_t count_tokens(const LeafTexts *texts, const char *text) {
    size_t count = 0;
    for (Token token = next_token(texts, text); token.bytes; token = next_token(texts, token.begin + token.bytes))
        count++;
    return count;
}

// Words count in lower case.
static const char *as_counted(const LeafTexts *texts, char counted[VOCABULARY_TOKEN_BYTES], const Token *token) {
    if (!texts->by_words || token->bytes >= VOCABULARY_TOKEN_BYTES) return token->begin;
    for (size_t i = 0; i < token->bytes; i++)
        counted[i] = (char)tolower((unsigned char)token->begin[i]);
    return counted;
}

Status leaf_texts_learn(LeafTexts *texts, const char *text, Error *err) {
    char counted[VOCABULARY_TOKEN_BYTES];
    size_t count = 0;
    for (Token token = next_token(texts, text); token.bytes; token = next_token(texts, token.begin + token.bytes)) {
        TRY(vocabulary_add(&texts->vocabulary, as_counted(texts, counted, &token), token.bytes, err));
        count++;
    }
    if (count < texts->shortest) texts->shortest = count;
    if (count > texts->longest) texts->longest = count;
    return STATUS_OK;
}

Status leaf_texts_learn_next(LeafTexts *texts, const char *next, Error *err) {
    texts->follows = true;
    return vocabulary_add(&texts->vocabulary, next, strlen(next), err);
}

// The form ------------------------------------------------------------------------------------------------------------

static Status settle_length(LeafTexts *texts, const char *path, Error *err) {
    const size_t usual = texts->by_words ? USUAL_WORDS : USUAL_CHARACTERS;
    if (texts->follows && texts->by_words)
        return fail(err, STATUS_DATA, "%s: y are characters that follow x; leave out tokens=words in --data", path);
    if (texts->follows && (texts->shortest < texts->length || texts->shortest == 0))
        return fail(err, STATUS_DATA,
                    "%s: a text x has %zu characters; where y are characters that follow, each x needs "
                    "at least the %u of length= in --data",
                    path, texts->shortest, texts->length ? texts->length : 1);
    const size_t all = texts->follows ? texts->shortest : texts->longest;
    if (texts->length == 0) texts->length = (uint32_t)(texts->follows || all < usual ? all : usual);
    if (texts->length == 0) texts->length = 1; // all texts are empty
    return STATUS_OK;
}

Status leaf_texts_settle(LeafTexts *texts, const DatasetModel *model, const char *path, Error *err) {
    TRY(settle_length(texts, path, err));
    const bool has_unknown = !texts->follows;
    const char *names = model && model->are_tokens ? model->feature_names : NULL;
    if (!names)
        return vocabulary_settle(&texts->vocabulary,
                                 texts->follows ? MOST_CHARACTERS
                                 : texts->most  ? texts->most
                                                : MOST_WORDS,
                                 has_unknown, err);
    TRY(vocabulary_settle_as(&texts->vocabulary, names, has_unknown, err));
    const Categories *tokens = &texts->vocabulary.tokens;
    UnknownTokens unknown = {0};
    for (size_t i = 0; i < tokens->room; i++)
        if (tokens->table[i].text && tokens->table[i].number == CATEGORY_NONE)
            unknown_tokens_add(&unknown, tokens->table[i].text, texts->vocabulary.counts[tokens->table[i].place]);
    texts->unknown = unknown.uses;
    return texts->follows ? unknown_tokens_refuse(&unknown, path, err) : STATUS_OK;
}

void leaf_texts_items(DatasetItems *items, const LeafTexts *texts) {
    items->pixel_bytes = texts->vocabulary.size <= 256 ? 1 : sizeof(float);
    items->vocabulary = texts->vocabulary.size;
    items->texts = (texts->by_words ? DATASET_TEXTS_OF_WORDS : 0) | (texts->follows ? 0 : DATASET_TEXTS_WITH_GAPS);
    vocabulary_note(items, texts->vocabulary.list, texts->follows);
}

// The last tokens before the character that follows, or the first of a text that has a class.
void leaf_texts_write(const LeafTexts *texts, void *to, const char *text) {
    const size_t count = count_tokens(texts, text), length = texts->length;
    const size_t skipped = texts->follows && count > length ? count - length : 0,
                 gaps = count < length ? length - count : 0;
    const bool are_bytes = texts->vocabulary.size <= 256;
    char counted[VOCABULARY_TOKEN_BYTES];
    size_t place = gaps, seen = 0;
    memset(to, 0, gaps * (are_bytes ? 1 : sizeof(float)));
    for (Token token = next_token(texts, text); place < length && token.bytes;
         token = next_token(texts, token.begin + token.bytes)) {
        if (seen++ < skipped) continue;
        const uint32_t number = vocabulary_number(&texts->vocabulary, as_counted(texts, counted, &token), token.bytes);
        if (are_bytes)
            ((uint8_t *)to)[place++] = (uint8_t)number;
        else
            ((float *)to)[place++] = (float)number;
    }
}

uint32_t leaf_texts_class(const LeafTexts *texts, const char *next) {
    return vocabulary_number(&texts->vocabulary, next, strlen(next));
}

void leaf_texts_free(LeafTexts *texts) {
    vocabulary_free(&texts->vocabulary);
}
