// The options of `sounder launch`: spellings, where they end, what follows from them, and every refusal.
#include "app/launch/launch_options.h"

#include <stdlib.h>
#include <string.h>

#include "base/cores.h"
#include "tests/check.h"
#include "tests/scratch.h"

enum { MAX_ARGUMENTS = 32, LINE_BYTES = 1024 };

// Splits a command line at blanks, parses and resolves it.
static Status read_line(LaunchOptions *options, const char *line, Error *err) {
    static char text[LINE_BYTES]; // options->program points into it until the next call
    static char *arguments[MAX_ARGUMENTS];
    char *rest = text;
    int count = 0;
    assert_true(strlen(line) < sizeof text);
    strcpy(text, line);
    while (*line && rest)
        arguments[count++] = strsep(&rest, " ");
    TRY(launch_options_parse(options, count, arguments, err));
    return launch_options_resolve(options, err);
}

static void defaults_are_those_of_torchrun(void **state) {
    (void)state;
    LaunchOptions options;
    Error err;
    check_ok(read_line(&options, "program", &err));
    assert_int_equal(options.ranks, 1);
    assert_int_equal(options.nnodes, 1);
    assert_int_equal(options.node_rank, 0);
    assert_string_equal(options.master_addr, "127.0.0.1");
    assert_int_equal(options.master_port, 29500);
    assert_int_equal(options.max_restarts, 0);
    assert_true(options.grace_seconds == 30);
    assert_false(options.module || options.no_python || options.standalone || options.help);
    assert_false(launch_options_log(&options));
}

static void names_are_taken_with_dashes_underscores_equals_and_as_letters(void **state) {
    (void)state;
    static const char *const lines[] = {
        "--nproc-per-node 4 --master-port 1234 --module p", "--nproc_per_node 4 --master_port 1234 --module p",
        "--nproc-per-node=4 --master_port=1234 -m p",       "-n 4 --master-port=1234 --module=true -- p",
        "-n4 --no-python=false --master-port 1234 -m p",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        LaunchOptions options;
        Error err;
        check_ok(read_line(&options, lines[i], &err));
        assert_int_equal(options.ranks, 4);
        assert_int_equal(options.master_port, 1234);
        assert_true(options.module);
        assert_int_equal(options.program_count, 1);
        assert_string_equal(options.program[0], "p");
    }
}

static void the_options_end_at_the_program_and_a_double_dash_is_dropped_once(void **state) {
    (void)state;
    LaunchOptions options;
    Error err;
    check_ok(read_line(&options, "-n 2 program -n 3 -- --help", &err));
    assert_int_equal(options.ranks, 2);
    assert_int_equal(options.program_count, 5);
    assert_string_equal(options.program[1], "-n");
    check_ok(read_line(&options, "-- -program -- x", &err));
    assert_int_equal(options.program_count, 3);
    assert_string_equal(options.program[0], "-program");
    assert_string_equal(options.program[1], "--");
    for (int i = 0; i < 2; i++) {
        char *arguments[] = {"-n", "2", i ? "-h" : "--help", "--nonsense"};
        check_ok(launch_options_parse(&options, 4, arguments, &err));
        assert_true(options.help);
    }
}

static void ranks_are_counted_by_cores_or_gpus(void **state) {
    (void)state;
    LaunchOptions options;
    Error err;
    check_ok(read_line(&options, "-n cpu p", &err));
    assert_int_equal(options.ranks, cores_usable());
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    check_ok(read_line(&options, "-n auto p", &err));
    assert_int_equal(options.ranks, cores_usable());
    assert_int_equal(read_line(&options, "-n gpu p", &err), STATUS_UNAVAILABLE);
    assert_string_equal(err.message, "--nproc-per-node gpu: no GPU is visible; write cpu, or a number");
    check_ok(read_line(&options, "-n 1024 p", &err));
    assert_int_equal(options.ranks, 1024);
}

