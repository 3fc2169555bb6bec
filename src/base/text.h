// Texts that users write (names of runs, data sets, columns), for outputs that require UTF-8 or a shell's quotes.
//
//   char name[64];
//   text_cut(name, sizeof name, path);              // ends before the letter that no longer fits
//   char word[SHELL_WORD_BYTES];
//   printf("sounder eval %s\n", shell_path(word, path));
//
// All texts end with '\0'; `to` and `word` belong to the caller and must not overlap the source.
#ifndef SOUNDER_BASE_TEXT_H
#define SOUNDER_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

// Length in bytes of the UTF-8 letter at `text`: 1 to 4; 0 at the end of the text and if the bytes are not UTF-8 (an
// overlong form, half of a surrogate pair, above U+10FFFF).
size_t text_letter(const char *text);

// Says whether a terminal or a JSON text cannot show this letter (letter: its text_letter), or would obey it: a control
// character (C1 controls in UTF-8 included), a sign that turns text around or hides in it (U+202E), or a byte that is
// not UTF-8.
bool text_is_raw(const char *text, size_t letter);

// Copies as many whole letters as fit into `bytes` bytes, '\0' included. A byte that is not UTF-8 counts as a letter
// and is copied. Returns `to`.
char *text_cut(char *to, size_t bytes, const char *text);

// As text_cut, but with U+FFFD for each byte that is not UTF-8, for JSON and XML. 3 * strlen + 1 bytes hold any text.
char *text_utf8(char *to, size_t bytes, const char *text);

// Counts the characters of UTF-8: the columns of a terminal that the text takes, but for wide and combining ones.
size_t text_width(const char *text);

// Appends to a text (printf style) what fits into its `bytes` bytes, '\0' included.
void text_add(char *text, size_t bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));

// Appends a name of name_bytes bytes to a comma-separated list in a sentence, if name and comma fit.
void text_list(char *list, size_t bytes, const char *name, size_t name_bytes);

// Reads a whole number; -1 if the text does not begin with a digit; the greatest long in place of a greater number.
// Returns the text after it.
const char *text_whole(long *number, const char *text);

// Splits "host:port"; an IPv6 address is within brackets, which are left out: "[::1]:29500". *port is set to the place
// of the port in `address`, or to NULL without one. Returns false if the host is missing or does not fit.
bool text_split_address(char *host, size_t bytes, const char **port, const char *address);

// Whether a spreadsheet would evaluate a cell with this text: it begins like a formula, and is no number.
bool text_is_formula(const char *text);

// Room for any path of 4095 bytes as a word of a shell: at most \ooo for each byte.
enum { SHELL_WORD_BYTES = 4 * 4096 + 8 };

// Writes `text` as one word of a command that a user may paste into a shell: unchanged if it has no special characters,
// otherwise in single quotes, and with control characters or bad UTF-8 as $'...' (bash, zsh, ksh). The result is UTF-8
// without control characters. Text that does not fit is cut and its quotes are closed. Returns `word`.
char *shell_word(char word[SHELL_WORD_BYTES], const char *text);

// As shell_word, for a path: "./" is put before a leading '-', so that no command reads the path as an option.
char *shell_path(char word[SHELL_WORD_BYTES], const char *path);

#endif
