#include "launch_options.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cores.h"
#include "base/text.h"

#define FIELD(member) .offset = offsetof(LaunchOptions, member)

// clang-format off
static const Option launch_table[] = {
    {.name = "nproc-per-node", .letter = 'n', .type = OPTION_TEXT, FIELD(nproc_per_node),
     .placeholder = "N", .preset = "1", .choices = {"auto", "cpu", "gpu"},
     .help = "ranks on this machine: a number, cpu (one per usable core), gpu (one per GPU), or auto (gpu, or cpu if "
             "there is no GPU)"},
    {.name = "nnodes", .type = OPTION_TEXT, FIELD(nnodes_text),
     .placeholder = "N", .preset = "1",
     .help = "machines; start `sounder launch` on each with the same number of ranks, which is checked before any rank "
             "starts; N:N means N"},
    {.name = "node-rank", .type = OPTION_WHOLE, FIELD(node_rank),
     .placeholder = "N", .derived = "0 of one machine", .minimum = 0, .maximum = 65535,
     .help = "number of this machine"},
    {.name = "master-addr", .type = OPTION_TEXT, FIELD(master_addr),
     .placeholder = "HOST", .derived = "127.0.0.1",
     .help = "machine of rank 0, where the ranks meet"},
    {.name = "master-port", .type = OPTION_WHOLE, FIELD(master_port),
     .placeholder = "PORT", .derived = "29500", .minimum = 1, .maximum = 65535,
     .help = "TCP port there, for one launch at a time: a second launch at this port is refused"},
    {.name = "standalone", .type = OPTION_FLAG, FIELD(standalone), .preset = "false",
     .help = "one machine and a free port: any number of such launches can run side by side"},
    {.name = "max-restarts", .type = OPTION_WHOLE, FIELD(max_restarts),
     .placeholder = "N", .preset = "0", .minimum = 0, .maximum = 1000000,
     .help = "after a failure all ranks of this machine are stopped and started again, at most N times"},
    {.name = "grace-seconds", .type = OPTION_REAL, FIELD(grace_seconds),
     .placeholder = "X", .preset = "30", .minimum = 0, .maximum = 86400,
     .help = "seconds between the signal that asks the ranks to end and SIGKILL"},
    {.name = "meet-seconds", .type = OPTION_REAL, FIELD(meet_seconds),
     .placeholder = "X", .preset = "600", .minimum = 0, .maximum = 86400,
     .help = "seconds that the launchers of several machines wait for each other at MASTER_PORT, where they check that they "
             "were started alike; 0: no check, for example if another launcher starts the ranks of some machines"},
    {.name = "watch", .type = OPTION_REAL, FIELD(watch),
     .placeholder = "X", .preset = "0", .minimum = 0, .maximum = 86400,
     .help = "after X seconds in which a rank neither runs nor reads, say which rank holds up the others, where it waits, and "
             "its stack (needs gdb; py-spy for Python's); for any program; 0: never"},
    {.name = "log-dir", .type = OPTION_TEXT, FIELD(log_dir),
     .placeholder = "FOLDER", .derived = "under $TMPDIR",
     .help = "log files go into FOLDER/<run>/attempt_<restart>/<local rank>/stdout.log and stderr.log; alone it means "
             "--tee 3"},
    {.name = "redirects", .letter = 'r', .type = OPTION_TEXT, FIELD(redirects),
     .placeholder = "STREAMS", .derived = "none",
     .help = "streams that go to log files instead of the console: 1 stdout, 2 stderr, 3 both, or by local rank: "
             "0:3,1:2"},
    {.name = "tee", .letter = 't', .type = OPTION_TEXT, FIELD(tee),
     .placeholder = "STREAMS", .derived = "none",
     .help = "streams that go to log files and to the console, written as for --redirects"},
    {.name = "module", .letter = 'm', .type = OPTION_FLAG, FIELD(module), .preset = "false",
     .help = "the program is a Python module: python3 -m PROGRAM"},
    {.name = "no-python", .type = OPTION_FLAG, FIELD(no_python), .preset = "false",
     .help = "start a program whose name ends in .py as it is, not with python3"},
    {.name = "local-ranks-filter", .type = OPTION_TEXT, FIELD(local_ranks_filter),
     .placeholder = "RANKS", .derived = "all",
     .help = "local ranks whose output reaches the console, such as 0,2; log files get the output of all"},
    {.name = "role", .type = OPTION_TEXT, FIELD(role), .placeholder = "NAME", .preset = "default",
     .help = "ROLE_NAME of the ranks"},
    {.name = "rdzv-endpoint", .type = OPTION_TEXT, FIELD(rdzv_endpoint),
     .placeholder = "HOST:PORT", .derived = "none",
     .help = "stands for --master-addr HOST --master-port PORT"},
    {.name = "rdzv-backend", .type = OPTION_TEXT, FIELD(rdzv_backend),
     .placeholder = "NAME", .preset = "static", .choices = {"static", "c10d"},
     .help = "static or c10d, which are equal here: rank 0 serves the ranks' store, and must end last"},
    {.name = "rdzv-id", .type = OPTION_TEXT, FIELD(rdzv_id), .placeholder = "NAME", .derived = "none",
     .help = "name of the run, TORCHELASTIC_RUN_ID"},
    {.name = "monitor-interval", .type = OPTION_REAL, FIELD(monitor_interval),
     .placeholder = "X", .preset = "0.1", .minimum = 0, .maximum = 86400,
     .help = "accepted for torchrun's command lines, without effect: deaths are noticed at once"},
    {.name = "start-method", .type = OPTION_TEXT, FIELD(start_method),
     .placeholder = "NAME", .preset = "spawn", .choices = {"spawn", "fork", "forkserver"},
     .help = "accepted for torchrun's command lines, without effect: ranks are always programs of their own"},
};

