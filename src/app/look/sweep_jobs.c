#include "sweep_jobs.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/options/run_target.h"
#include "app/train/own_samples.h"
#include "base/device.h"
#include "datasets/dataset.h"
#include "datasets/settings.h"
#include "datasets/synthetic.h"
#include "datasets/synthetic/federation.h"
#include "fedavg/memory/fingerprint.h"
#include "io/metrics.h"
#include "nn/kernels.h"

int job_argument_count(const Job *job) {
    int count = 0;
    while (job->arguments && job->arguments[count])
        count++;
    return count;
}

// Adds --name=value, or without a name the word `value`.
static Status add_argument(Job *job, const char *name, const char *value, Error *err) {
    const int count = job_argument_count(job);
    char **arguments = realloc(job->arguments, (size_t)(count + 2) * sizeof *arguments);
    if (!arguments) return fail(err, STATUS_OS, "no memory for the sweep");
    job->arguments = arguments;
    arguments[count] = arguments[count + 1] = NULL;
    const int length =
        name ? asprintf(&arguments[count], "--%s=%s", name, value) : asprintf(&arguments[count], "%s", value);
    if (length >= 0) return STATUS_OK;
    arguments[count] = NULL;
    return fail(err, STATUS_OS, "no memory for the sweep");
}

static void free_arguments(Job *job) {
    for (char **argument = job->arguments; argument && *argument; argument++)
        free(*argument);
    free(job->arguments);
    job->arguments = NULL;
}

// Builds the arguments of a new run of this point.
static Status make_arguments(Job *job, const SweepPlan *plan, size_t i, Error *err) {
    if (plan->experiment) TRY(add_argument(job, NULL, plan->experiment, err));
    for (size_t axis = 0; axis < plan->axis_count; axis++)
        TRY(add_argument(job, plan->axes[axis].option->name, sweep_plan_value(plan, i, axis), err));
    return STATUS_OK;
}

static Status resolve_arguments(Options *options, const Job *job, Error *err) {
    options_defaults(options);
    options->cores = job->cores;
    TRY(options_parse(options, job_argument_count(job), job->arguments, err));
    return options_resolve(options, err);
}

// Runs side by side divide the cores, unless the user chose --workers; except for hogwild, the model does not depend on
// it. The number of clients, which defaults to the number of workers, stays that of a run alone. On a GPU a run takes
// as many workers as that wants.
static Status divide_cores(Options *options, Job *job, const SweepPlan *plan, int cores, Error *err) {
    char clients[32];
    if (options->workers_by_cores && !options_algorithm(options).engine->client_is_worker && plan->count > 1) {
        job->cores = (size_t)cores > plan->count ? cores / (int)plan->count : 1;
        snprintf(clients, sizeof clients, "%d", options->clients);
        if (!options_given(options, "clients")) TRY(add_argument(job, "clients", clients, err));
        TRY(resolve_arguments(options, job, err));
    }
    if (device_is_built() && options->device != DEVICE_CPU) job->place = JOB_SOMEWHERE;
    job->width = options->workers < cores ? options->workers : cores;
    return STATUS_OK;
}

// Whether the option may end a run before its last round; whether it says when.
static bool is_stop(const Option *option) {
    return strcmp(option->name, "patience") == 0 || strcmp(option->name, "stop-at-target") == 0 ||
           strcmp(option->name, "until") == 0;
}

static bool is_goal(const Option *option) {
    return is_stop(option) || strcmp(option->name, "target") == 0 || strcmp(option->name, "patience-by") == 0;
}

// Returns the first option in which the run in the folder differs from this one; NULL if none does. No
// config.yaml has the values that follow from other options: they are derived here, as for the job.
static const Option *find_difference(const PastRun *past, const Options *options) {
    PastRun there = *past, wanted = {.options = *options};
    Error ignored; // a config.yaml that cannot be resolved differs in some option
    there.options.cores = options->cores;
    (void)options_resolve(&there.options, &ignored);
    options_pin_rounds(&there.options, there.options.rounds);
    options_pin_rounds(&wanted.options, wanted.options.rounds);
    // The record of a run on files has their full path.
    if (there.options.data[0] == '/') settings_full(wanted.options.data, sizeof wanted.options.data, options->data);
    for (int i = 0; i < option_count; i++) {
        const Option *option = &option_table[i];
        char left[OPTION_VALUE_BYTES], right[OPTION_VALUE_BYTES];
        // A run that is continued takes up another patience, but does not drop it.
        const bool may_change = option->may_change && (options->given[i] || !is_stop(option));
        if (option->unsaved || may_change) continue;
        past_run_option(left, &there, option);
        past_run_option(right, &wanted, option);
        if (strcmp(left, right) != 0) return option;
    }
    return NULL;
}

