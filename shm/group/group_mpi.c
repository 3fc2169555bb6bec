// Part of group_transport.h: the transport of ranks that mpirun or srun has started, on one machine or several:
// messages by MPI, everything else as on shared memory.
//
// It uses only point-to-point calls that return at once, and polls them until a deadline: so every wait ends, the
// headers of a call can be compared before its data are waited for, and sums are taken in the order of the ranks, which
// MPI_Allreduce leaves open. Two promises of group.h cannot be kept: mpirun ends all ranks when one dies without
// MPI_Finalize, so PEER_DIED is never returned; and the other ranks are not told of a rank's TIMEOUT or of a message
// that it refuses, but wait until their own deadlines.
#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/owned.h"
#include "shm/group/group_combine.h"
#include "shm/group/group_pass.h"
#include "shm/group/group_transport.h"

enum {
    CHUNK_BYTES = 262144, // of one piece in one step
    TAG_HEADER = 1,
    TAG_PIECE = 2,
    TAG_MESSAGE = 3,
    TAG_DATA = 4,      // to TAG_DATA + DATA_TAGS - 1, by the message's number
    DATA_TAGS = 16384, // the standard guarantees tags up to 32767
    POLLS_BEFORE_SLEEPING = 2000,
};

typedef struct MpiGroup {
    MPI_Comm comm;          // owned
    bool finalizes;         // MPI was started by this group
    Owned owned;            // requests, headers, pieces, sent
    MPI_Request *requests;  // (2 size): of the current exchange; MPI_REQUEST_NULL: nothing to wait for
    GroupCall *headers;     // (size)
    unsigned char *pieces;  // (size, CHUNK_BYTES), allocated at the first combination
    GroupRequest *messages; // not done, in the order they were started
    uint64_t *sent;         // (size): messages to each rank
} MpiGroup;

_Static_assert(sizeof(MPI_Request) <= sizeof(void *), "GroupRequest has room for MPI's requests");

static Status check_mpi(Group *group, int code, const char *what, Error *err) {
    if (code == MPI_SUCCESS) return STATUS_OK;
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    MPI_Error_string(code, text, &length);
    return group_fail(group, fail(&group->error, STATUS_OS, "MPI: %s: %.*s", what, length, text), err);
}

