// Client numbers as a user writes them: "3,7", "3-7", "0,4-6"; or a share of all clients, "0.2".
//
//   uint8_t listed[clients] = {0};
//   if (!client_list(listed, "3,7", clients)) ... // no such list
#ifndef SOUNDER_FEDAVG_RULES_WORLD_CLIENT_LIST_H
#define SOUNDER_FEDAVG_RULES_WORLD_CLIENT_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/rng.h"

// listed (clients): set to 1 for the clients that text names; NULL: only checks the text. False if a number is missing,
// is not below `clients`, or if a range falls; some clients may be set then.
bool client_list(uint8_t *listed, const char *text, uint32_t clients);

// Takes such a list, or a share of the clients with a decimal point: the first ones of a list that the key shuffles.
// chosen as above. USAGE.
Status client_choose(uint8_t *chosen, const char *text, uint32_t clients, RngKey key, Error *err);

// Writes the marked clients as such a list into text (bytes), with ranges. False if it does not fit, or if there are
// none.
bool client_list_write(char *text, size_t bytes, const uint8_t *listed, uint32_t clients);

#endif
