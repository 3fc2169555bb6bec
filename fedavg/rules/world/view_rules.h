// How clients see their samples: with noise of their own (features that differ between clients), or with a drift, in
// which the meaning of the samples changes over the rounds. Views belong to the world, as attacks do: they are pure
// functions of (seed, round, client).
//
//   TRY(view_parse_noise(&plan.noise, "gaussian 0.1", err));
//   TRY(view_parse_drift(&plan.drift, "labels round=20", err));
//   const uint32_t concept = view_concept(&plan.drift, seed, round, client);     // 0: as it was at first
#ifndef SOUNDER_FEDAVG_RULES_WORLD_VIEW_RULES_H
#define SOUNDER_FEDAVG_RULES_WORLD_VIEW_RULES_H

#include "base/err.h"
#include "base/shape.h"
#include "fedavg/rules/rule.h"
#include "nn/sample_view.h"

enum { VIEW_NOISE_NONE, VIEW_NOISE_GAUSSIAN, VIEW_NOISE_BLOCK, VIEW_NOISE_COUNT };
enum { VIEW_DRIFT_NONE, VIEW_DRIFT_LABELS, VIEW_DRIFT_CLASSES, VIEW_DRIFT_PIXELS, VIEW_DRIFT_COUNT };

// Row 0 of each is "none", which no text names.
extern const RuleText view_noises[VIEW_NOISE_COUNT], view_drifts[VIEW_DRIFT_COUNT];

// Both may be chosen at once: noise changes the inputs, drift the labels, the pixels' places or the samples that are
// held.
typedef struct ViewPlan {
    Chosen noise, drift;
} ViewPlan;

// In place of a client, denotes the global test set: without noise, and drifted from the start of a gradual drift.
enum { VIEW_TEST_SET = UINT32_MAX };

// USAGE with the nearest word.
Status view_parse_noise(Chosen *noise, const char *text, Error *err);
Status view_parse_drift(Chosen *drift, const char *text, Error *err);

// Whether samples of this shape allow the view. USAGE.
Status view_check(const ViewPlan *plan, Shape shape, uint32_t clients, Error *err);

// How many times the meaning of samples has changed for the client before this round's training. For the test set: the
// concept that gradually drifting clients end at.
uint32_t view_concept(const Chosen *drift, uint64_t seed, uint32_t round, uint32_t client);

// The client whose part of the data this client holds: with VIEW_DRIFT_CLASSES the one `concept` places further,
// otherwise itself.
uint32_t view_holding(const ViewPlan *plan, uint64_t seed, uint32_t round, uint32_t client, uint32_t clients);

// How many clients may hold the same part at a time: in a gradual drift some hold the next one's already.
uint32_t view_holders(const ViewPlan *plan);

// label_of (classes): the label that replaces each label in this concept.
void view_labels(uint16_t *label_of, uint32_t *order, int classes, uint64_t seed, uint32_t concept); // order (classes)

// The noise of a client's samples; clients without noise have a deviation of 0.
SampleNoise view_noise(const Chosen *noise, Shape shape, uint64_t seed, uint32_t client, uint32_t clients);

// Adds the client's noise to inputs (C,H,W) of sample `index` of the data set, the same each time. scale (C): 1/255 of
// a pixel's range, in a net's input; NULL for float samples: the noise is in units of the input.
void view_add_noise(float *inputs, Shape shape, const float *scale, const Chosen *noise, uint64_t seed, uint32_t client,
                    uint32_t clients, uint32_t index);

#endif
