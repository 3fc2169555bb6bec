// Makes a file part of the program: EMBED(name, path) defines the text `name`, the file's bytes and a terminator. The
// path is a string literal. sounder_embed of src/app/CMakeLists.txt gives a source the folder of its files, and
// compiles it again when one of them changes.
#ifndef SOUNDER_BASE_EMBED_H
#define SOUNDER_BASE_EMBED_H

#define EMBED(name, path)                                                                                              \
    extern const char name[];                                                                                          \
    __asm__(".section .rodata\n.global " #name "\n" #name ":\n.incbin \"" path "\"\n.byte 0\n.previous\n")

#endif
