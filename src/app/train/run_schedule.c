#include "run_schedule.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text_stream.h"

static const char NAMES[] = "job,client,visit,start,applied,fate,weight,trust,begin_microseconds,end_microseconds\n";

static const char *fate_of(const ScheduledJob *job) {
    return job->fate == MEMBER_ARRIVES ? "arrives" : job->fate == MEMBER_DROPS_OUT ? "drops-out" : "late";
}

static void put_job(FILE *file, const Schedule *schedule, uint32_t index) {
    const ScheduledJob *job = &schedule->jobs[index];
    fprintf(file, "%u,%u,%u,%u,", index, job->client, job->visit, job->start);
    if (job->applied != NEVER_APPLIED) fprintf(file, "%u", job->applied);
    fprintf(file, ",%s,%.17g,%.17g,%" PRIu64 ",%" PRIu64 "\n", fate_of(job), job->weight, job->trust,
            job->begin_microseconds, job->end_microseconds);
}

Status run_schedule_write(const Folder *folder, const Schedule *schedule, Error *err) {
    TextStream stream;
    FILE *file = text_open(&stream);
    if (file) fputs(NAMES, file);
    for (uint32_t job = 0; job < schedule->count && file; job++)
        put_job(file, schedule, job);
    Status status = text_close(&stream)
                        ? durable_write(folder, SCHEDULE_FILE_NAME, &(FilePart){stream.text, stream.bytes}, 1, err)
                        : fail(err, STATUS_OS, "no memory for " SCHEDULE_FILE_NAME);
    free(stream.text);
    return status;
}

// Reading -------------------------------------------------------------------------------------------------------------

// *applied: false for a line whose update is applied in no step.
static bool read_job(ScheduledJob *job, bool *applied, const char *line) {
    uint32_t index;
    char fate[16];
    int head = 0, end = 0;
    *job = (ScheduledJob){.applied = NEVER_APPLIED, .pending = NO_PENDING};
    if (sscanf(line, "%" SCNu32 ",%" SCNu32 ",%" SCNu32 ",%" SCNu32 ",%n", &index, &job->client, &job->visit,
               &job->start, &head) != 4 ||
        head == 0)
        return false;
    *applied = line[head] != ',';
    if (!*applied) return true;
    return sscanf(line + head, "%" SCNu32 ",%15[a-z],%lf,%lf,%" SCNu64 ",%" SCNu64 "%n", &job->applied, fate,
                  &job->weight, &job->trust, &job->begin_microseconds, &job->end_microseconds, &end) == 6 &&
           line[head + end] == '\n' && strcmp(fate, "arrives") == 0 && job->applied >= job->start && job->weight > 0 &&
           job->weight <= 1 && job->trust > 0 && job->trust <= 1;
}

static int by_start(const void *a, const void *b) {
    const ScheduledJob *x = a, *y = b;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    if (x->client != y->client) return x->client < y->client ? -1 : 1;
    return (x->visit > y->visit) - (x->visit < y->visit);
}

static Status read_jobs(Schedule *schedule, FILE *file, const char *path, uint32_t clients, uint32_t local_epochs,
                        Error *err) {
    char line[512];
    uint32_t number = 1;
    bool applied;
    ScheduledJob job;
    if (!fgets(line, sizeof line, file) || strcmp(line, NAMES) != 0)
        return fail(err, STATUS_DATA, "%.200s: no " SCHEDULE_FILE_NAME " of a run: its first line names other columns",
                    path);
    while (fgets(line, sizeof line, file)) {
        number++;
        if (!read_job(&job, &applied, line))
            return fail(err, STATUS_DATA, "%.200s:%u: not a line of a " SCHEDULE_FILE_NAME, path, number);
        if (job.client >= clients)
            return fail(err, STATUS_DATA, "%.200s:%u: client %u, but there are only %u; raise --clients", path, number,
                        job.client, clients);
        if (!applied || job.start >= schedule->versions) continue; // checkpoints hold updates that are applied later
        job.epochs = local_epochs;
        TRY(schedule_add(schedule, &job, err));
    }
    return STATUS_OK;
}

// The updates of each version that the run makes count 1 together.
static Status check_versions(const Schedule *schedule, const char *path, Error *err) {
    double *weights = calloc((size_t)schedule->versions + 1, sizeof *weights);
    if (!weights) return fail(err, STATUS_OS, "no memory for %u versions", schedule->versions);
    uint32_t version = 0;
    for (uint32_t j = 0; j < schedule->count; j++)
        if (schedule->jobs[j].applied < schedule->versions)
            weights[schedule->jobs[j].applied] += schedule->jobs[j].weight;
    while (version < schedule->versions && fabs(weights[version] - 1) < 1e-6)
        version++;
    const double weight = weights[version];
    free(weights);
    if (version == schedule->versions) return STATUS_OK;
    if (weight > 0)
        return fail(err, STATUS_DATA,
                    "%.200s: the weights of the updates of round %u add up to %g, not to 1; give the file back as its "
                    "run left it",
                    path, version + 1, weight);
    return fail(err, STATUS_DATA, "%.200s: has the updates of %u rounds, the run is to have %u; lower --rounds", path,
                version, schedule->versions);
}

Status run_schedule_read(Schedule *schedule, const char *path, uint32_t clients, uint32_t local_epochs,
                         uint32_t versions, Error *err) {
    *schedule = (Schedule){.versions = versions};
    FILE *file;
    TRY(regular_file_open(&file, path, err));
    Status status = read_jobs(schedule, file, path, clients, local_epochs, err);
    fclose(file);
    if (status == STATUS_OK) status = check_versions(schedule, path, err);
    if (status == STATUS_OK) {
        qsort(schedule->jobs, schedule->count, sizeof *schedule->jobs, by_start);
        status = schedule_complete(schedule, err);
    }
    if (status != STATUS_OK) schedule_free(schedule);
    return status;
}