// Between two polls: yields at first, later sleeps, since there may be more ranks than cores.
static void pause_poll(uint32_t *polls) {
    if ((*polls)++ < POLLS_BEFORE_SLEEPING)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

// Exchanges -----------------------------------------------------------------------------------------------------------

// Cancels an exchange; the group is not used again.
static void abandon(MPI_Request *requests, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (requests[i] != MPI_REQUEST_NULL) {
            MPI_Cancel(&requests[i]);
            MPI_Request_free(&requests[i]);
        }
}

// requests[rank] is this rank's receive from `rank`.
static Status fail_by_lateness(Group *group, const GroupCall *call, const MPI_Request *requests, Error *err) {
    bool missing[GROUP_MAX_RANKS];
    for (uint32_t rank = 0; rank < group->size; rank++)
        missing[rank] = requests[rank] != MPI_REQUEST_NULL;
    return group_fail(group, group_call_late(group, call, missing), err);
}

// Compares the headers that have arrived so far with this rank's own.
static Status compare_headers(Group *group, const GroupCall *call, const MPI_Request *requests, Error *err) {
    const MpiGroup *mpi = group->state;
    for (uint32_t rank = 0; rank < group->size; rank++) {
        if (rank == group->rank || requests[rank] != MPI_REQUEST_NULL) continue;
        if (group_call_fits(call, &mpi->headers[rank])) continue;
        group_call_mismatch(call, group->rank, &mpi->headers[rank], rank, &group->error);
        return group_fail(group, STATUS_MISMATCH, err);
    }
    return STATUS_OK;
}

static Status advance_messages(Group *group, Error *err);

// Polls the exchange's 2 size requests: a receive from each rank, then a send to each. compares: they are headers.
static Status finish_exchange(Group *group, const GroupCall *call, bool compares, Error *err) {
    MpiGroup *mpi = group->state;
    int count = 2 * (int)group->size, done = 0;
    uint64_t deadline = clock_nanoseconds() + group->timeout_nanoseconds;
    Status status = STATUS_OK;
    for (uint32_t polls = 0;; pause_poll(&polls)) {
        const bool is_late = clock_nanoseconds() >= deadline; // read first: arrivals until then are in time
        // Tests one by one, so that arrived headers are known while others are missing.
        done = 0;
        for (int i = 0; i < count && status == STATUS_OK; i++) {
            int finished = 0;
            status = check_mpi(group, MPI_Test(&mpi->requests[i], &finished, MPI_STATUS_IGNORE), "exchange", err);
            done += finished;
        }
        if (status == STATUS_OK && compares) status = compare_headers(group, call, mpi->requests, err);
        if (status == STATUS_OK && done < count) status = advance_messages(group, err);
        if (status == STATUS_OK && done < count && is_late) status = fail_by_lateness(group, call, mpi->requests, err);
        if (status != STATUS_OK) abandon(mpi->requests, (uint32_t)count);
        if (status != STATUS_OK || done == count) return status;
    }
}

static Status exchange_headers(Group *group, const GroupCall *call, Error *err) {
    MpiGroup *mpi = group->state;
    for (uint32_t rank = 0; rank < group->size; rank++) {
        if (rank == group->rank) continue;
        MPI_Irecv(&mpi->headers[rank], sizeof *call, MPI_BYTE, (int)rank, TAG_HEADER, mpi->comm, &mpi->requests[rank]);
        MPI_Isend(call, sizeof *call, MPI_BYTE, (int)rank, TAG_HEADER, mpi->comm, &mpi->requests[group->size + rank]);
    }
    return finish_exchange(group, call, true, err);
}

// Where a piece is stored until all pieces to combine have arrived.
static unsigned char *waiting_piece(const MpiGroup *mpi, uint32_t publisher) {
    return mpi->pieces + (size_t)publisher * CHUNK_BYTES;
}

static Status exchange_pieces(Group *group, const Pass *pass, const Chunk *chunk, Error *err) {
    MpiGroup *mpi = group->state;
    size_t element = group_type_bytes((GroupType)pass->call->type);
    uint32_t self = group->rank;
    for (uint32_t rank = 0; rank < group->size; rank++) {
        if (rank == self) continue;
        size_t in = pass_piece_length(pass, chunk, rank, self), out = pass_piece_length(pass, chunk, self, rank);
        if (in > 0 && pass_concerns(pass->publisher, rank) && pass_concerns(pass->reader, self))
            MPI_Irecv(pass->combines ? waiting_piece(mpi, rank) : pass_place(pass, chunk, rank), (int)(in * element),
                      MPI_BYTE, (int)rank, TAG_PIECE, mpi->comm, &mpi->requests[rank]);
        if (out > 0 && pass_concerns(pass->publisher, self) && pass_concerns(pass->reader, rank))
            MPI_Isend(pass_own_piece(pass, chunk, rank), (int)(out * element), MPI_BYTE, (int)rank, TAG_PIECE,
                      mpi->comm, &mpi->requests[group->size + rank]);
    }
    return finish_exchange(group, pass->call, false, err);
}

// Copies or combines the pieces of a chunk, this rank's own included.
static void use_pieces(const Group *group, const Pass *pass, const Chunk *chunk) {
    const MpiGroup *mpi = group->state;
    uint32_t self = group->rank;
    size_t length = pass_piece_length(pass, chunk, self, self);
    if (!pass_concerns(pass->reader, self) || length == 0) return;
    const unsigned char *own = pass_own_piece(pass, chunk, self);
    unsigned char *place = pass_place(pass, chunk, self);
    if (!pass->combines) {
        size_t bytes = length * group_type_bytes((GroupType)pass->call->type);
        if (pass_concerns(pass->publisher, self) && place != own) memcpy(place, own, bytes);
        return;
    }
    const void *inputs[GROUP_MAX_RANKS];
    for (uint32_t rank = 0; rank < group->size; rank++)
        inputs[rank] = rank == self ? own : waiting_piece(mpi, rank);
    group_combine(place, inputs, group->size, length, (GroupType)pass->call->type, (GroupOp)pass->call->op);
}

static Status run_pass(Group *group, const Pass *pass, Error *err) {
    MpiGroup *mpi = group->state;
    Chunk chunk = {.most = CHUNK_BYTES / group_type_bytes((GroupType)pass->call->type)};
    if (pass->combines && !mpi->pieces) {
        mpi->pieces = own(&mpi->owned, group->size, CHUNK_BYTES);
        if (!mpi->pieces)
            return group_fail(
                group, fail(&group->error, STATUS_OS, "out of memory for sums of a group of %u ranks", group->size),
                err);
    }
    TRY(exchange_headers(group, pass->call, err));
    for (; chunk.begin < pass->row_elements; chunk.begin += chunk.most) {
        TRY(exchange_pieces(group, pass, &chunk, err));
        use_pieces(group, pass, &chunk);
    }
    return STATUS_OK;
}

static Status collective(Group *group, const GroupCall *call, void *out, const void *in, Error *err) {
    return group_run_passes(group, call, out, in, run_pass, err);
}

// Messages ------------------------------------------------------------------------------------------------------------

// A message is its header, then its data under a tag of its own, since requests for any rank and for one rank may be in
// transfer at the same time.
enum { HEADER_COUNT, HEADER_TYPE, HEADER_NUMBER, HEADER_WORDS };

enum { MESSAGE_HEADER, MESSAGE_DATA };

static MPI_Request *request_of(GroupRequest *request, int part) {
    return (MPI_Request *)&request->transport[part];
}

// Starts to send or receive one of the two. peer: a rank, or MPI_ANY_SOURCE.
static Status transfer(Group *group, GroupRequest *request, int part, int peer, Error *err) {
    const MpiGroup *mpi = group->state;
    const bool is_data = part == MESSAGE_DATA;
    void *place = is_data ? request->data : request->header;
    const int bytes = is_data ? (int)request->bytes : HEADER_WORDS * (int)sizeof *request->header;
    const int tag = is_data ? TAG_DATA + (int)(request->number % DATA_TAGS) : TAG_MESSAGE;
    MPI_Request *started = request_of(request, part);
    return request->is_send
               ? check_mpi(group, MPI_Isend(place, bytes, MPI_BYTE, peer, tag, mpi->comm, started), "send", err)
               : check_mpi(group, MPI_Irecv(place, bytes, MPI_BYTE, peer, tag, mpi->comm, started), "receive", err);
}

// A send starts the transfer of header and data. A receive only expects a header at first, because its sender may be
// any rank; the data are expected when the header has arrived (expect_data).
static Status start(Group *group, GroupRequest *request, Error *err) {
    MpiGroup *mpi = group->state;
    if (request->bytes > INT32_MAX)
        return fail(err, STATUS_USAGE, "a message of %zu bytes: by MPI a message has at most 2 GiB", request->bytes);
    GroupRequest **link = &mpi->messages;
    while (*link)
        link = &(*link)->next;
    *link = request;
    group->pending++;
    *request_of(request, MESSAGE_HEADER) = *request_of(request, MESSAGE_DATA) = MPI_REQUEST_NULL;
    if (!request->is_send)
        return transfer(group, request, MESSAGE_HEADER, request->peer == GROUP_ANY ? MPI_ANY_SOURCE : request->peer,
                        err);
    request->number = ++mpi->sent[request->peer];
    request->header[HEADER_COUNT] = request->count;
    request->header[HEADER_TYPE] = (uint64_t)request->type;
    request->header[HEADER_NUMBER] = request->number;
    request->started = true;
    TRY(transfer(group, request, MESSAGE_HEADER, request->peer, err));
    return transfer(group, request, MESSAGE_DATA, request->peer, err);
}

// The header of a message has arrived: receives the data if count and type fit.
static Status expect_data(Group *group, GroupRequest *request, int source, Error *err) {
    request->peer = source;
    request->number = request->header[HEADER_NUMBER];
    request->started = true;
    if (request->header[HEADER_COUNT] == request->count && request->header[HEADER_TYPE] == (uint64_t)request->type)
        return transfer(group, request, MESSAGE_DATA, source, err);
    group_message_mismatch(group, request, request->header[HEADER_COUNT], (uint32_t)request->header[HEADER_TYPE]);
    return group_fail(group, STATUS_MISMATCH, err);
}

static Status advance_message(Group *group, GroupRequest *request, Error *err) {
    int done = 0;
    MPI_Status status;
    TRY(check_mpi(group, MPI_Test(request_of(request, MESSAGE_HEADER), &done, &status), "message", err));
    if (!done) return STATUS_OK;
    if (!request->started) TRY(expect_data(group, request, status.MPI_SOURCE, err));
    TRY(check_mpi(group, MPI_Test(request_of(request, MESSAGE_DATA), &done, MPI_STATUS_IGNORE), "message", err));
    request->done = done;
    return STATUS_OK;
}

static Status advance_messages(Group *group, Error *err) {
    MpiGroup *mpi = group->state;
    for (GroupRequest **link = &mpi->messages; *link;) {
        TRY(advance_message(group, *link, err));
        if ((*link)->done) {
            *link = (*link)->next;
            group->pending--;
        } else {
            link = &(*link)->next;
        }
    }
    return STATUS_OK;
}

static Status test(Group *group, GroupRequest *request, Error *err) {
    (void)request; // all messages advance
    return advance_messages(group, err);
}

static Status wait(Group *group, GroupRequest *request, Error *err) {
    uint64_t deadline = clock_nanoseconds() + group->timeout_nanoseconds;
    for (uint32_t polls = 0; !request->done; pause_poll(&polls)) {
        TRY(advance_messages(group, err));
        if (request->done || clock_nanoseconds() < deadline) continue;
        return group_fail(group, group_message_late(group, request), err);
    }
    return STATUS_OK;
}

// Life ----------------------------------------------------------------------------------------------------------------

static void mpi_free(MpiGroup *mpi) {
    owned_free(&mpi->owned);
    free(mpi);
}

static Status mpi_new(MpiGroup **made, uint32_t size, Error *err) {
    MpiGroup *mpi = calloc(1, sizeof *mpi);
    if (mpi) {
        mpi->requests = own(&mpi->owned, 2 * (size_t)size, sizeof(MPI_Request));
        mpi->headers = own(&mpi->owned, size, sizeof *mpi->headers);
        mpi->sent = own(&mpi->owned, size, sizeof *mpi->sent);
    }
    if (!mpi || mpi->owned.lacks_memory) {
        if (mpi) mpi_free(mpi);
        return fail(err, STATUS_OS, "out of memory for a group of %u ranks", size);
    }
    for (uint32_t i = 0; i < 2 * size; i++)
        mpi->requests[i] = MPI_REQUEST_NULL;
    *made = mpi;
    return STATUS_OK;
}

// After a failure other ranks may still send: MPI is not finalized then, and mpirun ends the remaining processes.
static void release(Group *group, bool failed) {
    MpiGroup *mpi = group->state;
    if (!failed) {
        MPI_Comm_free(&mpi->comm);
        if (mpi->finalizes) MPI_Finalize();
    }
    mpi_free(mpi);
}

static Status split(Group *part, Group *parent, const uint32_t *members, Error *err) {
    MpiGroup *mpi = NULL, *whole = parent->state;
    MPI_Comm comm;
    Status made = part ? mpi_new(&mpi, part->size, err) : STATUS_OK;
    int colour = part ? (int)members[0] : MPI_UNDEFINED, key = part ? (int)part->rank : 0;
    // All ranks have just met, so this does not wait long.
    Status status = check_mpi(parent, MPI_Comm_split(whole->comm, colour, key, &comm), "split", err);
    if (made != STATUS_OK || status != STATUS_OK || !part) {
        if (mpi) mpi_free(mpi);
        return made != STATUS_OK ? made : status;
    }
    mpi->comm = comm;
    part->state = mpi;
    return STATUS_OK;
}

static const GroupTransport mpi_transport = {
    .collective = collective, .start = start, .wait = wait, .test = test, .split = split, .release = release};

static Status start_mpi(bool *started, Error *err) {
    int initialized = 0, finalized = 0, granted;
    *started = false;
    MPI_Finalized(&finalized);
    if (finalized) return fail(err, STATUS_UNAVAILABLE, "mpi://: MPI can be started only once in a process");
    MPI_Initialized(&initialized);
    if (initialized) return STATUS_OK;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &granted) != MPI_SUCCESS)
        return fail(err, STATUS_UNAVAILABLE, "mpi://: MPI does not start; is this process started by mpirun or srun?");
    *started = true;
    return STATUS_OK;
}

