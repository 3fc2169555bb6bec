// Part of command.h: `sounder sweep` runs `sounder train` many times, as many side by side as cores allow, and skips
// runs that are done.
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "app/command.h"
#include "app/look/sweep_file.h"
#include "app/look/sweep_forecast.h"
#include "app/look/sweep_halving.h"
#include "app/look/sweep_jobs.h"
#include "app/look/sweep_line.h"
#include "app/look/sweep_means.h"
#include "app/look/sweep_process.h"
#include "app/train/train.h"
#include "base/cgroup.h"
#include "base/clock.h"
#include "base/cores.h"
#include "base/log.h"
#include "base/text.h"
#include "fedavg/nodes/nodes.h"
#include "io/durable.h"
#include "shm/stop_signals.h"

typedef struct Sweep {
    SweepPlan plan;
    LookOptions options;
    Job *jobs;       // owned, (plan.count)
    ReadyData ready; // owned: data that the next runs share
    int cores;
    int most;              // most runs at once; 0: as cores allow
    uint64_t memory_kills; // value of cgroup_memory_kills when the sweep began
    int signal_fd;
    bool tells_means;
    sigset_t before; // signal mask of the runs: the one from before the sweep
    int signal;      // the signal that ended the sweep; 0: none
    SweepLine line;
    StopRequests requests;      // requests to end the sweep
    size_t done, failed, total; // of the jobs that take part
} Sweep;

// Processes -----------------------------------------------------------------------------------------------------------

// Preloads the next run's data set if it is not loaded yet and several waiting runs share it. A failure is reported by
// the run itself.
static void make_ready(Sweep *sweep, const Job *next) {
    Error ignored;
    int users = 0;
    if (ready_data_serves(&sweep->ready, next->data, next->seed)) return;
    for (const Job *job = next; job < sweep->jobs + sweep->plan.count && users < 2; job++)
        users += job->state == JOB_WAITS && job->seed == next->seed && strcmp(job->data, next->data) == 0;
    if (users < 2) return;
    ready_data_free(&sweep->ready);
    if (ready_data_load(&sweep->ready, next->data, next->seed, &ignored) != STATUS_OK) sweep->ready = (ReadyData){0};
}

static int count_of(const Sweep *sweep, JobState state) {
    int count = 0;
    for (size_t i = 0; i < sweep->plan.count; i++)
        count += sweep->jobs[i].state == state;
    return count;
}

static Status start_job(Job *job, Sweep *sweep, Error *err) {
    make_ready(sweep, job);
    const SweepStart start = {.ready = &sweep->ready, .mask = &sweep->before, .signal_fd = sweep->signal_fd};
    sweep_job_begin(job);
    TRY(sweep_process_start(job, &start, err));
    job->state = JOB_RUNS;
    job->is_beside = false;
    const bool is_alone = count_of(sweep, JOB_RUNS) == 1;
    for (size_t i = 0; i < sweep->plan.count && !is_alone; i++)
        sweep->jobs[i].is_beside |= sweep->jobs[i].state == JOB_RUNS;
    return STATUS_OK;
}

// The system refused resources to a run beside `others` running ones: it waits, and at most that many run at once from
// now on.
static void do_with_fewer(Sweep *sweep, Job *job, int others, const char *why) {
    fprintf(stderr, "%s: %s; no more than %d at once from here on\n", job->name, why, others);
    job->state = JOB_WAITS;
    sweep->most = others;
}

// Cores that the runs side by side may use together. A run sometimes waits for the disk, and a worker for its parent,
// so runs of one worker each (on one core: all) may exceed the cores by a quarter, rounded up. On two cores three runs
// instead of two save a quarter of a sweep of 70 ms runs, and 4% with computations of a third of a second.
static int room(const Sweep *sweep) {
    for (size_t i = 0; i < sweep->plan.count; i++)
        if (sweep->jobs[i].width > 1) return sweep->cores;
    return sweep->cores + (sweep->cores + 3) / 4;
}

