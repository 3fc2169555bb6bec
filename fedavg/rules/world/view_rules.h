// How clients see their samples: each through noise of its own (features that differ between clients), or as what the
// samples mean drifts away over the rounds. A part of the world, as attacks are: pure functions of (seed, round,
// client).
//
//   TRY(view_parse_noise(&plan.noise, "gaussian 0.1", err));
//   TRY(view_parse_drift(&plan.drift, "labels round=20", err));
//   const uint32_t concept = view_concept(&plan.drift, seed, round, client);     // 0: as it was at first
#ifndef SOUNDER_FEDAVG_RULES_WORLD_VIEW_RULES_H
#define SOUNDER_FEDAVG_RULES_WORLD_VIEW_RULES_H

#include "base/err.h"
#include "base/shape.h"
#include "fedavg/rules/rule.h"

enum { VIEW_NOISE_NONE, VIEW_NOISE_GAUSSIAN, VIEW_NOISE_BLOCK, VIEW_NOISE_COUNT };
enum { VIEW_DRIFT_NONE, VIEW_DRIFT_LABELS, VIEW_DRIFT_CLASSES, VIEW_DRIFT_PIXELS, VIEW_DRIFT_COUNT };

// The first of each is none, which no text names.
extern const RuleText view_noises[VIEW_NOISE_COUNT], view_drifts[VIEW_DRIFT_COUNT];

typedef struct ViewPlan {
    Chosen noise, drift;
} ViewPlan;

enum { VIEW_TEST_SET = UINT32_MAX }; // the global test set, in a client's place: without noise, and ahead in a drift

// USAGE with the nearest word.
Status view_parse_noise(Chosen *noise, const char *text, Error *err);
Status view_parse_drift(Chosen *drift, const char *text, Error *err);

// Whether samples of this shape can be seen so.
Status view_check(const ViewPlan *plan, Shape shape, uint32_t clients, Error *err);

// How often what samples mean has changed for the client before this round's training. The test set is where clients
// that drift gradually go.
uint32_t view_concept(const Chosen *drift, uint64_t seed, uint32_t round, uint32_t client);

// Whose part of the data the client holds (VIEW_DRIFT_CLASSES: that of the client `concept` places further); itself
// else.
uint32_t view_holding(const ViewPlan *plan, uint64_t seed, uint32_t round, uint32_t client, uint32_t clients);

// label_of (classes): what stands for each label in this concept.
void view_labels(uint16_t *label_of, uint32_t *order, int classes, uint64_t seed, uint32_t concept); // order (classes)

// Adds the client's noise to inputs (C,H,W), those of sample `index` of the data set: each time the same. scale (C):
// what 1/255 of a pixel's range is in a net's input; of float samples NULL: noise is in units of the input.
void view_add_noise(float *inputs, Shape shape, const float *scale, const Chosen *noise, uint64_t seed, uint32_t client,
                    uint32_t clients, uint32_t index);

#endif
