// Who comes to a meeting of ranks without belonging there, and what rank 0 sends that is none of its messages.
#include "ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "shm/group/rendezvous.h"
#include "shm/group/rendezvous_message.h"

enum { NOBODY = 65534, STRANGERS = 400 };

// A socket connected to the meeting at a name of the abstract namespace, as soon as it is there.
static int come_to(const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path + 1, name, strlen(name));
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    while (connect(fd, (struct sockaddr *)&address, bytes) != 0)
        usleep(1000);
    return fd;
}

static void finish_with_a_sum(Group *group, const void *context) {
    (void)context;
    Error err = {.message = ""};
    uint32_t sum = group_rank(group);
    require_ok(group_all_reduce(group, &sum, &sum, 1, GROUP_I32, GROUP_SUM, &err));
    require(sum == group_size(group) * (group_size(group) - 1) / 2);
    require_ok(group_finish(group, &err));
}

// A rank that meets at a port; its processor time must stay below a third of what a spinning wait would have taken.
static pid_t start_frugal_rank(const char *place, int rank, int size) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid != 0) return pid;
    deadline_join();
    Error err = {.message = ""};
    Group *group;
    const GroupConfig config = {.init = place, .rank = rank, .size = size, .timeout_seconds = 60};
    require_ok(group_init(&group, &config, &err));
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    require(used.ru_utime.tv_sec + used.ru_stime.tv_sec < GUEST_SILENCE_SECONDS / 3);
    finish_with_a_sum(group, NULL);
    _exit(0);
}

static void name_of_port(char name[64], int port) {
    snprintf(name, 64, "sounder-group-%u-port-%d", getuid(), port);
}

// A process that holds `count` connections to the meeting and never speaks.
static pid_t start_silent_crowd(const char *name, int count, bool of_another_user) {
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        deadline_join();
        if (of_another_user && setresuid(NOBODY, NOBODY, NOBODY) != 0) _exit(1);
        deadline_join(); // once more: a change of the user undoes it
        for (int i = 0; i < count; i++) {
            come_to(name);
            if (i == GUESTS_MOST && write(ready[1], "", 1) != 1) _exit(1); // every place is taken, and the queue begun
        }
        for (;;)
            pause();
    }
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

// Rank 0 waits, a crowd comes and stays, and the other ranks must get in all the same.
static void ranks_meet_beside_a_crowd(int count, bool of_another_user) {
    enum { SIZE = 3 };
    char place[64], name[64];
    int port = reserve_port();
    snprintf(place, sizeof place, "tcp://127.0.0.1:%d", port);
    name_of_port(name, port);
    pid_t pids[SIZE] = {start_frugal_rank(place, 0, SIZE)};
    pid_t crowd = start_silent_crowd(name, count, of_another_user);
    for (int rank = 1; rank < SIZE; rank++)
        pids[rank] = start_rank(&(GroupConfig){.init = place, .rank = rank, .size = SIZE, .timeout_seconds = 60},
                                finish_with_a_sum, NULL);
    int bad = wait_for_ranks(pids, SIZE);
    kill(crowd, SIGKILL);
    waitpid(crowd, NULL, 0);
    assert_int_equal(bad, 0);
}

static void silent_connections_of_other_users_do_not_keep_a_group_from_meeting(void **state) {
    (void)state;
    if (getuid() != 0) skip(); // only root can become somebody else
    ranks_meet_beside_a_crowd(STRANGERS, true);
}

static void a_stranger_is_turned_away_at_the_door(void **state) {
    (void)state;
    if (getuid() != 0) skip();
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t bytes = sizeof(sa_family_t); // the kernel chooses a name
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, bytes), 0);
    assert_int_equal(listen(listener, 4), 0);
    bytes = sizeof address;
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
    int own = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    int strange = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(seteuid(NOBODY), 0); // what the listener learns of a peer is its effective user
    assert_int_equal(connect(strange, (struct sockaddr *)&address, bytes), 0);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(connect(own, (struct sockaddr *)&address, bytes), 0);
    Guests guests;
    guests_init(&guests);
    guests_let_in(&guests, listener);
    assert_true(guests.sockets[0] >= 0);
    assert_int_equal(guests.sockets[1], -1);
    char byte;
    assert_int_equal(recv(strange, &byte, 1, MSG_DONTWAIT), 0); // closed
    assert_int_equal(recv(own, &byte, 1, MSG_DONTWAIT), -1);    // waiting
    guests_free(&guests);
    close(listener);
    close(own);
    close(strange);
}

static void silent_connections_of_the_same_user_lose_their_places_to_the_ranks(void **state) {
    (void)state;
    ranks_meet_beside_a_crowd(GUESTS_MOST + 8, false); // eight are in the queue before the ranks
}

// What rank 0 sends ---------------------------------------------------------------------------------------------------

// The meeting of rank 1 of 2, whose rank 0 is the test itself, at the other end of *rank_0.
static Rendezvous meet_the_test(int *rank_0) {
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    static const GroupPlace place = {.name = "here"};
    Rendezvous meeting = {
        .rank = 1, .size = 2, .listener = -1, .place = &place, .deadline = clock_nanoseconds() + 100000000};
    memset(meeting.pidfds, -1, sizeof meeting.pidfds);
    memset(meeting.sockets, -1, sizeof meeting.sockets);
    guests_init(&meeting.guests);
    meeting.sockets[0] = ends[0];
    *rank_0 = ends[1];
    return meeting;
}

