// Any experiment file: options that are accepted are written as a file that is read back to the same.
#include "fuzz.h"

#include "app/options/options.h"

static Status read_and_resolve(Options *options, const char *path, Error *err) {
    memset(options, 0, sizeof *options);
    options_defaults(options);
    options->nodes = 1;
    TRY(options_read_yaml(options, path, err));
    return options_resolve(options, err);
}

static char *written(const Options *options, size_t *bytes) {
    Error err = {.message = ""};
    char *text = NULL;
    FILE *file = open_memstream(&text, bytes);
    must(file && options_write_yaml(options, file, &err) == STATUS_OK);
    must(fclose(file) == 0);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes) {
    Options first, second;
    Error err = {.message = ""};
    write_file("input", input, bytes);
    if (refused_with_a_sentence(read_and_resolve(&first, "input", &err), &err) != STATUS_OK) return 0;
    size_t first_bytes, second_bytes;
    char *first_text = written(&first, &first_bytes);
    write_file("echo", first_text, first_bytes);
    if (read_and_resolve(&second, "echo", &err) != STATUS_OK) fprintf(stderr, "%s\n%s", err.message, first_text);
    must(err.message[0] == 0);
    char *second_text = written(&second, &second_bytes);
    must(first_bytes == second_bytes && memcmp(first_text, second_text, first_bytes) == 0);
    free(first_text);
    free(second_text);
    return 0;
}
