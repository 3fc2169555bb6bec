#include "text.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The number of a letter of 1 to 4 bytes in Unicode.
static uint32_t code_of(const char *text, size_t letter) {
    const unsigned char *bytes = (const unsigned char *)text;
    uint32_t code = letter == 1 ? bytes[0] : bytes[0] & (0x7fu >> letter);
    for (size_t i = 1; i < letter; i++)
        code = code << 6 | (bytes[i] & 0x3f);
    return code;
}

size_t text_letter(const char *text) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *bytes = (const unsigned char *)text, first = bytes[0];
    if (first < 0x80) return first != 0;
    const size_t length = first >= 0xf0 && first < 0xf8 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first >= 0xf8) return 0;
    for (size_t i = 1; i < length; i++)
        if ((bytes[i] & 0xc0) != 0x80) return 0; // also refuses '\0'
    const uint32_t letter = code_of(text, length);
    const bool is_letter = letter >= least[length] && letter <= 0x10ffff && !(letter >= 0xd800 && letter <= 0xdfff);
    return is_letter ? length : 0;
}

bool text_is_raw(const char *text, size_t letter) {
    // Controls of C0 and C1; then signs of Unicode that a terminal shows as nothing, and which turn the text after them
    // around, end its line, or hide in it. The joiners U+200C and U+200D are not among them, since words need them.
    static const uint32_t ranges[][2] = {{0, 0x1f},        {0x7f, 0x9f},     {0x61c, 0x61c},    {0x180e, 0x180e},
                                         {0x200b, 0x200b}, {0x200e, 0x200f}, {0x2028, 0x202e},  {0x2060, 0x206f},
                                         {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f}};
    const uint32_t code = code_of(text, letter);
    bool is_raw = letter == 0;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges && !is_raw; i++)
        is_raw = code >= ranges[i][0] && code <= ranges[i][1];
    return is_raw;
}

// replacement: written for each byte that is not UTF-8; NULL copies the byte.
static char *copy_letters(char *to, size_t bytes, const char *text, const char *replacement) {
    size_t used = 0;
    while (*text) {
        const size_t letter = text_letter(text), length = letter ? letter : 1;
        const char *from = letter || !replacement ? text : replacement;
        const size_t room = from == text ? length : strlen(from);
        if (used + room >= bytes) break;
        memcpy(to + used, from, room);
        used += room;
        text += length;
    }
    if (bytes > 0) to[used] = '\0';
    return to;
}

char *text_cut(char *to, size_t bytes, const char *text) {
    return copy_letters(to, bytes, text, NULL);
}

char *text_utf8(char *to, size_t bytes, const char *text) {
    return copy_letters(to, bytes, text, "\xef\xbf\xbd");
}

size_t text_width(const char *text) {
    size_t width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80; // bytes that begin a character
    return width;
}

void text_add(char *text, size_t bytes, const char *format, ...) {
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, bytes - used, format, arguments);
    va_end(arguments);
}

void text_list(char *list, size_t bytes, const char *name, size_t name_bytes) {
    const size_t used = strlen(list), comma = used > 0 ? 2 : 0;
    if (used + comma + name_bytes >= bytes) return;
    memcpy(list + used, ", ", comma);
    memcpy(list + used + comma, name, name_bytes);
    list[used + comma + name_bytes] = '\0';
}

const char *text_whole(long *number, const char *text) {
    char *end = NULL;
    *number = *text >= '0' && *text <= '9' ? strtol(text, &end, 10) : -1;
    return end ? end : text;
}

bool text_split_address(char *host, size_t bytes, const char **port, const char *address) {
    const char *bracket = *address == '[' ? strchr(address, ']') : NULL;
    const char *colon = strrchr(bracket ? bracket : address, ':'), *end = colon ? colon : address + strlen(address);
    *port = colon ? colon + 1 : NULL;
    if (bracket && bracket + 1 == end) address++, end--;
    const size_t length = (size_t)(end - address);
    if (length == 0 || length >= bytes) return false;
    memcpy(host, address, length);
    host[length] = '\0';
    return true;
}

// Words of a shell ----------------------------------------------------------------------------------------------------

static bool has_raw(const char *text) {
    for (size_t letter; *text; text += letter) {
        letter = text_letter(text);
        if (text_is_raw(text, letter)) return true;
    }
    return false;
}

enum { QUOTED_BYTES = 4 * 4 + 1 }; // \ooo for each byte of a letter

// Writes one letter as it is quoted; octal: within $'...'. Returns the number of bytes it has read from `text`.
static size_t quote_letter(char quoted[QUOTED_BYTES], const char *text, bool octal) {
    const size_t letter = text_letter(text), length = letter ? letter : 1;
    if (octal && text_is_raw(text, letter)) {
        for (size_t i = 0; i < length; i++)
            snprintf(quoted + 4 * i, 5, "\\%03o", (unsigned char)text[i]);
    } else if (*text == '\'') {
        strcpy(quoted, octal ? "\\'" : "'\\''");
    } else {
        snprintf(quoted, QUOTED_BYTES, "%s%.*s", octal && *text == '\\' ? "\\" : "", (int)length, text);
    }
    return length;
}

static void quote(char *word, size_t bytes, const char *text) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/=,+-";
    if (*text && !text[strspn(text, plain)]) {
        text_cut(word, bytes, text);
        return;
    }
    const bool octal = has_raw(text);
    size_t used = (size_t)snprintf(word, bytes, octal ? "$'" : "'");
    while (*text) {
        char quoted[QUOTED_BYTES];
        const size_t length = quote_letter(quoted, text, octal), room = strlen(quoted);
        if (used + room + 2 > bytes) break;
        memcpy(word + used, quoted, room);
        used += room;
        text += length;
    }
    strcpy(word + used, "'");
}

char *shell_word(char word[SHELL_WORD_BYTES], const char *text) {
    quote(word, SHELL_WORD_BYTES, text);
    return word;
}

char *shell_path(char word[SHELL_WORD_BYTES], const char *path) {
    const size_t begun = *path == '-' ? (size_t)snprintf(word, SHELL_WORD_BYTES, "./") : 0;
    quote(word + begun, SHELL_WORD_BYTES - begun, path);
    return word;
}

bool text_is_formula(const char *text) {
    char *end;
    strtod(text, &end);
    return *text && strchr("=+-@", *text) && *end;
}
