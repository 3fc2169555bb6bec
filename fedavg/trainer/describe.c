#include "describe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "fedavg/trainer/lines.h"
#include "io/safetensors.h"

// Everything that a program tells is checked here, once, before any memory is planned with it: later code trusts names,
// shapes and counts as it trusts those of the engine's nets.
static Status read_shape(ParameterTensor *tensor, const json_t *shape, Error *err) {
    if (!json_is_array(shape))
        return fail(err, STATUS_DATA, "%s has no shape; give a list of its sides, [] for one number", tensor->name);
    tensor->rank = (int)json_array_size(shape);
    tensor->count = 1;
    if (tensor->rank > TENSOR_MOST_DIMENSIONS)
        return fail(err, STATUS_DATA, "%s has %d dimensions; there may be %d", tensor->name, tensor->rank,
                    TENSOR_MOST_DIMENSIONS);
    for (int d = 0; d < tensor->rank; d++) {
        const json_t *number = json_array_get(shape, (size_t)d);
        const json_int_t side = json_integer_value(number);
        if (!json_is_integer(number) || side < 1 || (uint64_t)side > INT32_MAX / tensor->count)
            return fail(err, STATUS_DATA,
                        "%s has a side of %.12g; a side is a whole number from 1, their product at most %d",
                        tensor->name, json_number_value(number), INT32_MAX);
        tensor->shape[d] = side;
        tensor->count *= (size_t)side;
    }
    return STATUS_OK;
}

static Status read_tensors(TrainerNet *net, const json_t *told, Error *err) {
    const size_t count = json_array_size(told);
    if (count == 0 || count > TENSORS_MOST)
        return fail(err, STATUS_DATA, "it has %zu tensors; a net may have 1 to %d", count, TENSORS_MOST);
    net->tensors = calloc(count, sizeof *net->tensors);
    if (!net->tensors) return fail(err, STATUS_OS, "no memory for %zu tensors", count);
    for (net->count = 0; (size_t)net->count < count; net->count++) {
        const json_t *one = json_array_get(told, (size_t)net->count);
        const char *name = json_string_value(json_array_get(one, 0));
        ParameterTensor *tensor = &net->tensors[net->count];
        if (!name || !*name || strlen(name) >= TENSOR_NAME_BYTES)
            return fail(err, STATUS_DATA, "tensor %d has no name of 1 to %d bytes", net->count, TENSOR_NAME_BYTES - 1);
        if (strcmp(name, SAFETENSORS_NOTES) == 0)
            return fail(err, STATUS_DATA, "a tensor cannot be named %s: files of weights have their notes there", name);
        memcpy(tensor->name, name, strlen(name) + 1);
        TRY(read_shape(tensor, json_array_get(one, 1), err));
        tensor->first = net->parameters;
        net->parameters += tensor->count;
        // A name is how personal tensors, --freeze and the model's file find their tensor: two of one name could not be
        // told apart. The search is quadratic, and takes milliseconds for the most tensors that a net may have.
        for (int t = 0; t < net->count; t++)
            if (strcmp(net->tensors[t].name, name) == 0) return fail(err, STATUS_DATA, "it has two tensors %s", name);
    }
    return STATUS_OK;
}

// Numbers of tensors. Server rules treat them as statistics of the engine's nets: a variance may not become negative
// (tensors_floor_variances).
static Status read_statistics(TrainerNet *net, const json_t *told, const char *key, Error *err) {
    const json_t *numbers = json_object_get(told, key), *number;
    size_t i;
    if (numbers && !json_is_null(numbers) && !json_is_array(numbers))
        return fail(err, STATUS_DATA, "it answered %s as something that is no list of tensors' numbers", key);
    json_array_foreach(numbers, i, number) {
        const json_int_t place = json_is_integer(number) ? json_integer_value(number) : -1;
        if (place < 0 || place >= net->count)
            return fail(err, STATUS_DATA, "it answered %s with a number that is none of its %d tensors from 0", key,
                        net->count);
        net->tensors[place].follows = true;
        if (strcmp(key, "variances") == 0) net->tensors[place].start = 1;
    }
    return STATUS_OK;
}

