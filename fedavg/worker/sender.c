#include "sender.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "fedavg/rules/sum/aggregate.h"
#include "fedavg/rules/world/schedule.h"

enum { STREAM_OF_CLIENTS = 1 }; // of RNG_DP_NOISE: the last number of a key

static const Recipe *recipe_of(const Sender *sender) {
    return &sender->memory->config->recipe;
}

static const SendCode *code_of(const Sender *sender) {
    return sender->memory->algorithm.code;
}

static bool adds_noise(const Sender *sender) {
    return sender->memory->config->release.local_noise > 0;
}

Status sender_init(Sender *sender, const RunMemory *memory, Error *err) {
    const RunConfig *config = memory->config;
    *sender = (Sender){.memory = memory};
    sent_weights(&sender->weights, &memory->tensors, &config->personal, NULL, 0); // no fragment is larger
    const size_t count = sender->weights.count;
    const bool encodes = code_of(sender)->encode, changes = encodes || adds_noise(sender);
    const bool feeds_back = memory->algorithm.traits.has[TRAIT_FEEDS_BACK];
    float **const vectors[] = {&sender->update, &sender->become, &sender->global, &sender->read};
    for (size_t v = 0; v < sizeof vectors / sizeof *vectors; v++)
        *vectors[v] = own(&sender->owned, changes ? count : 0, sizeof(float));
    sender->values = own(&sender->owned, changes ? config->parameters : 0, sizeof(float));
    sender->left = own(&sender->owned, feeds_back ? count : 0, sizeof(float));
    sender->wire = own(&sender->owned, encodes ? send_bytes(&recipe_of(sender)->code, &sender->weights) : 0, 1);
    sender->hash = XXH3_createState();
    if (sender->hash && !sender->owned.lacks_memory) return STATUS_OK;
    sender_free(sender);
    return fail(err, STATUS_OS, "no memory to encode an update of %zu parameters", count);
}

void sender_free(Sender *sender) {
    XXH3_freeState(sender->hash);
    owned_free(&sender->owned);
    *sender = (Sender){0};
}

// The job has the length already if the run inspects updates; the model is then read one time less.
static double clip(const Sender *sender, Job *job, const float *trained) {
    const RunMemory *memory = sender->memory;
    const size_t parameters = memory->config->parameters;
    job->clipped = 0;
    if (!memory->algorithm.traits.has[TRAIT_CLIPS]) return 1;
    const double squared = !isnan(job->squared_length) ? job->squared_length
                                                       : aggregate_squared_update(trained, memory->weights, parameters);
    const double factor = clip_factor(squared, memory->control->clip);
    assert(factor > 0 && factor <= 1);
    job->clipped = factor < 1;
    return factor;
}

bool sender_is_idle(const Sender *sender) {
    return !sender->update && !sender->memory->algorithm.traits.has[TRAIT_CLIPS];
}

// Copies the weights that are sent, of all (parameters), into one vector; scatter copies them back. Parameters that
// stay with clients are neither clipped, nor encoded, nor counted in bytes.
static void gather(float *sent, const float *all, const SentWeights *weights) {
    for (uint32_t r = 0; r < weights->run_count; r++) {
        const PersonalRun run = weights->runs[r];
        memcpy(sent, all + run.first, (run.end - run.first) * sizeof *sent);
        sent += run.end - run.first;
    }
}

static void scatter(float *all, const float *sent, const SentWeights *weights) {
    for (uint32_t r = 0; r < weights->run_count; r++) {
        const PersonalRun run = weights->runs[r];
        memcpy(all + run.first, sent, (run.end - run.first) * sizeof *sent);
        sent += run.end - run.first;
    }
}

// Fills in update and become (count); become holds the trained weights. An element that clipping leaves alone becomes
// exactly what was trained, not global + (trained - global), which rounds.
AGGREGATE_VECTORS static void fill_payload(float *restrict update, float *restrict become, const float *restrict global,
                                           double factor, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const double change = ((double)become[i] - (double)global[i]) * factor;
        update[i] = (float)change;
        become[i] = factor == 1 ? become[i] : (float)((double)global[i] + change);
    }
}

// An element that changes becomes the global weight plus its new update; the others keep their bits.
static void add_to_payload(float *update, float *become, const float *global, const float *more, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (more[i] == 0) continue;
        update[i] = update[i] + more[i];
        become[i] = global[i] + update[i];
    }
}

// The stream of noise is that of round and client: a client that is trained again after a death adds equal noise.
static void add_noise(Sender *sender, double deviation, NoiseStream *noise) {
    for (size_t i = 0; i < sender->weights.count; i++) {
        sender->update[i] = (float)((double)sender->update[i] + deviation * noise_normal(noise, i));
        sender->become[i] = sender->global[i] + sender->update[i];
    }
}

// Error feedback: the part of earlier updates that the code left out joins this update, and the part that it leaves out
// now goes into the job's new row. A refused update leaves the old row in force.
static void begin_feedback(Sender *sender, const float *before) {
    const size_t count = sender->weights.count;
    const float decay = (float)send_decay(&recipe_of(sender)->code);
    memset(sender->left, 0, count * sizeof *sender->left);
    if (!before) return;
    for (size_t i = 0; i < count; i++)
        sender->left[i] = decay * before[i];
    add_to_payload(sender->update, sender->become, sender->global, sender->left, count);
}

