// Part of help.h: shows help that is longer than the screen.
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/help/help.h"
#include "app/options/option_table.h"
#include "base/text_stream.h"

// Whether stdout is a terminal on which a pager can work, with fewer lines than the text.
static bool is_too_long(const char *text) {
    struct winsize size;
    const char *term = getenv("TERM");
    if (!term || !*term || strcmp(term, "dumb") == 0) return false;
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) return false;
    int lines = 0;
    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    return lines >= size.ws_row;
}

static const char *wanted_pager(void) {
    static const char *const names[] = {"SOUNDER_PAGER", "PAGER"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i])) return getenv(names[i]);
    return "less";
}

static void do_nothing(int signal_number) {
    (void)signal_number;
}

// Returns whether the pager could be started. A user who quits it early closes the pipe, and Ctrl-C is for the pager
// alone: a handler that does nothing is, unlike SIG_IGN, not inherited by the pager.
static bool show_in(const char *pager, const char *text) {
    struct sigaction before[2], nothing = {.sa_handler = do_nothing};
    setenv("LESS", "FRX", false);
    fflush(stdout);
    sigaction(SIGPIPE, &nothing, &before[0]);
    sigaction(SIGINT, &nothing, &before[1]);
    FILE *pipe = popen(pager, "we");
    if (pipe) fputs(text, pipe);
    const int status = pipe ? pclose(pipe) : -1;
    sigaction(SIGPIPE, &before[0], NULL);
    sigaction(SIGINT, &before[1], NULL);
    // exit codes of the shell for a program that it cannot start
    return pipe && !(WIFEXITED(status) && WEXITSTATUS(status) >= 126);
}

void pager_show(const char *text) {
    const char *pager = wanted_pager();
    const bool pages = *pager && strcmp(pager, "cat") != 0 && is_too_long(text);
    if (!pages || !show_in(pager, text)) fputs(text, stdout);
}

char *pager_fold(const char *text, bool folds) {
    const int columns = columns_of(stdout), more = 8;
    TextStream stream;
    FILE *file = text_open(&stream);
    for (int indent = 0; *text && file;) {
        const int length = (int)strcspn(text, "\n"), room = columns - indent;
        int shown = length;
        if (folds && length > room)
            while (shown > 1 && (shown > room || text[shown] != ' '))
                shown--;
        if (shown <= 1) shown = length; // the line has no blank
        fprintf(file, "%*s%.*s\n", indent, "", shown, text);
        text += shown + (text[shown] != '\0');
        indent = shown < length ? more : 0;
    }
    return text_close(&stream) ? stream.text : NULL;
}