// The values are in the desk's file and not in the line, since a line has at most a MiB. They are read by calls: the
// file is the program's to shorten, and a mapping of what has been taken away would kill the parent by SIGBUS.
static Status read_values(TrainerNet *net, int fd, Error *err) {
    const size_t bytes = net->parameters * sizeof *net->values;
    struct stat desk;
    if (fstat(fd, &desk) != 0) return fail_errno(err, STATUS_OS, "the initial values");
    if ((size_t)desk.st_size != bytes)
        return fail(err, STATUS_DATA, "it gave %lld bytes of initial values; its tensors have %zu",
                    (long long)desk.st_size, bytes);
    net->values = malloc(bytes);
    if (!net->values) return fail(err, STATUS_OS, "no memory for %zu parameters", net->parameters);
    size_t done = 0;
    for (ssize_t part; done < bytes && (part = pread(fd, (char *)net->values + done, bytes - done, (off_t)done)) > 0;)
        done += (size_t)part;
    if (done < bytes) return fail(err, STATUS_DATA, "it took initial values away while they were read");
    for (int t = 0; t < net->count; t++)
        for (size_t i = 0; i < net->tensors[t].count; i++)
            if (!isfinite(net->values[net->tensors[t].first + i]))
                return fail(err, STATUS_DATA, "the initial values of %s are not all finite", net->tensors[t].name);
    return STATUS_OK;
}

// A value of another kind would count as 0 without a word: clients would keep no state, as an example.
static Status check_kinds(const json_t *told, Error *err) {
    static const char *const flags[] = {"views", "whole_test", "still"};
    const json_t *state = json_object_get(told, "state");
    if (state && !json_is_null(state) && !json_is_integer(state))
        return fail(err, STATUS_DATA,
                    "it keeps a state that is no whole number; answer \"state\" with a number of floats");
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        const json_t *flag = json_object_get(told, flags[i]);
        if (flag && !json_is_null(flag) && !json_is_boolean(flag) && !json_is_integer(flag))
            return fail(err, STATUS_DATA, "it answered %s as something that is neither true nor false; answer 1 or 0",
                        flags[i]);
    }
    return STATUS_OK;
}

Status trainer_net_read(TrainerNet *net, const json_t *told, int desk_fd, Error *err) {
    *net = (TrainerNet){0};
    TRY(check_kinds(told, err));
    const json_int_t floats = json_integer_value(json_object_get(told, "state"));
    if (floats < 0 || floats > UINT32_MAX)
        return fail(err, STATUS_DATA, "it keeps %lld floats per client; there may be 0 to %u", (long long)floats,
                    UINT32_MAX);
    *net = (TrainerNet){.state_floats = (uint64_t)floats,
                        .views = trainer_flag(told, "views"),
                        .whole_test = trainer_flag(told, "whole_test"),
                        .still = trainer_flag(told, "still")};
    Status status = read_tensors(net, json_object_get(told, "tensors"), err);
    if (status != STATUS_OK) goto fail;
    TRY_GOTO(fail, read_statistics(net, told, "statistics", err));
    TRY_GOTO(fail, read_statistics(net, told, "variances", err));
    TRY_GOTO(fail, read_values(net, desk_fd, err));
    return STATUS_OK;
fail:
    trainer_net_free(net);
    return status;
}

static void serve_host(void *host) {
    if (host) trainer_output_serve(&((TrainerHost *)host)->output);
}

static Status start(TrainerProcess *process, const TrainerPlan *plan, const RunMemory *memory, int desk_fd,
                    TrainerHost *host, Error *err) {
    int fds[TRAINER_MOST_FDS];
    if (host) return nursery_start(&host->nursery, process, plan, memory, desk_fd, err);
    const size_t count = trainer_line_fds(fds, desk_fd, memory);
    return trainer_process_start(process, plan, fds, count,
                                 host ? trainer_output_fd(&host->output, OUTPUT_OF_NURSERY) : -1, err);
}