// Starts as many waiting runs as there is room for. A run wider than all cores runs alone. A second run uses the GPU
// while the first one's parent works; more would take turns, and each has two contexts of half a gigabyte there. A run
// that has not said where it trains is counted, too.
static Status start_jobs(Sweep *sweep, Error *err) {
    int busy = 0, count = count_of(sweep, JOB_RUNS), on_gpu = 0;
    for (size_t i = 0; i < sweep->plan.count; i++) {
        if (sweep->jobs[i].state != JOB_RUNS) continue;
        busy += sweep->jobs[i].width;
        on_gpu += sweep_job_place(&sweep->jobs[i]) != JOB_ON_CPU;
    }
    for (size_t i = 0; i < sweep->plan.count && !sweep->signal; i++) {
        Job *job = &sweep->jobs[i];
        if (job->state != JOB_WAITS) continue;
        if (sweep->most > 0 && count >= sweep->most) break;
        if (sweep->options.parallel == 0 && count > 0 && busy + job->width > room(sweep)) break;
        if (sweep->options.parallel == 0 && job->place != JOB_ON_CPU && on_gpu >= SWEEP_MOST_ON_GPU) break;
        const Status status = start_job(job, sweep, err);
        if (status != STATUS_OK && count == 0) return status;
        if (status != STATUS_OK) {
            do_with_fewer(sweep, job, count, err->message);
            break;
        }
        busy += job->width;
        on_gpu += job->place != JOB_ON_CPU;
        count++;
    }
    return STATUS_OK;
}

// Milliseconds until the runs are looked at again if none ends: soon, while a waiting run depends on where another one
// trains.
static int patience(const Sweep *sweep) {
    for (size_t i = 0; i < sweep->plan.count && count_of(sweep, JOB_WAITS) > 0; i++)
        if (sweep->jobs[i].state == JOB_RUNS && sweep->jobs[i].place == JOB_SOMEWHERE) return 20;
    return 1000;
}

static void signal_jobs(const Sweep *sweep, int number) {
    for (size_t i = 0; i < sweep->plan.count; i++)
        if (sweep->jobs[i].state == JOB_RUNS) kill(sweep->jobs[i].pid, number);
}