// The part of a client's row that the code keeps; NULL for a client without state.
static float *left_in(const Sender *sender, uint32_t row) {
    const ClientStateFile *file = &sender->memory->client_state;
    float *values = client_state_row(file, row);
    return values ? values + file->plan.left : NULL;
}

// The row in force stays until the round has succeeded (client_state_rows.c): an update that is sent again after a
// death begins from the rest that it began from before.
static void end_feedback(Sender *sender, const Job *job, const Payload *payload, bool becomes) {
    const size_t count = sender->weights.count;
    if (job->state_to == NO_CLIENT_STATE) return;
    send_left_over(sender->left, payload, sender->read, becomes ? sender->global : NULL, count);
    const ClientStateFile *file = &sender->memory->client_state;
    client_state_row_write_bytes(file, job->state_to, file->plan.left * sizeof *sender->left, sender->left,
                                 count * sizeof *sender->left);
}

// Encodes the update and decodes the bytes again, as the server would: what is handed in is exactly what arrives. The
// client's key is cleared in between, so that a decoder cannot use random numbers that the server does not have. A code
// with state of its own keeps it in the client's rows after the rest, read from the old row and written to the new one.
static void encode(Sender *sender, Job *job, RngKey key) {
    const SendCode *code = code_of(sender);
    const SentWeights *weights = &sender->weights;
    const Payload payload = {sender->update, sender->become};
    Coding coding = {.number = recipe_of(sender)->code.number,
                     .count = weights->count,
                     .ends = weights->ends,
                     .rows = weights->rows,
                     .tensors = weights->tensors,
                     .key = key,
                     .feeds_back = sender->left != NULL};
    const float *before = left_in(sender, job->state_from);
    if (coding.feeds_back) begin_feedback(sender, before);
    if (coding.feeds_back && code->keeps) { // after what is left over
        float *after = left_in(sender, job->state_to);
        coding.before = before ? before + weights->count : NULL;
        coding.after = after ? after + weights->count : NULL;
    }
    job->sent_bytes = send_encode(sender->wire, &payload, &recipe_of(sender)->code, &coding);
    assert(job->sent_bytes > 0 &&
           job->sent_bytes <= send_bytes(&recipe_of(sender)->code, weights)); // as the wire has room
    coding.key = (RngKey){{0}}; // the client's own, which the server does not have
    if (code->becomes) memcpy(sender->read, sender->global, weights->count * sizeof *sender->read);
    send_decode(sender->read, sender->wire, job->sent_bytes, &recipe_of(sender)->code, &coding);
    if (coding.feeds_back) end_feedback(sender, job, &payload, code->becomes);
}

// Without noise and code the trained weights are sent as they are, and clipping is only a factor of the sum. Otherwise
// the order is clip, noise, encode: the noise has to cover the longest clipped update, and the code works on an update
// that is private already.
Sent sender_send(Sender *sender, Job *job, const float *trained, uint32_t round) {
    const RunMemory *memory = sender->memory;
    const RunConfig *config = memory->config;
    const SentWeights *weights = &sender->weights;
    const SendCode *code = code_of(sender);
    if (config->fragments.count > 0)
        sent_weights(&sender->weights, &memory->tensors, &config->personal, &config->fragments, schedule_round(round));
    const double factor = clip(sender, job, trained);
    job->sent_bytes = send_bytes(&recipe_of(sender)->code, weights);
    if (!sender->update) return (Sent){trained, memory->weights, factor, job->squared_length};
    gather(sender->global, memory->weights, weights);
    gather(sender->become, trained, weights);
    fill_payload(sender->update, sender->become, sender->global, factor, weights->count);
    if (adds_noise(sender)) {
        NoiseStream noise;
        noise_begin(&noise, &memory->control->noise_key, RNG_DP_NOISE, round, job->client, STREAM_OF_CLIENTS);
        add_noise(sender, config->release.local_noise * memory->control->clip, &noise);
    }
    const bool becomes = code->encode && code->becomes;
    if (code->encode) encode(sender, job, rng_key(config->seed, RNG_COMPRESS, round, job->client, 0));
    if (becomes)
        memcpy(sender->values, memory->weights, config->parameters * sizeof *sender->values);
    else
        memset(sender->values, 0, config->parameters * sizeof *sender->values);
    scatter(sender->values, code->encode ? sender->read : sender->update, weights);
    return (Sent){sender->values, becomes ? memory->weights : NULL, 1, NAN};
}

// Rules over rows compare weights. An update that nothing has changed is copied: computing global + (trained - global)
// would round.
void sent_as_weights(float *row, const Sent *sent, const float *global, size_t count) {
    if (sent->from && sent->factor == 1) {
        memcpy(row, sent->values, count * sizeof *row);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const double change = (double)sent->values[i] - (sent->from ? (double)sent->from[i] : 0);
        row[i] = (float)((double)global[i] + sent->factor * change);
    }
}