// Seed and algorithm part most runs of a sweep, and are compared sooner than all options.
static bool may_be(const PastRun *past, const Options *options) {
    return past->options.seed == options->seed && strcmp(past->options.algorithm, options->algorithm) == 0 &&
           past->rounds <= (uint32_t)options->rounds;
}

// The runs of a sweep's folder, which are read when the first job has none of its name.
typedef struct Found {
    char *out;
    bool is_read;
    PastRuns runs;
} Found;

// The sweep's folder may have the job's run under another name, which a sweep of other axes, or of its axes in
// another order, has given it. Such a run becomes the job's. A run with another job's name is that job's.
static void find_run(Job *jobs, size_t i, size_t count, Found *found, const Options *options) {
    Error ignored; // a folder that is not there has no run
    if (!found->is_read && past_runs_find(&found->runs, &found->out, 1, &ignored) != STATUS_OK)
        found->runs = (PastRuns){0};
    found->is_read = true;
    for (size_t r = 0; r < found->runs.count; r++) {
        const PastRun *past = &found->runs.all[r];
        const char *name = strrchr(past->path, '/');
        bool is_taken = !name || strlen(past->path) >= sizeof jobs[i].folder || strlen(name) > sizeof jobs[i].name;
        for (size_t k = 0; k < count && !is_taken; k++)
            is_taken = k != i && strcmp(jobs[k].folder, past->path) == 0;
        if (is_taken || !may_be(past, options) || find_difference(past, options)) continue;
        snprintf(jobs[i].folder, sizeof jobs[i].folder, "%s", past->path);
        snprintf(jobs[i].name, sizeof jobs[i].name, "%s", name + 1);
        return;
    }
}

static bool is_of(const char *argument, const char *name) {
    const size_t length = strlen(name);
    return strncmp(argument, "--", 2) == 0 && strncmp(argument + 2, name, length) == 0 && argument[2 + length] == '=';
}

// Gives the option this value in place of any other.
static Status set_argument(Job *job, const char *name, const char *value, Error *err) {
    char **kept = job->arguments;
    for (char **argument = kept; *argument; argument++) {
        if (is_of(*argument, name))
            free(*argument);
        else
            *kept++ = *argument;
    }
    *kept = NULL;
    return add_argument(job, name, value, err);
}

// A job that resumes already keeps its values of options that --resume accepts.
static Status make_resuming(Job *job, int rounds_wanted, Error *err) {
    char rounds[32];
    snprintf(rounds, sizeof rounds, "%d", rounds_wanted);
    if (!job->arguments || !is_of(job->arguments[0], "resume")) { // NULL: a sweep of one run with all defaults
        free_arguments(job);
        TRY(add_argument(job, "resume", job->folder, err));
    }
    return set_argument(job, "rounds", rounds, err);
}

// Options whose values follow from --rounds are written out before --rounds becomes smaller.
static Status begin_short(Job *job, int rounds, Error *err) {
    Options *const options = calloc(2, sizeof *options), *const pinned = options + 1;
    char value[OPTION_VALUE_BYTES];
    if (!options) return fail(err, STATUS_OS, "no memory for the options of a run");
    Status status = resolve_arguments(options, job, err);
    *pinned = *options;
    if (status == STATUS_OK) options_pin_rounds(pinned, job->rounds);
    for (int i = 0; i < option_count && status == STATUS_OK; i++) {
        const Option *option = &option_table[i];
        if (option_equal(pinned, options, option) && pinned->given[i] == options->given[i]) continue;
        option_format(value, pinned, option);
        status = set_argument(job, option->name, value, err);
    }
    free(options);
    snprintf(value, sizeof value, "%d", rounds);
    return status == STATUS_OK ? set_argument(job, "rounds", value, err) : status;
}

// Returns what is left to do of a run that has begun. Its target or its patience may have ended it before its last
// round: then it is done, too, unless the user gives it others now.
static JobState state_of(const Job *job, const PastRun *past) {
    const bool ended_early = past->options.rounds > (int)past->rounds && !job->has_new_goals;
    if (past->state == RUN_RUNNING) return JOB_ELSEWHERE;
    return past->state == RUN_FINISHED && ((int)past->rounds >= job->aim || ended_early) ? JOB_IS_DONE : JOB_WAITS;
}

bool sweep_job_has_begun(const Job *job) {
    char config[JOB_FOLDER_BYTES + 16];
    snprintf(config, sizeof config, "%s/config.yaml", job->folder);
    return access(config, F_OK) == 0;
}

