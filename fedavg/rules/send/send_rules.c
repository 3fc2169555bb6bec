#include "send_rules.h"

#include <math.h>

#include "fedavg/rules/sum/aggregate.h"

const RuleText clip_rules[CLIP_RULE_COUNT] = {
    [CLIP_NONE] = {"unclipped", "updates are not clipped", "McMahan et al., AISTATS 2017", {{0}}},
    [CLIP_FIXED] = {"clip",
                    "an update that is longer than norm is shortened to it",
                    "McMahan, Ramage, Talwar, Zhang, ICLR 2018",
                    {{.name = "norm", .preset = 1, .minimum = 1e-9, .maximum = 1e5}}},
    [CLIP_ADAPTIVE] = {"adaptive-clip",
                       "the norm follows a quantile of the updates' lengths, which is estimated with noise",
                       "Andrew, Thakkar, McMahan, Ramaswamy, NeurIPS 2021",
                       {{.name = "norm", .preset = 0.1, .minimum = 1e-9, .maximum = 1e5},
                        {.name = "quantile", .preset = 0.5, .minimum = 0, .maximum = 1},
                        {.name = "rate", .preset = 0.2, .minimum = 0, .maximum = 10},
                        {.name = "count-noise",
                         .preset = NAN,
                         .minimum = 0,
                         .maximum = 1e6,
                         .derived = "--clients-per-round/20, 0 without a release"}}},
};

const RuleText noise_rules[NOISE_RULE_COUNT] = {
    [NOISE_NONE] = {"noiseless", "updates are sent as they are", "McMahan et al., AISTATS 2017", {{0}}},
    [NOISE_GAUSSIAN] =
        {"noise",
         "local privacy: noise of multiplier times the clip's norm on every weight of every update; epsilon "
         "instead: the least noise for it, for one update",
         "Dwork, Roth 2014; Balle, Wang, ICML 2018 (analytic Gaussian)",
         {{.name = "multiplier", .preset = NAN, .minimum = 0, .maximum = 1e6, .derived = "epsilon, or 1"},
          {.name = "epsilon", .preset = NAN, .minimum = 1e-3, .maximum = 1e4, .derived = "multiplier"},
          {.name = "delta", .preset = 1e-5, .minimum = 1e-15, .maximum = 0.5}}},
};

// A code without an encoder sends 32 bits per weight, and the update is handed in as it was trained.
static uint64_t whole_bytes(const Coding *coding) {
    return 4 * (uint64_t)coding->count;
}

const SendCode whole_send_code = {
    .text = {"whole", "every weight is sent as it was trained", "McMahan et al., AISTATS 2017", {{0}}},
    .becomes = true,
    .bytes = whole_bytes};

#define SEND_POINTER(name) [SEND_ROW_##name] = &name##_send_code,
const SendCode *const send_codes[SEND_CODE_COUNT] = {SEND_CODES(SEND_POINTER)};

AGGREGATE_VECTORS void code_uniforms(float uniforms[CODE_BLOCK], RngKey key, size_t first, size_t count) {
    const size_t block = count - first < CODE_BLOCK ? count - first : CODE_BLOCK;
    for (size_t i = 0; i < block; i++)
        uniforms[i] = rng_float(rng_block(key, (uint32_t)(first + i), 0, 0, 0).word[0]);
}

// Exactly 1 for an update within the norm: multiplying by it then changes no bit.
double clip_factor(double squared_length, double most) {
    const double length = sqrt(squared_length);
    return length > most ? most / length : 1;
}

static bool is_chosen(const Chosen *code, const char *name, const char *word) {
    const RuleNumber *numbers = send_codes[code->row]->text.numbers;
    for (int n = 0; n < RULE_NUMBERS && numbers[n].name; n++)
        if (strcmp(numbers[n].name, name) == 0) return strcmp(numbers[n].words[(int)code->number[n]], word) == 0;
    return false;
}

bool send_feeds_back(const Chosen *code) {
    return is_chosen(code, "feedback", "yes");
}

double send_decay(const Chosen *code) {
    return rule_number(code, &send_codes[code->row]->text, "decay");
}

// Runs that stay consist of whole tensors, so that one parameter decides for its tensor.
static bool stays(const PersonalPlan *personal, size_t parameter) {
    for (uint32_t r = 0; r < personal->run_count; r++)
        if (parameter >= personal->runs[r].first && parameter < personal->runs[r].end) return true;
    return false;
}