static void streams_are_for_all_ranks_or_one_by_one(void **state) {
    (void)state;
    LaunchOptions options;
    Error err;
    check_ok(read_line(&options, "-n 3 -r 0:1,2:3 --tee 2 p", &err));
    assert_int_equal(options.redirected[0], STREAM_STDOUT);
    assert_int_equal(options.redirected[1], 0);
    assert_int_equal(options.redirected[2], STREAM_STDOUT | STREAM_STDERR);
    for (int rank = 0; rank < 3; rank++)
        assert_int_equal(options.teed[rank], STREAM_STDERR);
    assert_true(launch_options_log(&options));
    check_ok(read_line(&options, "-r 0 p", &err));
    assert_false(launch_options_log(&options));
    check_ok(read_line(&options, "--log-dir x p", &err));
    assert_int_equal(options.teed[0], STREAM_STDOUT | STREAM_STDERR);
    check_ok(read_line(&options, "--log-dir x -r1 p", &err));
    assert_int_equal(options.teed[0], 0);
    assert_int_equal(options.redirected[0], STREAM_STDOUT);
}

static void several_machines_are_numbered(void **state) {
    (void)state;
    LaunchOptions options;
    Error err;
    check_ok(read_line(&options, "--nnodes 3 --node-rank 2 --master-addr node0 p", &err));
    assert_int_equal(options.node_rank, 2);
    assert_string_equal(options.master_addr, "node0");
    check_ok(read_line(&options, "--standalone p", &err));
    assert_int_equal(options.master_port, 0);
    assert_string_equal(options.master_addr, "127.0.0.1");
}

typedef struct Refusal {
    const char *line, *sentence;
} Refusal;

static void check_refusals(const Refusal *refusals, size_t count) {
    for (size_t i = 0; i < count; i++) {
        LaunchOptions options;
        Error err = {.message = "(accepted)"};
        Status status = read_line(&options, refusals[i].line, &err);
        assert_string_equal(err.message, refusals[i].sentence);
        assert_int_equal(status, STATUS_USAGE);
    }
}

static void options_of_torchrun_that_are_not_here_are_refused_with_what_to_write(void **state) {
    (void)state;
    static const Refusal refusals[] = {
        {"--rdzv-backend etcd p",
         "--rdzv-backend etcd: is not here; write --nnodes N --node-rank K --master-addr HOST"},
        {"--rdzv-endpoint a:b p", "--rdzv-endpoint a:b: needs HOST:PORT"},
        {"--rdzv-endpoint :1 p", "--rdzv-endpoint :1: needs HOST:PORT"},
        {"--rdzv-endpoint a:1 --master-addr b p",
         "--rdzv-endpoint a:1: says the same as --master-addr and --master-port; give one"},
        {"--rdzv_conf x=1 p", "--rdzv-conf: of torchrun, not of sounder launch; leave it out; group_init and "
                              "init_process_group have a timeout of their own"},
        {"--shutdown-timeout=3 p",
         "--shutdown-timeout: of torchrun, not of sounder launch; write --grace-seconds SECONDS"},
        {"--use_env p", "--use-env: of torchrun, not of sounder launch; leave it out; each rank finds its number in "
                        "LOCAL_RANK, and no rank gets an argument --local-rank"},
        {"-n 2 --local-ranks-filter 0,2 p",
         "--local-ranks-filter 0,2: there are 2 ranks on this machine, the last is 1"},
        {"-n 2 --local-ranks-filter 0, p", "--local-ranks-filter 0,: needs local ranks such as 0,2"},
    };
    check_refusals(refusals, sizeof refusals / sizeof *refusals);
}