Status sweep_job_aim(Job *job, int rounds, Error *err) {
    PastRun past;
    job->state = JOB_WAITS;
    job->aim = rounds;
    if (!sweep_job_has_begun(job)) return begin_short(job, rounds, err);
    TRY(past_run_read(&past, job->folder, err));
    // A run that was killed right after these rounds may have saved only a model of fewer rounds.
    const bool has_model = past.rounds > (uint32_t)rounds || past.state == RUN_FINISHED;
    if (past.rounds >= (uint32_t)rounds && has_model) job->state = JOB_IS_DONE;
    past_run_free(&past);
    return make_resuming(job, rounds, err);
}

// Hands a run that is continued the values that the user gives now of options which may change.
static Status change_options(Job *job, const PastRun *past, const Options *options, Error *err) {
    for (int i = 0; i < option_count; i++) {
        const Option *option = &option_table[i];
        char value[OPTION_VALUE_BYTES];
        const bool may_change = option->may_change && !option->unsaved && strcmp(option->name, "rounds") != 0;
        if (!may_change || !options->given[i] || option_equal(&past->options, options, option)) continue;
        option_format(value, options, option);
        TRY(add_argument(job, option->name, value, err));
        job->has_new_goals |= is_goal(option);
    }
    return STATUS_OK;
}

// Takes up the state that an earlier sweep left of the run: all of it, a part, or nothing.
static Status take_up(Job *job, const Options *options, InputsToday *today, Error *err) {
    InputChange change;
    PastRun past;
    if (!sweep_job_has_begun(job)) return add_argument(job, "out", job->folder, err);
    TRY(past_run_read(&past, job->folder, err));
    const Option *other = find_difference(&past, options);
    Status status = STATUS_OK;
    if (other)
        status = fail(err, STATUS_USAGE, "%s holds a run with another --%s; give the sweep another --out", job->folder,
                      other->name);
    else if (past.rounds > (uint32_t)options->rounds)
        status = fail(err, STATUS_USAGE, "%s holds a run of %u rounds; give the sweep another --out, or --rounds %u",
                      job->folder, past.rounds, past.rounds);
    else if (run_inputs_changed(&change, past.last, options, today))
        status = run_input_refuse(&change, job->folder, ", or give another --out", STATUS_USAGE, err);
    if (status == STATUS_OK) status = make_resuming(job, options->rounds, err);
    if (status == STATUS_OK) status = change_options(job, &past, options, err);
    job->state = state_of(job, &past);
    past_run_free(&past);
    return status;
}

static bool has_same_options(const Job *job, const PastRun *past) {
    Error ignored;
    if (is_of(job->arguments[0], "resume")) return true; // it was compared when it was taken up
    Options *options = malloc(sizeof *options);
    const bool same =
        options && resolve_arguments(options, job, &ignored) == STATUS_OK && !find_difference(past, options);
    free(options);
    return same;
}

JobState sweep_job_look(Job *job) {
    PastRun past;
    Error ignored;
    if (past_run_read(&past, job->folder, &ignored) != STATUS_OK)
        return past_run_is_locked(job->folder) ? JOB_ELSEWHERE : JOB_HAS_FAILED;
    const JobState state = has_same_options(job, &past) ? state_of(job, &past) : JOB_HAS_FAILED;
    past_run_free(&past);
    return state == JOB_WAITS && make_resuming(job, job->aim, &ignored) != STATUS_OK ? JOB_HAS_FAILED : state;
}

bool sweep_job_read(PastRun *run, const Job *job) {
    Error ignored;
    return job->state == JOB_IS_DONE && past_run_read(run, job->folder, &ignored) == STATUS_OK;
}

