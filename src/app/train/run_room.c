// Part of run_set_up.h: refuses a planned run that memory or disk cannot hold, before anything is allocated.
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "app/train/run_folder.h"
#include "app/train/run_set_up.h"
#include "base/log.h"
#include "fedavg/parent/rounds.h"
#include "fedavg/rules/attack/attack_rules.h"
#include "shm/segment.h"

// Bytes that an earlier process has written need no new space; a file that cannot be inspected counts as absent.
static double client_state_bytes_on_disk(const RunFolder *folder) {
    struct stat about;
    if (fstatat(folder->lock_fd, CLIENT_STATE_FILE_NAME, &about, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(about.st_mode))
        return 0;
    return 512.0 * (double)about.st_blocks;
}

// Client state grows with the clients that have had a turn: there must be room for all that can have one. The first
// node stores it in the run's folder, other nodes hold all of it in memory.
static Status check_client_state(const RunConfig *config, const Options *options, const RunFolder *folder, Error *err) {
    const uint32_t members = cohort_capacity(&config->world, config->clients, (uint32_t)options->clients_per_round);
    const double turns = (double)members * options->rounds, clients = config->clients;
    const double bytes = ((turns < clients ? turns : clients) + 2.0 * members) * (double)config->client_state.row_bytes;
    const double available = (double)segment_available();
    struct statvfs disk;
    if (config->client_state.rows == 0) return STATUS_OK;
    if (config->node > 0 && bytes > available)
        return fail(err, STATUS_OS,
                    "what the clients of --algorithm keep takes up to %.1f MB of memory on every node but the first, "
                    "where %.1f MB are available; take fewer --clients or --rounds, one node, or a smaller --model",
                    bytes / 1e6, available / 1e6);
    if (config->node > 0 || fstatvfs(folder->lock_fd, &disk) != 0) return STATUS_OK;
    const double missing = bytes - client_state_bytes_on_disk(folder);
    const double free_bytes = (double)disk.f_bavail * (double)disk.f_frsize;
    if (missing <= free_bytes) return STATUS_OK;
    return fail(err, STATUS_IO,
                "what the clients of --algorithm keep takes up to %.1f MB more in %s, where %.1f MB are free; %s, or a "
                "smaller --model",
                missing / 1e6, folder->path, free_bytes / 1e6,
                options->resume[0] ? "make room, or take fewer --rounds"
                                   : "give another --out, fewer --clients or --rounds");
}

// Updates side by side grow with the cohort, so they are compared with the free memory before anything is filled.
static Status check_rows(const RunConfig *config, Error *err) {
    const Algorithm algorithm = run_algorithm(config);
    const double bytes = (double)slots_rows_bytes(&config->slots), available = (double)segment_available();
    if (bytes == 0 || algorithm.engine->in_real_time) return STATUS_OK;
    const bool combines = algorithm.combine->rows, external = algorithm.combine->external;
    const bool crafted = attack_is_crafted(&config->attack) && !combines && !algorithm.traits.has[TRAIT_MIXES];
    const Part part = combines ? PART_COMBINE : PART_MIX;
    const char *kind = external ? config->aggregator.option : crafted ? "--attack" : part_names[part];
    const char *name = external  ? config->aggregator.command
                       : crafted ? attack_rules[config->attack.row].name
                                 : recipe_rule(&config->recipe, part);
    log_info("%s %.200s: %u updates side by side take %.1f MB of shared memory, of %.1f MB that are available", kind,
             name, config->slots.rows, bytes / 1e6, available / 1e6);
    if (bytes <= available) return STATUS_OK;
    return fail(err, STATUS_OS,
                "%s %.200s%s has the updates of %u clients side by side, which take %.1f MB, where %.1f MB are "
                "available; lower --clients-per-round or take a smaller --model",
                kind, name, external || crafted ? "" : " of --algorithm", config->slots.rows, bytes / 1e6,
                available / 1e6);
}

// Pending updates grow with the clients, too: refuses what memory cannot hold.
static Status check_pending(const RunConfig *config, uint32_t updates, Error *err) {
    enum { MOST_WAITING = SAFETENSORS_MAX_TENSORS - 2000 }; // leaves room for the tensors of the model
    const SlotPlan *slots = &config->slots;
    if (slots->pending > MOST_WAITING)
        return fail(err, STATUS_USAGE,
                    "schedule buffered of --algorithm has up to %u updates wait for a later step, in %u tensors of a "
                    "checkpoint, which has room for %d; lower M",
                    updates, slots->pending, MOST_WAITING);
    const double rows = run_algorithm(config).engine->in_real_time ? (double)slots_rows_bytes(slots) : 0;
    const double bytes = rows + (double)slots->pending * (double)slots->sum_bytes,
                 available = (double)segment_available();
    if (bytes == 0) return STATUS_OK;
    log_info("schedule buffered: up to %u updates wait for a later step, in %.1f MB of shared memory, of %.1f MB that "
             "are available",
             updates, bytes / 1e6, available / 1e6);
    if (bytes <= available) return STATUS_OK;
    return fail(err, STATUS_OS,
                "schedule buffered of --algorithm has up to %u updates wait for a later step, which take %.1f MB, "
                "where %.1f MB are available; lower M or take a smaller --model",
                updates, bytes / 1e6, available / 1e6);
}

Status run_check_memory(const RunPlan *plan, const RunMemory *memory, const Options *options, const RunFolder *folder,
                        Error *err) {
    TRY(check_rows(&plan->config, err));
    TRY(check_pending(&plan->config, memory->schedule.most_pending, err));
    return check_client_state(&plan->config, options, folder, err);
}
