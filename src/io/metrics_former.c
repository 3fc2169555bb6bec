#include "io/metrics_former.h"

#include <stdlib.h>
#include <string.h>

bool metrics_text_starts(const char *text) {
    static const char beginning[] = "{\"type\":\"start\"";
    return strncmp(text, beginning, sizeof beginning - 1) == 0;
}

// Quotes within a value (argv) are escaped, so that no value can look like the key.
bool metrics_text_names_loss(const char *text) {
    return strstr(text, ",\"loss\":\"") != NULL;
}

bool metrics_text_tells_of_targets(const char *text) {
    return strstr(text, "_rmse\":") != NULL;
}

bool metrics_tells_of_targets(FILE *file) {
    char *text = NULL;
    size_t capacity = 0;
    bool tells = false;
    while (!tells && getline(&text, &capacity, file) > 0)
        tells = metrics_text_tells_of_targets(text);
    free(text);
    return tells;
}

static void double_it(json_t *value) {
    if (json_is_real(value)) json_real_set(value, 2 * json_real_value(value));
}

// Keys of losses have that word: train_loss, best_validation_loss, loss_mean, loss_quantiles.
void metrics_double_losses(json_t *line) {
    const char *key;
    json_t *value;
    json_object_foreach(line, key, value) {
        if (!strstr(key, "loss")) continue;
        double_it(value);
        for (size_t i = 0; i < json_array_size(value); i++)
            double_it(json_array_get(value, i));
    }
}
