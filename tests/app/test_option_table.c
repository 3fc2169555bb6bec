// The table of options: sound by itself, and whole in all that is made of it.
#include "app/options/option_table.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "app/options/options.h"
#include "tests/check.h"

// Whether the text has the name, and not only a longer one that begins like it.
static bool has_name(const char *text, const char *name) {
    const size_t length = strlen(name);
    for (const char *at = text; (at = strstr(at, name)); at += length)
        if (strncmp(at + length, "\\-", 2) != 0 && at[length] != '-' && !isalnum((unsigned char)at[length]))
            return true;
    return false;
}

static void every_option_is_in_help_and_man_page(void **state) {
    (void)state;
    void (*const printers[])(FILE *) = {options_print_help, options_print_man};
    for (size_t p = 0; p < sizeof printers / sizeof *printers; p++) {
        char *text = NULL;
        size_t length = 0;
        FILE *file = open_memstream(&text, &length);
        assert_non_null(file);
        printers[p](file);
        fclose(file);
        for (int i = 0; i < option_count; i++) {
            char name[64], *out = name;
            out += sprintf(out, "%s", printers[p] == options_print_man ? "\\-\\-" : "--");
            for (const char *c = option_table[i].name; *c; c++) {
                if (*c == '-' && printers[p] == options_print_man) *out++ = '\\';
                *out++ = *c;
            }
            *out = '\0';
            bool is_expected = !option_table[i].not_train || printers[p] != options_print_help; // that of train
            if (has_name(text, name) != is_expected) fail_msg("%s is %s", name, is_expected ? "missing" : "there");
        }
        for (const char *line = text; printers[p] == options_print_help && *line; line += strcspn(line, "\n") + 1)
            assert_in_range(strcspn(line, "\n"), 0, 80);
        free(text);
    }
}

static void an_options_entry_in_the_man_page_is_whole(void **state) {
    (void)state;
    const Option options[] = {
        {.name = "batch-size",
         .placeholder = "N",
         .help = "samples \\ step",
         .preset = "32",
         .minimum = 1,
         .maximum = 64,
         .type = OPTION_WHOLE,
         .letter = 'b'},
        {.name = "quiet", .help = "prints nothing", .derived = "no", .type = OPTION_FLAG},
    };
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    assert_non_null(file);
    for (int i = 0; i < 2; i++)
        option_print_man(file, &options[i]);
    fclose(file);
    assert_string_equal(text, ".TP\n\\fB\\-b\\fR, \\fB\\-\\-batch\\-size\\fR \\fIN\\fR\n"
                              "samples \\e step (from 1 to 64). Default: 32.\n"
                              ".TP\n\\fB\\-\\-quiet\\fR\nprints nothing. Default: no.\n");
    free(text);
}

static void the_table_is_sound(void **state) {
    (void)state;
    for (int i = 0; i < option_count; i++) {
        const Option *option = &option_table[i];
        assert_ptr_equal(option_find(option->name), option);
        assert_true(!option->preset != !option->derived);
        assert_int_equal(!option->applies, !option->condition);
        assert_true(option->type == OPTION_FLAG || option->placeholder);
        // A default must be a value that a user may give.
        Options options;
        Error err;
        if (option->preset) check_ok(option_set(&options, option, option->preset, "", &err));
    }
    assert_null(option_find("no-such-option"));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_is_in_help_and_man_page),
        cmocka_unit_test(an_options_entry_in_the_man_page_is_whole),
        cmocka_unit_test(the_table_is_sound),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
