// Texts that users write (names of runs, data sets, columns), for sinks that demand UTF-8 or a shell's quotes.
//
//   char name[64];
//   text_cut(name, sizeof name, path);              // ends before the letter that no longer fits
//   char word[SHELL_WORD_BYTES];
//   printf("sounder eval %s\n", shell_path(word, path));
//
// All texts end with '\0'; `to` and `word` belong to the caller and must not overlap the source.
#ifndef SOUNDER_BASE_TEXT_H
#define SOUNDER_BASE_TEXT_H

#include <stddef.h>

// Length in bytes of the UTF-8 letter at `text`: 1 to 4; 0 at the end and where the bytes are not UTF-8 (too long a
// form, half of a surrogate pair, above U+10FFFF).
size_t text_letter(const char *text);

// Copies as many whole letters as fit into (bytes). A byte that is not UTF-8 counts as a letter and is kept.
// Returns `to`.
char *text_cut(char *to, size_t bytes, const char *text);

// The same, with U+FFFD for each byte that is not UTF-8: what JSON and XML accept. 3 * strlen + 1 bytes hold all.
char *text_utf8(char *to, size_t bytes, const char *text);

// Adds a name (name_bytes long) to a list of names between commas, for a sentence, if it and its comma fit whole.
void text_list(char *list, size_t bytes, const char *name, size_t name_bytes);

// Room for any path of 4095 bytes as a word of a shell: at worst \ooo for each byte.
enum { SHELL_WORD_BYTES = 4 * 4096 + 8 };

// Writes text as one word of a command that a person may paste into a shell: as it is where nothing in it is special,
// otherwise in single quotes, and with control characters or bad UTF-8 as $'...' (bash, zsh, ksh). The word itself is
// UTF-8 without control characters. Text that does not fit is cut, its quotes closed. Returns `word`.
char *shell_word(char word[SHELL_WORD_BYTES], const char *text);

// The same for a path: one that begins with '-' gets "./" in front, so that no command takes it for an option.
char *shell_path(char word[SHELL_WORD_BYTES], const char *path);

#endif