static void tell(Sweep *sweep, const Job *job, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void tell(Sweep *sweep, const Job *job, const char *format, ...) {
    char what[SWEEP_WORDS_BYTES + 64];
    va_list arguments;
    if (sweep->options.quiet) return;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    disarm_text(what);
    sweep_line_clear(&sweep->line);
    printf("[%zu/%zu] %s  %s\n", sweep->done + sweep->failed, sweep->total, job->name, what);
    fflush(stdout);
}

static void tell_result(Sweep *sweep, const Job *job, const char *how) {
    PastRun past;
    char value[RUN_FIGURE_TEXT_BYTES];
    if (!sweep_job_read(&past, job)) return;
    tell(sweep, job, "%s  %.2f s%s", run_figure_text(value, &past.figure, run_figure_in(past.values, &past.figure)),
         past.seconds, how);
    past_run_free(&past);
}

static void take_as_done(Sweep *sweep, Job *job, const char *how) {
    job->state = JOB_IS_DONE;
    sweep->done++;
    tell_result(sweep, job, how);
}

// A kill says nothing of the values that a search compares, and the run has checkpoints.
static bool is_continued(Sweep *sweep, Job *job, int wait_status, const char *words) {
    if (sweep->plan.search != SWEEP_HALVING || !WIFSIGNALED(wait_status) || job->was_killed) return false;
    job->was_killed = true;
    const JobState now = sweep_job_look(job);
    tell(sweep, job, "%s; it continues", words);
    if (now == JOB_IS_DONE) take_as_done(sweep, job, "");
    if (now == JOB_ELSEWHERE) job->state = now;
    return true;
}

// The failure does not count if another process has begun the run since this sweep looked, or if the system refused
// resources to it beside other runs: then it is tried again.
static bool is_settled_otherwise(Sweep *sweep, Job *job, int code, const char *words) {
    const int others = count_of(sweep, JOB_RUNS);
    if (code == EX_USAGE && !job->is_again) {
        job->is_again = true;
        const JobState now = sweep_job_look(job);
        if (now == JOB_HAS_FAILED) return false;
        if (now == JOB_IS_DONE) take_as_done(sweep, job, "  (done by another process)");
        job->state = now;
        return true;
    }
    if (code != EX_OSERR || !job->is_beside) return false;
    sweep_job_look(job); // resumes the run if it had begun
    do_with_fewer(sweep, job, others > 0 ? others : 1, words);
    return true;
}

// A run that the sweep stopped waits for the next sweep; a run that another signal killed has failed.
static void end_job(Sweep *sweep, Job *job, int wait_status) {
    char text[SWEEP_WORDS_BYTES];
    const int code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
    sweep_line_clear(&sweep->line); // the run's own words may follow
    const char *words = sweep_process_words(text, job->stderr_fd, wait_status, sweep->memory_kills);
    job->pid = 0;
    job->state = JOB_WAITS;
    if (code == 0) {
        sweep_process_tell(job);
        take_as_done(sweep, job, "");
    } else if (!sweep->signal && !is_continued(sweep, job, wait_status, words) &&
               !is_settled_otherwise(sweep, job, code, words)) {
        job->state = JOB_HAS_FAILED;
        job->code = code;
        sweep->failed++;
        const char *why = *words ? words : "without a word";
        tell(sweep, job, "failed (%d): %s", code, why);
        if (sweep->options.quiet) log_warning("%s failed (%d): %s", job->name, code, why);
    }
    if (job->stderr_fd >= 0) close(job->stderr_fd);
    job->stderr_fd = -1;
}

static void take_signal(Sweep *sweep) {
    struct signalfd_siginfo of;
    int status;
    while (read(sweep->signal_fd, &of, sizeof of) == sizeof of) {
        if (of.ssi_signo == SIGTSTP) {
            // Ctrl-Z at the terminal reaches only the sweep, since each run has a process group of its own.
            signal_jobs(sweep, SIGTSTP);
            suspend_self();
            signal_jobs(sweep, SIGCONT);
            continue;
        }
        if (of.ssi_signo == SIGCHLD || !stop_requests_add(&sweep->requests, clock_nanoseconds())) continue;
        sweep_line_clear(&sweep->line);
        if (!sweep->signal) fputs("stopping: the runs finish their rounds and save; again: at once\n", stderr);
        sweep->signal = (int)of.ssi_signo;
        signal_jobs(sweep, SIGTERM);
    }
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (size_t i = 0; i < sweep->plan.count; i++)
            if (sweep->jobs[i].state == JOB_RUNS && sweep->jobs[i].pid == pid) end_job(sweep, &sweep->jobs[i], status);
}

static Status run_jobs(Sweep *sweep, Error *err) {
    Status status = STATUS_OK;
    sweep_line_begin(&sweep->line, sweep->jobs, sweep->plan.count, sweep->options.quiet);
    do {
        if (status == STATUS_OK) status = start_jobs(sweep, err);
        if (status != STATUS_OK && !sweep->signal) {
            sweep->signal = SIGTERM;
            signal_jobs(sweep, SIGTERM);
        }
        sweep_line_show(&sweep->line, sweep->jobs, sweep->plan.count);
        struct pollfd wait = {.fd = sweep->signal_fd, .events = POLLIN};
        if (count_of(sweep, JOB_RUNS) > 0) poll(&wait, 1, patience(sweep));
        take_signal(sweep);
    } while (count_of(sweep, JOB_RUNS) > 0 || (!sweep->signal && count_of(sweep, JOB_WAITS) > 0));
    sweep_line_clear(&sweep->line);
    return status;
}

// The sweep -----------------------------------------------------------------------------------------------------------

static void print_heading(const Sweep *sweep) {
    const char *separator = " (";
    printf("%zu run%s", sweep->plan.count, sweep->plan.count == 1 ? "" : "s");
    for (size_t i = 0; i < sweep->plan.axis_count && sweep->tells_means; i++) {
        if (sweep->plan.axes[i].count == 1) continue;
        printf("%s%s %zu", separator, sweep->plan.axes[i].option->name, sweep->plan.axes[i].count);
        separator = sweep->plan.search == SWEEP_LIST ? ", " : " x ";
    }
    printf("%s, %d core%s  ->  %s\n", separator[1] == '(' ? "" : ")", sweep->cores, sweep->cores == 1 ? "" : "s",
           sweep->options.out);
}

static void print_plan(const Sweep *sweep) {
    char word[SHELL_WORD_BYTES];
    for (size_t i = 0; i < sweep->plan.count; i++) {
        printf("sounder train");
        for (char **argument = sweep->jobs[i].arguments; *argument; argument++)
            printf(" %s", shell_word(word, *argument));
        puts(sweep->jobs[i].state == JOB_IS_DONE ? "  # done" : "");
    }
}

// Looks again at runs left to another process; returns how many of them are not done.
static size_t look_elsewhere(Sweep *sweep) {
    size_t elsewhere = 0;
    for (size_t i = 0; i < sweep->plan.count; i++) {
        Job *job = &sweep->jobs[i];
        if (job->state != JOB_ELSEWHERE) continue;
        if (sweep_job_look(job) == JOB_IS_DONE)
            take_as_done(sweep, job, "  (done by another process)");
        else
            elsewhere++;
    }
    return elsewhere;
}

static Status conclude(Sweep *sweep, double seconds, int *exit_code, Error *err) {
    const size_t elsewhere = look_elsewhere(sweep);
    const int left = count_of(sweep, JOB_LEFT);
    for (size_t i = 0; i < sweep->plan.count; i++)
        if (sweep->jobs[i].state == JOB_HAS_FAILED && *exit_code == 0) *exit_code = sweep->jobs[i].code;
    if (sweep->done > 0 && sweep->tells_means) TRY(sweep_means_print(&sweep->plan, sweep->jobs, &sweep->options, err));
    if (!sweep->options.quiet || sweep->done < sweep->total)
        printf("%zu of %zu runs are done, %zu failed, %.1f s\n", sweep->done, sweep->total, sweep->failed, seconds);
    if (left > 0) printf("%d runs were left behind after fewer rounds\n", left);
    if (elsewhere > 0) printf("%zu of them run in another process, and were left to it\n", elsewhere);
    if (elsewhere > 0 && *exit_code == 0) *exit_code = EX_TEMPFAIL;
    if (sweep->signal) *exit_code = 128 + sweep->signal;
    char word[SHELL_WORD_BYTES];
    if (sweep->signal || sweep->failed > 0 || elsewhere > 0)
        printf("to continue, repeat the command with --out %s\n", shell_path(word, sweep->options.out));
    return STATUS_OK;
}

// Blocks the stop signals and Ctrl-Z as for a single run, and SIGCHLD, whose default action must be set: ignored, it
// would hide the ends of runs.
static Status open_signals(Sweep *sweep, Error *err) {
    sigset_t signals;
    parent_signals(&signals);
    sigaddset(&signals, SIGCHLD);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, SIG_IGN); // a closed pipe on stdout must not end the runs
    sigprocmask(SIG_BLOCK, &signals, &sweep->before);
    sweep->signal_fd = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
    return sweep->signal_fd >= 0 ? STATUS_OK : fail_errno(err, STATUS_OS, "signals cannot be waited for");
}