// Reads the record of the process that began last; false if there is none.
static bool read_past(MetricsPast *told, const Job *job) {
    Error ignored;
    const int fd = open(job->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return false;
    const Status status = metrics_past(told, &(Folder){.fd = fd, .path = job->folder}, &ignored);
    close(fd);
    return status == STATUS_OK;
}

static const char *start_text(const MetricsPast *told, const char *key) {
    const char *text = json_string_value(json_object_get(told->start, key));
    return text ? text : "";
}

void sweep_job_begin(Job *job) {
    MetricsPast told;
    job->began[0] = 0;
    if (job->place != JOB_SOMEWHERE || !read_past(&told, job)) return;
    snprintf(job->began, sizeof job->began, "%s", start_text(&told, "time"));
    metrics_past_free(&told);
}

JobPlace sweep_job_place(Job *job) {
    MetricsPast told;
    if (job->place != JOB_SOMEWHERE || !read_past(&told, job)) return job->place;
    const char *device = start_text(&told, "device");
    if (*device && strcmp(start_text(&told, "time"), job->began) != 0)
        job->place = strcmp(device, kernels_best()->name) == 0 ? JOB_ON_CPU : JOB_ON_GPU;
    metrics_past_free(&told);
    return job->place;
}

static bool is_made_up(const char *data) {
    return synthetic_is_named(data) || federation_is_named(data);
}

Status sweep_jobs_find_data(const Job *jobs, size_t count, Error *err) {
    DatasetSource source;
    for (size_t i = 0; i < count; i++) {
        bool is_found = jobs[i].state != JOB_WAITS || is_made_up(jobs[i].data);
        for (size_t k = 0; k < i && !is_found; k++)
            is_found = jobs[k].state == JOB_WAITS && strcmp(jobs[k].data, jobs[i].data) == 0;
        if (!is_found) TRY(dataset_find(&source, jobs[i].data, jobs[i].seed, err));
    }
    return STATUS_OK;
}

// Numbers equal names: values lose their special characters in a name, and long names are cut.
static void make_name(Job *jobs, const SweepPlan *plan, size_t i, const char *out) {
    Job *job = &jobs[i];
    char name[SWEEP_NAME_BYTES];
    int same = 1;
    sweep_plan_name(name, plan, i);
    snprintf(job->name, sizeof job->name, "%s", name);
    for (size_t k = 0; k < i; k++)
        if (strcmp(jobs[k].name, job->name) == 0) snprintf(job->name, sizeof job->name, "%s-%d", name, ++same);
    snprintf(job->folder, sizeof job->folder, "%s/%s", out, job->name);
}

// A trainer is asked once for the samples that it loads itself, and again only for another seed, program or option of
// its own, on which they may depend.
static Status add_own_samples(Job *jobs, size_t i, Options *options, Error *err) {
    Job *job = &jobs[i];
    const uint64_t asks[] = {XXH3_64bits(options->trainer, strlen(options->trainer)),
                             XXH3_64bits(options->trainer_option, strlen(options->trainer_option)), options->seed};
    job->asks_own = own_samples_wanted(options) ? XXH3_64bits(asks, sizeof asks) | 1 : 0;
    size_t k = 0;
    if (job->asks_own == 0) return STATUS_OK;
    while (jobs[k].asks_own != job->asks_own)
        k++;
    if (k == i)
        TRY(own_samples_find(options, err));
    else
        snprintf(options->data, sizeof options->data, "%s", jobs[k].data);
    if (options->data[0] != '/') return STATUS_OK;
    TRY(add_argument(job, "data", options->data, err));
    return resolve_arguments(options, job, err);
}

static Status make_job(Job *jobs, Options *options, const SweepPlan *plan, size_t i, int cores, InputsToday *today,
                       Found *found, Error *err) {
    Job *job = &jobs[i];
    Error why;
    TRY(make_arguments(job, plan, i, err));
    Status status = resolve_arguments(options, job, &why);
    if (status == STATUS_OK) status = add_own_samples(jobs, i, options, &why);
    if (status != STATUS_OK) return fail(err, status, plan->count > 1 ? "%s (run %s)" : "%s", why.message, job->name);
    if (plan->search == SWEEP_HALVING && options_clock_is_real(options))
        return fail(err, STATUS_USAGE,
                    "--clock real: does not go with --search halving, which continues runs; leave one of the two out");
    TRY(divide_cores(options, job, plan, cores, err));
    job->rounds = job->aim = options->rounds;
    job->figure = run_figure_of(options, false);
    snprintf(job->data, sizeof job->data, "%s", options->data);
    job->seed = is_made_up(job->data) ? options->seed : 0;
    if (!sweep_job_has_begun(job)) find_run(jobs, i, plan->count, found, options);
    return take_up(job, options, today, err);
}

Status sweep_jobs_make(Job **jobs, const SweepPlan *plan, const char *out, int cores, Error *err) {
    Options *options = malloc(sizeof *options);
    InputsToday today = {0};
    Found found = {.out = strdup(out)};
    *jobs = calloc(plan->count, sizeof **jobs);
    Status status =
        options && *jobs && found.out ? STATUS_OK : fail(err, STATUS_OS, "no memory for %zu runs", plan->count);
    for (size_t i = 0; i < plan->count && status == STATUS_OK; i++) {
        make_name(*jobs, plan, i, out);
        (*jobs)[i].stderr_fd = -1;
    }
    for (size_t i = 0; i < plan->count && status == STATUS_OK; i++)
        status = make_job(*jobs, options, plan, i, cores, &today, &found, err);
    past_runs_free(&found.runs);
    inputs_today_free(&today);
    free(found.out);
    free(options);
    return status;
}

void sweep_jobs_free(Job *jobs, size_t count) {
    for (size_t i = 0; i < count && jobs; i++)
        free_arguments(&jobs[i]);
    free(jobs);
}