static void what_does_not_fit_is_refused_with_one_sentence(void **state) {
    (void)state;
    static const Refusal refusals[] = {
        {"", "sounder launch: needs a program; write sounder launch -n 4 -- PROGRAM ARGUMENTS"},
        {"-n 4 --", "sounder launch: needs a program; write sounder launch -n 4 -- PROGRAM ARGUMENTS"},
        {"-n 2 build/sounder train --out run",
         "sounder launch: starts programs of yours, and 2 times the same sounder train; leave launch out: sounder "
         "train starts its own --workers, and on several machines mpirun starts it"},
        {"-n 0 p", "--nproc-per-node 0: needs auto, cpu, gpu or a whole number from 1 to 1024"},
        {"-n 1025 p", "--nproc-per-node 1025: needs auto, cpu, gpu or a whole number from 1 to 1024"},
        {"-n 4x p", "--nproc-per-node 4x: needs auto, cpu, gpu or a whole number from 1 to 1024"},
        {"-n=4 p", "--nproc-per-node =4: needs auto, cpu, gpu or a whole number from 1 to 1024"},
        {"-n", "--nproc-per-node: needs a value; write --nproc-per-node N"},
        {"-n -- p", "--nproc-per-node: needs a value; write --nproc-per-node N"},
        {"--nproc 2 p", "--nproc: unknown option; did you mean --nproc-per-node?"},
        {"--xyzzy 2 p", "--xyzzy: unknown option; `sounder help launch` lists them"},
        {"-x p", "-x: unknown option; `sounder help launch` lists them"},
        {"- p", "-\"\": unknown option; `sounder help launch` lists them"},
        {"-mx p", "-mx: unknown option; `sounder help launch` lists them"},
        {"--nnodes 1:4 p", "--nnodes 1:4: the number of machines cannot change; write --nnodes 4"},
        {"--nnodes 0 p", "--nnodes 0: needs a whole number from 1 to 65536"},
        {"--nnodes 2x p", "--nnodes 2x: needs a whole number from 1 to 65536"},
        {"--nnodes 2: p", "--nnodes 2:: needs a whole number from 1 to 65536"},
        {"--nnodes 65537 p", "--nnodes 65537: needs a whole number from 1 to 65536"},
        {"--standalone --node-rank 1 p", "--standalone: stands for one machine and a free port; leave --nnodes, "
                                         "--node-rank, --master-addr and --master-port out"},
        {"--nnodes 2 p", "--nnodes 2: needs --node-rank, from 0 to 1, to tell the machines apart"},
        {"--nnodes 2 --node-rank 2 p", "--node-rank 2: of --nnodes 2 the last is 1"},
        {"--master-port 0 p", "--master-port 0: needs a whole number from 1 to 65535"},
        {"--standalone --nnodes 2 p", "--standalone: stands for one machine and a free port; leave --nnodes, "
                                      "--node-rank, --master-addr and --master-port out"},
        {"--standalone --master-port 1 p", "--standalone: stands for one machine and a free port; leave --nnodes, "
                                           "--node-rank, --master-addr and --master-port out"},
        {"-m --no-python p", "--module: a Python module needs Python; leave --no-python out"},
        {"-r 4 p", "--redirects 4: needs 0 to 3 (1 stdout, 2 stderr, 3 both), or a list such as 0:3,1:2"},
        {"-t 0:4 p", "--tee 0:4: needs 0 to 3 (1 stdout, 2 stderr, 3 both), or a list such as 0:3,1:2"},
        {"-t 0:1, p", "--tee 0:1,: needs 0 to 3 (1 stdout, 2 stderr, 3 both), or a list such as 0:3,1:2"},
        {"-t 0:1x p", "--tee 0:1x: needs 0 to 3 (1 stdout, 2 stderr, 3 both), or a list such as 0:3,1:2"},
        {"-t +0:1 p", "--tee +0:1: needs 0 to 3 (1 stdout, 2 stderr, 3 both), or a list such as 0:3,1:2"},
        {"-n 2 -t 2:1 p", "--tee 2:1: there are 2 ranks on this machine, the last is 1"},
        {"--grace-seconds -1 p", "--grace-seconds -1: needs a number from 0 to 86400"},
        {"--grace-seconds=-1 p", "--grace-seconds -1: needs a number from 0 to 86400"},
    };
    check_refusals(refusals, sizeof refusals / sizeof *refusals);
}

