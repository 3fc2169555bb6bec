// Any command line, a word a line, of sounder train, eval or launch: the first byte chooses.
#include "fuzz.h"

#include "app/launch/launch_options.h"
#include "app/options/options.h"

enum { MOST_WORDS = 255 };

static Status parse_launch(int argc, char **argv, Error *err) {
    static LaunchOptions launch; // large
    TRY(launch_options_parse(&launch, argc, argv, err));
    if (launch.help) return STATUS_OK;
    TRY(launch_options_resolve(&launch, err));
    must(launch.ranks >= 1 && launch.ranks <= LAUNCH_MAX_RANKS && launch.program_count >= 1);
    return STATUS_OK;
}

static Status parse_train(int argc, char **argv, Error *err) {
    Options options;
    options_defaults(&options);
    options.nodes = 1;
    TRY(options_parse(&options, argc, argv, err));
    return options_resolve(&options, err);
}

static Status parse_eval(int argc, char **argv, Error *err) {
    Options options;
    const char *model;
    options_defaults(&options);
    return options_parse_eval(&options, &model, argc, argv, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes) {
    if (bytes < 1) return 0;
    char *text = text_of(input + 1, bytes - 1), *rest = text, *argv[MOST_WORDS + 1];
    int argc = 0;
    while (argc < MOST_WORDS && rest)
        argv[argc++] = strsep(&rest, "\n");
    argv[argc] = NULL;
    Error err = {.message = ""};
    Status (*const parsers[])(int, char **, Error *) = {parse_launch, parse_train, parse_eval};
    refused_with_a_sentence(parsers[input[0] % 3](argc, argv, &err), &err);
    free(text);
    return 0;
}