// What rank 1 makes of the bytes of a packet, beside which two descriptors come.
static Status receive_packet(const void *packet, size_t bytes, Error *err) {
    int rank_0, memory_fd = -1;
    Rendezvous meeting = meet_the_test(&rank_0);
    assert_int_equal(packet_send(rank_0, packet, bytes, (int[]){rank_0, rank_0}, 2), 0);
    Status status = rendezvous_receive(&meeting, &memory_fd, err);
    assert_int_equal(memory_fd, -1);
    close(rank_0);
    rendezvous_free(&meeting);
    return status;
}

static uint32_t count_descriptors(void) {
    uint32_t count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void a_message_that_rank_0_cannot_mean_is_refused_and_leaves_no_descriptor(void **state) {
    (void)state;
    const Notice strange[] = {
        {.magic = rendezvous_magic, .kind = NOTICE_REFUSED, .status = STATUS_OK, .text = "all is well"},
        {.magic = rendezvous_magic, .kind = NOTICE_REFUSED, .status = STATUS_MISMATCH + 1, .text = "beyond"},
        {.magic = rendezvous_magic, .kind = NOTICE_REFUSED, .status = UINT32_MAX, .text = "far beyond"},
        {.magic = rendezvous_magic, .kind = NOTICE_WELCOME + 1, .text = "what?"},
        {.magic = rendezvous_magic - 1, .kind = NOTICE_WAITING, .text = "of another version"},
    };
    uint32_t before = count_descriptors();
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        Error err = {.message = ""};
        assert_int_equal(receive_packet(&strange[i], offsetof(Notice, text) + 32, &err), STATUS_MISMATCH);
        assert_non_null(strstr(err.message, "here: what rank 0 sent is not understood"));
    }
    Error err = {.message = ""};
    assert_int_equal(receive_packet(&rendezvous_magic, sizeof rendezvous_magic, &err), STATUS_MISMATCH); // cut short
    assert_int_equal(count_descriptors(), before);
}

static void who_is_silent_goes_once_no_place_is_free_and_who_has_spoken_stays(void **state) {
    (void)state;
    int far[GUESTS_MOST];
    Guests guests;
    guests_init(&guests);
    for (int i = 0; i < GUESTS_MOST; i++) { // all came long ago
        int ends[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
        guests.sockets[i] = ends[0];
        guests.came_nanoseconds[i] = clock_nanoseconds() - 10 * UINT64_C(1000000000);
        far[i] = ends[1];
        if (i < GUESTS_MOST - 1) assert_true(guests_drop_silent(&guests) == UINT64_MAX && guests.sockets[0] >= 0);
    }
    assert_int_equal(packet_send(far[7], "hello", 5, NULL, 0), 0);
    guests_drop_silent(&guests);
    for (int i = 0; i < GUESTS_MOST; i++) {
        assert_int_equal(guests.sockets[i] >= 0, i == 7);
        close(far[i]);
    }
    guests_free(&guests);
}

// A kernel tells of the unread hello first, and of the refusal only then.
static void a_refusal_is_heard_though_rank_0_has_not_read_all(void **state) {
    (void)state;
    int rank_0, memory_fd = -1;
    Error err = {.message = ""};
    Rendezvous meeting = meet_the_test(&rank_0);
    assert_int_equal(packet_send(meeting.sockets[0], "hello", 5, NULL, 0), 0);
    assert_int_equal(notice_send(rank_0, NOTICE_REFUSED, STATUS_MISMATCH, "sizes differ", NULL, 0), 0);
    close(rank_0);
    assert_int_equal(rendezvous_receive(&meeting, &memory_fd, &err), STATUS_MISMATCH);
    assert_string_equal(err.message, "sizes differ");
    rendezvous_free(&meeting);
}

static void descriptors_beside_words_are_closed(void **state) {
    (void)state;
    uint32_t before = count_descriptors();
    Notice notice = {
        .magic = rendezvous_magic, .kind = NOTICE_REFUSED, .status = STATUS_DATA, .text = "the file is not ours"};
    Error err = {.message = ""};
    assert_int_equal(receive_packet(&notice, offsetof(Notice, text) + 32, &err), STATUS_DATA);
    assert_string_equal(err.message, "the file is not ours");
    notice.kind = NOTICE_WAITING;
    assert_int_equal(receive_packet(&notice, offsetof(Notice, text) + 32, &err), STATUS_TIMEOUT);
    assert_non_null(strstr(err.message, "the file is not ours"));
    assert_int_equal(count_descriptors(), before);
}

int main(int argc, char **argv) {
    deadline_set(100);
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silent_connections_of_other_users_do_not_keep_a_group_from_meeting),
        cmocka_unit_test(a_stranger_is_turned_away_at_the_door),
        cmocka_unit_test(silent_connections_of_the_same_user_lose_their_places_to_the_ranks),
        cmocka_unit_test(who_is_silent_goes_once_no_place_is_free_and_who_has_spoken_stays),
        cmocka_unit_test(a_refusal_is_heard_though_rank_0_has_not_read_all),
        cmocka_unit_test(a_message_that_rank_0_cannot_mean_is_refused_and_leaves_no_descriptor),
        cmocka_unit_test(descriptors_beside_words_are_closed),
    };
    return run_cases(argc, argv, tests, NULL, NULL);
}