// Runs the participating jobs that are not done.
static Status run_part(Sweep *sweep, Error *err) {
    sweep->done = 0;
    sweep->total = sweep->plan.count - (size_t)count_of(sweep, JOB_LEFT);
    sweep->failed = (size_t)count_of(sweep, JOB_HAS_FAILED);
    for (size_t i = 0; i < sweep->plan.count; i++) {
        if (sweep->jobs[i].state != JOB_IS_DONE) continue;
        sweep->done++;
        tell_result(sweep, &sweep->jobs[i], "  (done before)");
    }
    return run_jobs(sweep, err);
}

// Successive halving, rung by rung.
static Status climb(Sweep *sweep, Error *err) {
    Ladder ladder;
    halving_plan(&ladder, &sweep->plan, sweep->jobs[0].rounds);
    for (int rung = 0; rung < ladder.rungs && !sweep->signal; rung++) {
        TRY(halving_begin(sweep->jobs, &ladder, rung, &sweep->plan, err));
        if (!sweep->options.quiet)
            printf("to round %d: %zu of %zu, a run for each seed\n", ladder.rounds[rung], ladder.groups[rung],
                   ladder.groups[0]);
        TRY(run_part(sweep, err));
        const Job *unjudged = halving_unjudged(sweep->jobs, sweep->plan.count);
        if (unjudged && !sweep->signal && rung + 1 < ladder.rungs) {
            printf("the search stops here, since %s has failed for a reason that is not in its values\n",
                   unjudged->name);
            return STATUS_OK;
        }
        if (!sweep->signal) TRY(halving_select(sweep->jobs, &ladder, rung, &sweep->plan, err));
    }
    return STATUS_OK;
}