// Codes see the sent weights as one vector without gaps, and the ends of its tensors beside it: they need to know
// nothing of personal layers or frozen tensors.
void sent_weights(SentWeights *sent, const TensorList *list, const PersonalPlan *personal, const Fragments *fragments,
                  uint32_t round) {
    *sent = (SentWeights){.count = 0};
    for (int t = 0; t < list->count; t++) {
        const ParameterTensor *tensor = &list->tensors[t];
        if (tensor->frozen || stays(personal, tensor->first)) continue; // a layer stays as a whole
        if (fragments && !fragments_has(fragments, t, round)) continue;
        PersonalRun *run = &sent->runs[sent->run_count];
        if (sent->run_count > 0 && run[-1].end == tensor->first)
            run[-1].end += tensor->count;
        else
            sent->runs[sent->run_count++] = (PersonalRun){tensor->first, tensor->first + tensor->count};
        sent->count += tensor->count;
        sent->rows[sent->tensors] = tensor->rank > 1 ? (size_t)tensor->shape[0] : 0;
        sent->ends[sent->tensors++] = sent->count;
    }
}

static Coding coding_of(const Chosen *code, const SentWeights *sent) {
    return (Coding){
        .number = code->number, .count = sent->count, .ends = sent->ends, .rows = sent->rows, .tensors = sent->tensors};
}

static bool is_per_tensor(const Chosen *code) {
    return is_chosen(code, "per", "tensor");
}

static uint32_t pieces_of(const Chosen *code, const Coding *coding) {
    return is_per_tensor(code) ? coding->tensors : 1;
}

// The whole update, or one tensor of it as an update of its own, which begins at *first. Codes that handle tensors
// themselves lack this choice. Coordinates count from 0 in each tensor, so that each has a key of its own: with one key
// all tensors would draw equal numbers.
static Coding piece_of(size_t *first, const Chosen *code, const Coding *coding, uint32_t piece) {
    Coding single = *coding;
    *first = piece > 0 ? coding->ends[piece - 1] : 0;
    if (!is_per_tensor(code)) return single;
    single.count = coding->ends[piece] - *first;
    single.rows = coding->rows + piece;
    single.tensors = 1;
    const RngBlock block = rng_block(coding->key, piece, 0, 0, 1);
    memcpy(single.key.word, block.word, sizeof single.key.word);
    return single;
}

// The figure of the round's traffic before training; jobs replace it by the bytes that were really made
// (Job.sent_bytes).
uint64_t send_bytes(const Chosen *code, const SentWeights *sent) {
    const Coding coding = coding_of(code, sent);
    uint64_t bytes = 0;
    size_t first;
    for (uint32_t p = 0; p < pieces_of(code, &coding); p++) {
        const Coding piece = piece_of(&first, code, &coding, p);
        bytes += send_codes[code->row]->bytes(&piece);
    }
    return bytes;
}

// Tensors are encoded one after the other without a length in between: all codes with this choice have lengths that
// follow from the number of weights.
size_t send_encode(uint8_t *wire, const Payload *payload, const Chosen *code, const Coding *coding) {
    size_t bytes = 0, first;
    for (uint32_t p = 0; p < pieces_of(code, coding); p++) {
        const Coding piece = piece_of(&first, code, coding, p);
        const Payload part = {payload->update + first, payload->become + first};
        bytes += send_codes[code->row]->encode(wire + bytes, &part, &piece);
    }
    return bytes;
}

// The server's half. It knows the shapes and the algorithm's numbers, and takes all else from the wire: what it reads
// is what is added, in every run, also on one machine.
void send_decode(float *values, const uint8_t *wire, size_t bytes, const Chosen *code, const Coding *coding) {
    size_t first;
    for (uint32_t p = 0; p < pieces_of(code, coding); p++) {
        const Coding piece = piece_of(&first, code, coding, p);
        if (is_per_tensor(code)) bytes = (size_t)send_codes[code->row]->bytes(&piece);
        send_codes[code->row]->decode(values + first, wire, bytes, &piece);
        wire += bytes;
    }
}

size_t send_keeps(const Chosen *code, const SentWeights *sent) {
    const Coding coding = coding_of(code, sent);
    const SendCode *rule = send_codes[code->row];
    return rule->keeps && send_feeds_back(code) ? rule->keeps(&coding) : 0;
}

// The rounding error of a sum of two floats is a float, so the leftover of a weight that was sent is exact. A weight
// that is sent as trained, without an earlier leftover, has none.
void send_left_over(float *left, const Payload *payload, const float *sent, const float *global, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const double arrived = (double)sent[i] - (global ? (double)global[i] : 0);
        const bool as_trained = global && sent[i] == payload->become[i] && left[i] == 0;
        left[i] = as_trained ? 0 : (float)((double)payload->update[i] - arrived);
    }
}