static uint32_t find_local_rank(MPI_Comm comm) {
    MPI_Comm machine;
    int rank = 0;
    MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    MPI_Comm_rank(machine, &rank);
    MPI_Comm_free(&machine);
    return (uint32_t)rank;
}

static Status check_identity(const GroupPlace *place, int rank, int size, Error *err) {
    if (size > GROUP_MAX_RANKS)
        return fail(err, STATUS_USAGE, "mpi://: a group has 1 to %d ranks, not %d", GROUP_MAX_RANKS, size);
    if ((place->rank >= 0 && place->rank != rank) || (place->size >= 0 && place->size != size))
        return fail(err, STATUS_USAGE, "mpi://: MPI says rank %d of %d, the configuration rank %d of %d", rank, size,
                    place->rank, place->size);
    return STATUS_OK;
}

// The program may have started MPI itself; the group ends MPI only if it has started it.
Status group_mpi_open(Group *group, const GroupPlace *place, Error *err) {
    bool started;
    int rank, size;
    MpiGroup *mpi = NULL;
    TRY(start_mpi(&started, err));
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    Status status = check_identity(place, rank, size, err);
    if (status == STATUS_OK) status = mpi_new(&mpi, (uint32_t)size, err);
    if (status != STATUS_OK) {
        if (started) MPI_Finalize();
        return status;
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &mpi->comm);
    MPI_Comm_set_errhandler(mpi->comm, MPI_ERRORS_RETURN); // sub-groups inherit it
    mpi->finalizes = started;
    group->transport = &mpi_transport;
    group->state = mpi;
    group->rank = (uint32_t)rank;
    group->size = (uint32_t)size;
    group->local_rank = find_local_rank(mpi->comm);
    return STATUS_OK;
}
