#include "witness.h"

#include <inttypes.h>
#include <math.h>

#include "base/log.h"
#include "fedavg/memory/fingerprint.h"

static const double NEAR = 1e-4; // of a loss: what processors and libraries differ by in two batches

uint64_t trainer_witness_hash(const float *weights, size_t count) {
    return XXH3_64bits(weights, count * sizeof *weights);
}

TrainerWitness trainer_witness_of(const json_t *told, uint64_t first, const float *weights, size_t count) {
    const json_t *sum = json_object_get(told, "loss_sum");
    const double samples = json_number_value(json_object_get(told, "samples"));
    return (TrainerWitness){.told = samples > 0,
                            .first = first,
                            .weights = trainer_witness_hash(weights, count),
                            .loss =
                                json_is_number(sum) && samples > 0 ? json_number_value(sum) / samples : (double)NAN};
}

static bool is_near(double then, double now) {
    return fabs(then - now) <= NEAR * fmax(1, fabs(then)) || (isnan(then) && isnan(now));
}

Status trainer_witness_judge(const TrainerWitness *then, const TrainerWitness *now, const TrainerPlan *plan,
                             bool accepts, Error *err) {
    if (then->files != now->files && then->files != 0 && now->files != 0) {
        if (!accepts)
            return fail(err, STATUS_DATA,
                        "its files, with those that it imports in a turn, are not what the run began with (XXH3 "
                        "%016" PRIx64 " then, %016" PRIx64
                        " now); give them back, or name the program again to continue "
                        "with other bits",
                        then->files, now->files);
        log_warning("%s %.200s continues with other files, whose results may differ", plan->option, plan->command);
        return STATUS_OK;
    }
    if (!then->told || !now->told || (then->first == now->first && then->weights == now->weights)) return STATUS_OK;
    if (then->first != now->first) {
        log_warning(
            "%s %.200s makes other first weights than when the run began, from numbers that nothing has seeded; "
            "whether its data are the same cannot be seen",
            plan->option, plan->command);
        return STATUS_OK;
    }
    if (!is_near(then->loss, now->loss) && !accepts)
        return fail(err, STATUS_DATA,
                    "it trains its first client otherwise than when the run began (loss %.6g then, %.6g now): other "
                    "data, another base, or other numbers of words; give them back, or name the program again to "
                    "continue with other bits",
                    then->loss, now->loss);
    log_warning("%s %.200s trains its first client to other weights than when the run began (loss %.6g then, %.6g "
                "now)%s",
                plan->option, plan->command, then->loss, now->loss,
                is_near(then->loss, now->loss) ? ": another processor or library, whose results differ in the last bits"
                                               : "");
    return STATUS_OK;
}
