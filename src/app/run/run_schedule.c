#include "run_schedule.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

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
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    if (!file) return fail(err, STATUS_OS, "no memory for " SCHEDULE_FILE_NAME);
    fputs("job,client,visit,start,applied,fate,weight,trust,begin_microseconds,end_microseconds\n", file);
    for (uint32_t job = 0; job < schedule->count; job++)
        put_job(file, schedule, job);
    const bool written = fclose(file) == 0;
    Status status = written ? durable_write(folder, SCHEDULE_FILE_NAME, &(FilePart){text, length}, 1, err)
                            : fail(err, STATUS_OS, "no memory for " SCHEDULE_FILE_NAME);
    free(text);
    return status;
}
