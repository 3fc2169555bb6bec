// Part of help.h: `sounder help lessons`: the course of small C programs, read from their files.
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "app/help/help.h"
#include "app/options/option_table.h"
#include "base/module.h"

// Where it is installed, and in the build folder, from the program's.
static const char *const folders[] = {"/../share/doc/sounder/lessons", "/../tools/lessons"};

static int is_lesson(const struct dirent *entry) {
    const char *end = strrchr(entry->d_name, '.');
    return end && strcmp(end, ".c") == 0;
}

// A lesson's first line is "// Lesson 5. Lost counts." or "// Lesson 20. Isend and irecv: begin now, wait later."
static void print_title(FILE *file, const char *folder, const char *name) {
    char path[PATH_MAX], line[160] = "";
    int title = 0;
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return;
    FILE *lesson = fopen(path, "r");
    if (!lesson) return;
    if (fgets(line, sizeof line, lesson) && sscanf(line, "// Lesson %*d. %n", &title) == 0 && title > 0)
        fprintf(file, "  %-25s %.*s\n", name, (int)strcspn(line + title, ":."), line + title);
    fclose(lesson);
}

void help_print_lessons(FILE *file) {
    char folder[PATH_MAX], real[PATH_MAX];
    struct dirent **entries = NULL;
    int count = -1;
    for (size_t i = 0; i < sizeof folders / sizeof *folders && count <= 0; i++) {
        beside_program(folder, folders[i], "");
        if (realpath(folder, real)) count = scandir(real, &entries, is_lesson, alphasort);
    }
    if (count <= 0) {
        print_paragraph(file, 0, "The lessons are in tools/lessons of Sounder's source; they are not installed here.");
        return;
    }
    print_paragraph(file, 0,
                    "A course in six days: processes that share memory, from fork to a trainer that survives kill -9 "
                    "with the same bits. README.md has the days; each lesson's header says how to build and run it, "
                    "what it prints, and what to change. Begin with:");
    fprintf(file, "\n  cp -r %s . && cd lessons\n  cc -O2 -o lesson 01_ranks.c && ./lesson\n\n", real);
    for (int i = 0; i < count; i++) {
        print_title(file, real, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
}