static Status ask(json_t **told, TrainerProcess *process, const TrainerPlan *plan, const RunMemory *memory, int desk_fd,
                  uint64_t seed, TrainerHost *host, Error *err) {
    const TrainerWait wait = {.starts = true, .on_wait = serve_host, .context = host};
    JsonObject line, desk;
    TRY(start(process, plan, memory, desk_fd, host, err));
    trainer_line_begin(&line, plan, memory, seed);
    put_whole(&line, "describe", 1);
    if (host) put_whole(&line, "nursery", 1);
    json_begin(&desk);
    put_whole(&desk, "fd", desk_fd);
    put_object(&line, "desk", &desk);
    TRY(trainer_process_send(process, &line, &wait, err));
    return trainer_process_receive(told, process, &wait, err);
}

// A program that rehearses becomes the nursery, if only until it has rehearsed: it has imported its modules and built
// its net by now, and does neither again. Others end, and each worker starts the program for itself.
static void settle(TrainerProcess *process, int desk_fd, const json_t *told, const TrainerPlan *plan,
                   TrainerHost *host) {
    if (host && trainer_flag(told, "forks")) {
        nursery_adopt(&host->nursery, process, desk_fd);
        return;
    }
    if (plan->forks) trainer_line_say_unforked(told);
    trainer_process_end(process, TRAINER_GOODBYE_SECONDS);
    close(desk_fd);
}

Status trainer_describe(TrainerNet *net, const TrainerPlan *plan, const RunMemory *memory, uint64_t seed,
                        TrainerHost *host, Error *err) {
    TrainerProcess process = {.socket = -1, .leash = -1};
    json_t *told = NULL;
    Error why;
    *net = (TrainerNet){0};
    // The program sets the size of this file, since it alone knows its net. If it becomes the nursery, the file becomes
    // its desk.
    const int desk_fd = memfd_create("sounder-desk", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (desk_fd < 0) return fail_errno(err, STATUS_OS, "no memory for a trainer's desk");
    const uint64_t begin = clock_nanoseconds();
    Status status = ask(&told, &process, plan, memory, desk_fd, seed, host, &why);
    const double seconds = clock_seconds_since(begin);
    if (status == STATUS_OK) status = trainer_net_read(net, told, desk_fd, &why);
    net->start_seconds = seconds;
    if (status == STATUS_OK) status = trainer_program_read(&net->program, plan, told, &why);
    if (status == STATUS_OK) net->files = json_incref(json_object_get(told, "files"));
    if (status == STATUS_OK) {
        settle(&process, desk_fd, told, plan, host);
    } else {
        trainer_process_end(&process, TRAINER_GOODBYE_SECONDS);
        close(desk_fd);
    }
    json_decref(told);
    if (status == STATUS_OK) return STATUS_OK;
    trainer_net_free(net);
    // The run's folder does not exist yet, and with it no trainer.log: the exception is shown here or nowhere.
    if (host) trainer_output_print_last(&host->output, OUTPUT_OF_NURSERY, why.message);
    if (status == STATUS_USAGE || status == STATUS_NOINPUT) return fail(err, status, "%s", why.message);
    return fail(err, STATUS_UNAVAILABLE, "%s %.200s: %s", plan->option, plan->command, why.message);
}

void trainer_net_free(TrainerNet *net) {
    free(net->tensors);
    free(net->values);
    json_decref(net->files);
    *net = (TrainerNet){0};
}

TensorList trainer_net_tensors(const TrainerNet *net) {
    TensorList list = {.tensors = net->tensors, .count = net->count};
    for (int t = 0; t < net->count; t++)
        list.freezes |= net->tensors[t].frozen;
    return list;
}

Status trainer_net_freeze(TrainerNet *net, const char *patterns, Error *err) {
    bool fits[TENSORS_MOST] = {false}, learns = false;
    const TensorList list = trainer_net_tensors(net);
    TRY(tensors_fitting(fits, &list, patterns, err));
    for (int t = 0; t < net->count; t++) {
        net->tensors[t].frozen = fits[t];
        learns |= !fits[t];
    }
    return learns ? STATUS_OK : fail(err, STATUS_USAGE, "every tensor of the net would be frozen; leave one");
}
