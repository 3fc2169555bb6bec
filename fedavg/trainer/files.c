#include "files.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fedavg/memory/fingerprint.h"
#include "fedavg/trainer/process.h"

enum { BLOCK_BYTES = 1 << 16 };

// Adds a regular file's name and contents. Returns false for anything else.
static bool add_file(uint64_t *hash, int folder, const char *path) {
    uint8_t block[BLOCK_BYTES];
    struct stat about;
    const int fd = openat(folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    FILE *file = fd >= 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode) ? fdopen(fd, "r") : NULL;
    if (!file) {
        if (fd >= 0) close(fd);
        return false;
    }
    // The name without its folder: a run that is repeated elsewhere, or by another user, has the number that it had.
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    *hash = XXH3_64bits_withSeed(name, strlen(name), *hash);
    for (size_t bytes; (bytes = fread(block, 1, sizeof block, file)) > 0;)
        *hash = XXH3_64bits_withSeed(block, bytes, *hash);
    fclose(file);
    return true;
}

// A package such as Python's tells the program and the modules that it imports from its folder. Words of the command
// that name files belong to the trainer, too, as a script around it or a file of settings. The first word, which may be
// an interpreter, only belongs to it if no other file is known.
Status trainer_hash_files(uint64_t *hash, const TrainerPlan *plan, const json_t *told, Error *err) {
    // Paths are those of the folder in which the run was started, as the command's are; a resumed run may be started
    // elsewhere.
    wordexp_t words;
    const json_t *path;
    size_t i, found = json_array_size(told);
    *hash = 0;
    TRY(trainer_command_words(&words, plan, err));
    const int folder = plan->folder[0] ? open(plan->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : AT_FDCWD;
    Status status =
        folder == -1 ? fail_errno(err, STATUS_NOINPUT, "%s: its folder %s", plan->option, plan->folder) : STATUS_OK;
    json_array_foreach(told, i, path) {
        const char *text = json_string_value(path);
        if (status == STATUS_OK && (!text || !add_file(hash, folder, text)))
            status = fail(err, STATUS_DATA, "it names %.200s as a file of its own, which cannot be read",
                          text ? text : "something");
    }
    for (i = 1; i < words.we_wordc && status == STATUS_OK; i++)
        found += add_file(hash, folder, words.we_wordv[i]);
    if (found == 0 && status == STATUS_OK && strchr(words.we_wordv[0], '/')) add_file(hash, folder, words.we_wordv[0]);
    wordfree(&words);
    if (folder >= 0) close(folder);
    return status;
}