// Options of torchrun that have no meaning here, and what to write instead.
static const ForeignOption refused[] = {
    {"rdzv-conf", "leave it out; group_init and init_process_group have a timeout of their own"},
    {"local-addr", "write --master-addr with the address of rank 0's machine"},
    {"run-path", "write -- python3 FILE"},
    {"shutdown-timeout", "write --grace-seconds SECONDS"},
    {"signals-to-handle", "leave it out; SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are handed on"},
    {"log-line-prefix-template", "leave it out; lines begin with [RANK], those in log files with nothing"},
    {"duplicate-stdout-filters", "leave it out; write ... | grep PATTERN"},
    {"duplicate-stderr-filters", "leave it out; write ... 2>&1 | grep PATTERN"},
    {"event-log-handler", "leave it out; what happens is said on stderr"},
    {"logs-specs", "write --log-dir, --redirects and --tee"},
    {"numa-binding", "write -- numactl --cpunodebind=NODE PROGRAM"},
    {"use-env", "leave it out; each rank finds its number in LOCAL_RANK, and no rank gets an argument --local-rank"},
    {"virtual-local-rank", "leave it out; let the program choose its GPU by LOCAL_RANK"},
};
// clang-format on

enum { LAUNCH_OPTION_COUNT = sizeof launch_table / sizeof *launch_table };

const OptionTable launch_options = {.rows = launch_table,
                                    .count = LAUNCH_OPTION_COUNT,
                                    .command = "launch",
                                    .foreign = refused,
                                    .foreign_count = sizeof refused / sizeof *refused,
                                    .foreigner = "torchrun"};

static const char default_address[] = "127.0.0.1";
enum { DEFAULT_PORT = 29500 };

// torchrun's launchers (Kubeflow) pass options as variables, such as PET_NPROC_PER_NODE for --nproc-per-node.
static const char *find_variable(char variable[64], const char *name) {
    char *end = variable + snprintf(variable, 64, "PET_%s", name);
    for (char *c = variable; c < end; c++)
        *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
    const char *value = getenv(variable);
    return value && value[0] ? value : NULL;
}