static void the_scripts_of_torchrun_users_are_understood(void **state) {
    (void)state;
    LaunchOptions options;
    Error err;
    check_ok(read_line(&options, "--nnodes=1 --nproc_per_node=2 --rdzv_id=101 --rdzv_endpoint=localhost:5972 p", &err));
    assert_string_equal(options.master_addr, "localhost");
    assert_int_equal(options.master_port, 5972);
    assert_string_equal(options.rdzv_id, "101");
    check_ok(read_line(&options, "--nnodes 2:2 --node-rank 1 --rdzv-backend c10d --rdzv-endpoint node0 p", &err));
    assert_int_equal(options.nnodes, 2);
    assert_string_equal(options.master_addr, "node0");
    assert_int_equal(options.master_port, 29500);
    check_ok(read_line(&options, "--rdzv-endpoint [::1]:5972 p", &err));
    assert_string_equal(options.master_addr, "::1");
    assert_int_equal(options.master_port, 5972);
    check_ok(read_line(&options, "--rdzv-endpoint [::1] p", &err));
    assert_string_equal(options.master_addr, "::1");
    assert_int_equal(options.master_port, 29500);
    check_ok(
        read_line(&options, "--standalone --nnodes=1 --node-rank 0 --monitor-interval 1 --start-method fork p", &err));
    check_ok(read_line(&options, "-n 3 --role trainer --local-ranks-filter 0,2 p", &err));
    assert_string_equal(options.role, "trainer");
    assert_true(!options.hidden[0] && options.hidden[1] && !options.hidden[2]);
}

static void variables_of_torchrun_stand_in_for_options_that_are_not_given(void **state) {
    (void)state;
    LaunchOptions options;
    Error err;
    setenv("PET_NPROC_PER_NODE", "3", 1);
    setenv("PET_STANDALONE", "1", 1);
    setenv("PET_MAX_RESTARTS", "", 1);
    check_ok(read_line(&options, "p", &err));
    assert_int_equal(options.ranks, 3);
    assert_true(options.standalone);
    check_ok(read_line(&options, "-n 2 p", &err));
    assert_int_equal(options.ranks, 2);
    setenv("PET_MAX_RESTARTS", "x", 1);
    assert_int_equal(read_line(&options, "p", &err), STATUS_USAGE);
    assert_non_null(strstr(err.message, "PET_MAX_RESTARTS: "));
    unsetenv("PET_MAX_RESTARTS");
    setenv("PET_NUMA_BINDING", "node", 1);
    assert_int_equal(read_line(&options, "p", &err), STATUS_USAGE);
    assert_non_null(strstr(err.message, "PET_NUMA_BINDING: of torchrun"));
    unsetenv("PET_NUMA_BINDING");
    unsetenv("PET_STANDALONE");
    unsetenv("PET_NPROC_PER_NODE");
}

static void gpus_are_device_files_that_cuda_visible_devices_allows(void **state) {
    static const char *const files[] = {"nvidia0", "nvidia1", "nvidia2", "nvidia10", "nvidiactl", "nvidia-uvm", "tty0"};
    char path[SCRATCH_PATH_BYTES];
    assert_int_equal(gpus_visible(NULL, *state), 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        scratch_write(scratch_path(path, *state, files[i]), "", 0);
    assert_int_equal(gpus_visible(NULL, *state), 4);
    assert_int_equal(gpus_visible("", *state), 0);
    assert_int_equal(gpus_visible("0", *state), 1);
    assert_int_equal(gpus_visible("2,0,3", *state), 3);
    assert_int_equal(gpus_visible("1,-1,0", *state), 1);
    assert_int_equal(gpus_visible("0,4,1", *state), 1);
    assert_int_equal(gpus_visible("GPU-1b,MIG-2/3/4", *state), 2);
    assert_int_equal(gpus_visible("0", "/nowhere"), 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_torchrun),
        cmocka_unit_test(names_are_taken_with_dashes_underscores_equals_and_as_letters),
        cmocka_unit_test(the_options_end_at_the_program_and_a_double_dash_is_dropped_once),
        cmocka_unit_test(ranks_are_counted_by_cores_or_gpus),
        cmocka_unit_test(streams_are_for_all_ranks_or_one_by_one),
        cmocka_unit_test(several_machines_are_numbered),
        cmocka_unit_test(the_scripts_of_torchrun_users_are_understood),
        cmocka_unit_test(variables_of_torchrun_stand_in_for_options_that_are_not_given),
        cmocka_unit_test(options_of_torchrun_that_are_not_here_are_refused_with_what_to_write),
        cmocka_unit_test(what_does_not_fit_is_refused_with_one_sentence),
        cmocka_unit_test_setup_teardown(gpus_are_device_files_that_cuda_visible_devices_allows, scratch_set_up,
                                        scratch_tear_down),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
