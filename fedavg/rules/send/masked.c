// Part of send_rules.h: updates under the masks of secure aggregation (masks.h): 64-bit integers of which the server
// sees only the sum.
#include "fedavg/rules/send/masks.h"
#include "fedavg/rules/send/send_rules.h"

static uint64_t masked_bytes(const Coding *coding) {
    return 8 * (uint64_t)coding->count; // and MASK_NEIGHBOUR_BYTES for each other client of the cohort
}

const SendCode masked_send_code = {
    .text =
        {"masked",
         "secure aggregation: the server sees the sum alone; with less than threshold of a cohort the round is lost",
         "Bonawitz et al., CCS 2017",
         {{.name = "threshold", .preset = 2.0 / 3, .minimum = 0.5, .maximum = 1}}},
    .bytes = masked_bytes};