// For a single run no line is worth a turn.
static void say_forecast(Sweep *sweep) {
    const Job *first = sweep->jobs;
    const bool halves = sweep->plan.search == SWEEP_HALVING;
    const double share = halves ? halving_share(&sweep->plan, sweep->jobs[0].rounds) : 1;
    if (count_of(sweep, JOB_WAITS) < 2) return;
    while (first->state != JOB_WAITS)
        first++;
    make_ready(sweep, first); // for the turn, and for the runs
    const SweepStart start = {.ready = &sweep->ready, .mask = &sweep->before, .signal_fd = sweep->signal_fd};
    sweep_forecast_say(first, sweep->jobs, sweep->plan.count, share, room(sweep), sweep->options.parallel, &start);
}

// To its runs, of which each may find that its program does not read what an axis says.
static void tell_axes(const SweepPlan *plan) {
    char axes[1024] = "";
    for (size_t i = 0; i < plan->axis_count; i++) {
        if (plan->axes[i].count == 1) continue;
        const size_t used = strlen(axes);
        snprintf(axes + used, sizeof axes - used, "%s%s", used ? " " : "", plan->axes[i].option->name);
    }
    setenv(RUN_SWEEP_AXES, axes, 1);
}

static Status run_sweep(Sweep *sweep, int *exit_code, Error *err) {
    const uint64_t begin = clock_nanoseconds();
    tell_axes(&sweep->plan);
    if (make_folders(sweep->options.out, 0777) != 0)
        return fail_errno(err, STATUS_CANTCREATE, "%.200s cannot be created", sweep->options.out);
    if (sweep->tells_means) TRY(sweep_file_write(&sweep->plan, &sweep->options, err));
    TRY(open_signals(sweep, err));
    if (!sweep->options.quiet) {
        print_heading(sweep);
        say_forecast(sweep);
    }
    Status status = sweep->plan.search == SWEEP_HALVING ? climb(sweep, err) : run_part(sweep, err);
    if (status == STATUS_OK) status = conclude(sweep, clock_seconds_since(begin), exit_code, err);
    close(sweep->signal_fd);
    return status;
}

static void name_folder(LookOptions *options) {
    const time_t now = time(NULL);
    struct tm local;
    if (!options->out[0])
        strftime(options->out, sizeof options->out, "sweeps/%Y%m%d-%H%M%S", localtime_r(&now, &local));
    for (size_t end = strlen(options->out); end > 1 && options->out[end - 1] == '/'; end--)
        options->out[end - 1] = '\0';
}

Status sweep_run(const SweepPlan *plan, const LookOptions *options, bool tells_means, int *exit_code, Error *err) {
    Sweep sweep = {.plan = *plan,
                   .options = *options,
                   .most = options->parallel,
                   .tells_means = tells_means,
                   .cores = cores_usable(),
                   .memory_kills = cgroup_memory_kills(CGROUP_MEMBERSHIP, CGROUP_ROOT)};
    name_folder(&sweep.options);
    Status status = sweep_jobs_make(&sweep.jobs, &sweep.plan, sweep.options.out, sweep.cores, err);
    if (status == STATUS_OK && plan->search == SWEEP_HALVING) status = halving_check(sweep.jobs, plan, err);
    if (status == STATUS_OK && options->dry_run)
        print_plan(&sweep);
    else if (status == STATUS_OK)
        status = sweep_jobs_find_data(sweep.jobs, plan->count, err);
    if (status == STATUS_OK && !options->dry_run) status = run_sweep(&sweep, exit_code, err);
    ready_data_free(&sweep.ready);
    sweep_jobs_free(sweep.jobs, plan->count);
    return status;
}

Status command_sweep(int argc, char **argv, int *exit_code, Error *err) {
    SweepPlan plan;
    LookOptions options;
    if (argc == 0)
        return fail(err, STATUS_USAGE,
                    "sounder sweep: needs an experiment or options; write sounder "
                    "sweep EXPERIMENT.yaml --seed 1..5 --alpha 0.1,1,10");
    TRY(sweep_plan_read(&plan, &options, argc, argv, err));
    Status status = sweep_means_check(&plan, &options, err);
    if (status == STATUS_OK && !options.part[0])
        status = nodes_refuse_copies("sweep", ", or have each do its part (--part K/N)", err);
    if (status == STATUS_OK) status = sweep_run(&plan, &options, true, exit_code, err);
    sweep_plan_free(&plan);
    return status;
}