static Status read_variables(LaunchOptions *options, Error *err) {
    char variable[64], where[72];
    for (int i = 0; i < LAUNCH_OPTION_COUNT; i++) {
        const char *value = find_variable(variable, launch_table[i].name);
        if (!value) continue;
        if (launch_table[i].type == OPTION_FLAG && strcmp(value, "0") == 0) value = "false";
        if (launch_table[i].type == OPTION_FLAG && strcmp(value, "1") == 0) value = "true";
        snprintf(where, sizeof where, "%s: ", variable);
        TRY(option_read(options, &launch_table[i], value, where, err));
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (find_variable(variable, refused[i].name))
            return fail(err, STATUS_USAGE, "%s: of torchrun, not of sounder launch; unset it; --%s: %s", variable,
                        refused[i].name, refused[i].remedy);
    return STATUS_OK;
}

Status launch_options_parse(LaunchOptions *options, int argc, char **argv, Error *err) {
    *options = (LaunchOptions){.node_rank = -1};
    for (int i = 0; i < LAUNCH_OPTION_COUNT; i++)
        if (launch_table[i].preset) TRY(option_read(options, &launch_table[i], launch_table[i].preset, "", err));
    TRY(read_variables(options, err));
    int next = 0;
    const char *seen[LAUNCH_OPTION_COUNT] = {NULL};
    while (next < argc && argv[next][0] == '-' && strcmp(argv[next], "--") != 0) {
        if (strcmp(argv[next], "--help") == 0 || strcmp(argv[next], "-h") == 0) {
            options->help = true;
            return STATUS_OK;
        }
        TRY(option_read_next(options, seen, &next, argc, argv, &launch_options, err));
    }
    if (next < argc && strcmp(argv[next], "--") == 0) next++;
    options->program = argv + next;
    options->program_count = argc - next;
    return STATUS_OK;
}

// Derived values ------------------------------------------------------------------------------------------------------

static bool ends_in_py(const char *name) {
    size_t length = strlen(name);
    return length > 3 && strcmp(name + length - 3, ".py") == 0;
}

static Status check_program(const LaunchOptions *options, Error *err) {
    if (options->program_count == 0)
        return fail(err, STATUS_USAGE,
                    "sounder launch: needs a program; write sounder launch -n 4 -- PROGRAM ARGUMENTS");
    if (options->module && options->no_python)
        return fail(err, STATUS_USAGE, "--module: a Python module needs Python; leave --no-python out");
    const char *name = options->program[0], *slash = strrchr(name, '/');
    const char *command = options->program_count > 1 ? options->program[1] : "";
    if (strcmp(slash ? slash + 1 : name, "sounder") == 0 && (options->ranks > 1 || options->nnodes > 1) &&
        (strcmp(command, "train") == 0 || strcmp(command, "sweep") == 0))
        return fail(err, STATUS_USAGE,
                    "sounder launch: starts programs of yours, and %d times the same sounder %s; leave launch out: "
                    "sounder train starts its own --workers, and on several machines mpirun starts it",
                    options->ranks, command);
    if (!options->module && !options->no_python && ends_in_py(name) && access(name, R_OK) != 0)
        return fail_errno(err, STATUS_NOINPUT, "%.400s: cannot be read", name);
    return STATUS_OK;
}

static Status resolve_ranks(LaunchOptions *options, Error *err) {
    const char *text = options->nproc_per_node;
    bool is_auto = strcmp(text, "auto") == 0, is_gpu = strcmp(text, "gpu") == 0;
    int gpus = is_auto || is_gpu ? gpus_visible(getenv("CUDA_VISIBLE_DEVICES"), "/dev") : 0;
    if (is_gpu && gpus == 0)
        return fail(err, STATUS_UNAVAILABLE, "--nproc-per-node gpu: no GPU is visible; write cpu, or a number");
    if (gpus > 0) {
        options->ranks = gpus;
    } else if (is_auto || strcmp(text, "cpu") == 0) {
        options->ranks = cores_usable();
    } else {
        long number;
        if (*text_whole(&number, text) || number < 1 || number > LAUNCH_MAX_RANKS)
            return fail(err, STATUS_USAGE,
                        "--nproc-per-node %.60s: needs auto, cpu, gpu or a whole number from 1 to %d", text,
                        LAUNCH_MAX_RANKS);
        options->ranks = (int)number;
    }
    if (options->ranks > LAUNCH_MAX_RANKS) options->ranks = LAUNCH_MAX_RANKS;
    return STATUS_OK;
}

// Reads "2", or torchrun's range with equal ends, because the number of machines cannot change during a run.
static Status resolve_nodes(LaunchOptions *options, Error *err) {
    enum { MOST = 65536 };
    const char *text = options->nnodes_text;
    long least, most;
    const char *end = text_whole(&least, text);
    most = least;
    if (*end == ':') end = text_whole(&most, end + 1);
    if (*end || least < 1 || most < least || most > MOST)
        return fail(err, STATUS_USAGE, "--nnodes %.60s: needs a whole number from 1 to %d", text, MOST);
    if (least != most)
        return fail(err, STATUS_USAGE, "--nnodes %.60s: the number of machines cannot change; write --nnodes %ld", text,
                    most);
    options->nnodes = (int)most;
    return STATUS_OK;
}

// --rdzv-endpoint into --master-addr and --master-port.
static Status resolve_endpoint(LaunchOptions *options, Error *err) {
    const char *backend = options->rdzv_backend, *endpoint = options->rdzv_endpoint, *port_text;
    long port = 0; // 0 means any port; torchrun users write it for the default, which it becomes here
    if (strcmp(backend, "static") != 0 && strcmp(backend, "c10d") != 0)
        return fail(err, STATUS_USAGE,
                    "--rdzv-backend %.60s: is not here; write --nnodes N --node-rank K --master-addr HOST", backend);
    // torchrun ignores --rdzv-endpoint with --standalone, too
    if (!endpoint[0] || options->standalone) return STATUS_OK;
    if (options->master_addr[0] || options->master_port)
        return fail(err, STATUS_USAGE,
                    "--rdzv-endpoint %.60s: says the same as --master-addr and --master-port; give one", endpoint);
    if (!text_split_address(options->master_addr, sizeof options->master_addr, &port_text, endpoint) ||
        (port_text && *text_whole(&port, port_text)) || port < 0 || port > 65535)
        return fail(err, STATUS_USAGE, "--rdzv-endpoint %.60s: needs HOST:PORT", endpoint);
    options->master_port = (int)port;
    return STATUS_OK;
}

static Status resolve_address(LaunchOptions *options, Error *err) {
    TRY(resolve_nodes(options, err));
    TRY(resolve_endpoint(options, err));
    if (options->standalone) {
        if (options->nnodes > 1 || options->node_rank > 0 || options->master_addr[0] || options->master_port)
            return fail(err, STATUS_USAGE,
                        "--standalone: stands for one machine and a free port; leave --nnodes, --node-rank, "
                        "--master-addr and --master-port out");
        options->node_rank = 0;
        strcpy(options->master_addr, default_address);
        return STATUS_OK;
    }
    if (options->nnodes > 1 && options->node_rank < 0)
        return fail(err, STATUS_USAGE, "--nnodes %d: needs --node-rank, from 0 to %d, to tell the machines apart",
                    options->nnodes, options->nnodes - 1);
    if (options->node_rank >= options->nnodes)
        return fail(err, STATUS_USAGE, "--node-rank %d: of --nnodes %d the last is %d", options->node_rank,
                    options->nnodes, options->nnodes - 1);
    if (options->node_rank < 0) options->node_rank = 0;
    if (!options->master_addr[0]) strcpy(options->master_addr, default_address);
    if (!options->master_port) options->master_port = DEFAULT_PORT;
    return STATUS_OK;
}

// Reads "0,2": the output of all other ranks stays off the console.
static Status resolve_filter(LaunchOptions *options, Error *err) {
    const char *text = options->local_ranks_filter;
    memset(options->hidden, text[0] != '\0', sizeof options->hidden);
    for (const char *next = text; *next;) {
        long rank;
        const char *end = text_whole(&rank, next);
        if (rank < 0 || (*end && (*end != ',' || !end[1])))
            return fail(err, STATUS_USAGE, "--local-ranks-filter %.60s: needs local ranks such as 0,2", text);
        if (rank >= options->ranks)
            return fail(err, STATUS_USAGE,
                        "--local-ranks-filter %.60s: there are %d ranks on this machine, the last is %d", text,
                        options->ranks, options->ranks - 1);
        options->hidden[rank] = false;
        next = end + (*end == ',');
    }
    return STATUS_OK;
}

// Reads "3", or "0:1,2:3": one digit from 0 to 3 for all ranks, or one per rank.
static Status resolve_streams(uint8_t streams[LAUNCH_MAX_RANKS], const char *text, const char *name, int ranks,
                              Error *err) {
    if (text[0] >= '0' && text[0] <= '3' && !text[1]) {
        memset(streams, text[0] - '0', LAUNCH_MAX_RANKS);
        return STATUS_OK;
    }
    for (const char *next = text; *next;) {
        long rank;
        const char *colon = text_whole(&rank, next);
        const bool good = rank >= 0 && *colon == ':' && colon[1] >= '0' && colon[1] <= '3';
        if (!good || (colon[2] && (colon[2] != ',' || !colon[3])))
            return fail(err, STATUS_USAGE,
                        "--%s %.60s: needs 0 to 3 (1 stdout, 2 stderr, 3 both), or a list such as 0:3,1:2", name, text);
        if (rank >= ranks)
            return fail(err, STATUS_USAGE, "--%s %.60s: there are %d ranks on this machine, the last is %d", name, text,
                        ranks, ranks - 1);
        streams[rank] = (uint8_t)(colon[1] - '0');
        next = colon + 2 + (colon[2] == ',');
    }
    return STATUS_OK;
}

Status launch_options_resolve(LaunchOptions *options, Error *err) {
    TRY(resolve_ranks(options, err));
    TRY(resolve_address(options, err));
    TRY(check_program(options, err));
    bool only_folder = options->log_dir[0] && !options->redirects[0] && !options->tee[0];
    TRY(resolve_streams(options->redirected, options->redirects, "redirects", options->ranks, err));
    TRY(resolve_streams(options->teed, only_folder ? "3" : options->tee, "tee", options->ranks, err));
    TRY(resolve_filter(options, err));
    return STATUS_OK;
}

bool launch_options_log(const LaunchOptions *options) {
    for (int rank = 0; rank < options->ranks; rank++)
        if (options->redirected[rank] || options->teed[rank]) return true;
    return false;
}

static int count_device_files(const char *folder) {
    static const char stem[] = "nvidia";
    DIR *directory = opendir(folder);
    if (!directory) return 0;
    int gpus = 0;
    for (const struct dirent *entry; (entry = readdir(directory));) {
        const char *number = entry->d_name + strlen(stem);
        if (strncmp(entry->d_name, stem, strlen(stem)) == 0 && *number && !number[strspn(number, "0123456789")]) gpus++;
    }
    closedir(directory);
    return gpus;
}

int gpus_visible(const char *visible_devices, const char *folder) {
    const int gpus = count_device_files(folder);
    if (!visible_devices || gpus == 0) return gpus;
    int visible = 0;
    for (const char *item = visible_devices; *item; item += *item == ',') {
        bool is_number = !isalpha((unsigned char)*item);
        if (is_number && (!isdigit((unsigned char)*item) || atoi(item) >= gpus)) break;
        visible++;
        item += strcspn(item, ",");
    }
    return visible;
}
