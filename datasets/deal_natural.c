// Partitions that follow what the samples are by nature: whose they are.
#include "base/form.h"
#include "datasets/deal.h"

Status deal_natural_id(Deal *deal, Error *err) {
    const PartitionSpec *spec = deal->spec;
    if (!spec->owners)
        return fail(err, STATUS_USAGE,
                    "natural-id: nobody owns the samples of this data set; take iid or another partition");
    if (spec->users != deal->clients)
        return fail(err, STATUS_USAGE,
                    "natural-id: the data set has %u users, and there are %u clients; set --clients %u, or "
                    "leave it out",
                    spec->users, deal->clients, spec->users);
    for (uint32_t i = 0; i < deal->samples; i++)
        deal->owner[i] = spec->owners[i];
    return STATUS_OK;
}
