#include "datasets/doubts.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "base/text.h"
#include "datasets/formats/format.h"
#include "datasets/settings.h"

enum {
    MOST_NUMBERS = 1 << 20, // of samples that are checked
    LEAST_PIXELS = 64,      // smallest sample that may be an image
    FEW_CLASSES = 10,
    LEAST_ROWS = 20, // smallest table whose columns are doubted for their values
    MOST_LAST_CHANNELS = 16,
    LEAST_LARGE = 1 << 20,  // as float32, numbers of this size are at least 1/8 apart
    WHOLE_FLOATS = 1 << 24, // up to this, all whole numbers are float32 numbers
};

__attribute__((format(printf, 2, 3))) static void add(DatasetDoubts *doubts, const char *format, ...) {
    va_list arguments;
    if (doubts->count == DATASET_MOST_DOUBTS) return;
    va_start(arguments, format);
    vsnprintf(doubts->sentences[doubts->count++], DATASET_DOUBT_BYTES, format, arguments);
    va_end(arguments);
}

typedef struct Range {
    float least, greatest;
    bool whole; // all numbers are whole
} Range;

// numbers: float32, possibly at an odd address.
static Range range_of(const uint8_t *numbers, size_t count) {
    Range range = {INFINITY, -INFINITY, true};
    for (size_t i = 0; i < count && range.whole; i++) {
        const float number = dataset_number(numbers, i);
        range.least = fminf(range.least, number);
        range.greatest = fmaxf(range.greatest, number);
        range.whole = number == floorf(number);
    }
    return range;
}

// Classes that were saved as floating-point numbers would be targets of the squared loss. Classes occur several times
// each, so there is a doubt only if there are at most half as many possible values as samples.
static void doubt_targets(DatasetDoubts *doubts, const Dataset *data, const DatasetFormat *format) {
    const Range range = range_of((const uint8_t *)data->train.labels, data->train.count);
    if (!range.whole || range.least < 0 || 2 * ((double)range.greatest + 1) > data->train.count) return;
    add(doubts,
        "%s: all targets are whole numbers, from %g to %g, and will be learned as quantities, by the squared loss; if "
        "they are classes, %s",
        data->name, (double)range.least, (double)range.greatest, format->classes);
}

// A class without samples costs an output of the net that is never right; many classes with few samples each are
// probably quantities.
static void doubt_classes(DatasetDoubts *doubts, const Dataset *data, const DatasetFormat *format) {
    static const char numbering[] =
        "if that is not meant, number them from 0 without gaps: numpy.unique(y, return_inverse=True)[1]";
    uint8_t seen[DATASET_MAX_CLASSES + 1] = {0};
    int present = 0, absent = 0, first = 0;
    for (uint32_t i = 0; i < data->train.count; i++)
        seen[data->train.labels[i]] = 1;
    for (int class = 0; class < data->classes; class ++) {
        present += seen[class];
        if (!seen[class] && absent++ == 0) first = class;
    }
    // Labels alone of one class are those of samples that a trainer loads: texts, masks, images without labels.
    if (present == 1 && !dataset_has_samples(&data->items)) return;
    if (present == 1)
        add(doubts, "%s: every training sample is of class %d; there is nothing to tell apart", data->name,
            data->classes - 1);
    else if (data->classes > FEW_CLASSES && (uint32_t)data->classes > data->train.count / 2)
        add(doubts, "%s: %d classes for %u training samples; if the labels are quantities, %s", data->name,
            data->classes, data->train.count, format->targets);
    else if (absent == 1)
        add(doubts, "%s: class %d of %d has no training sample; %s", data->name, first, data->classes, numbering);
    else if (absent > 1)
        add(doubts, "%s: %d of %d classes have no training sample, %d is the first; %s", data->name, absent,
            data->classes, first, numbering);
}

// uint8 pixels are scaled; float32 numbers enter the net unchanged.
static void doubt_scale(DatasetDoubts *doubts, const Dataset *data, const DatasetFormat *format) {
    const size_t size = shape_size(data->shape), all = data->train.count * size;
    if (data->items.pixel_bytes < sizeof(float) || size < LEAST_PIXELS || data->items.vocabulary || data->items.tokens)
        return;
    const Range range = range_of(data->train.pixels, all < MOST_NUMBERS ? all : MOST_NUMBERS);
    if (!range.whole || range.least != 0 || range.greatest < 128 || range.greatest > 255) return;
    add(doubts, "%s: samples are whole numbers from 0 to %g and enter the net as they are; if they are pixels, %s",
        data->name, (double)range.greatest, format->pixels);
}

// Sounder expects channels first; other programs store them last, and there are seldom more than a few.
static void doubt_channels(DatasetDoubts *doubts, const Dataset *data, const Form *settings) {
    const Shape shape = data->shape;
    const bool are_last =
        shape.columns <= MOST_LAST_CHANNELS && shape.columns < shape.rows && shape.columns < shape.channels;
    if (!are_last || settings->given[SETTING_CHANNELS] || settings->given[SETTING_SHAPE]) return;
    add(doubts,
        "%s: samples are read as %d channels of %dx%d; if they are images of %dx%d with their channels last, save "
        "x.transpose(0, 3, 1, 2), or say channels=last in --data",
        data->name, shape.channels, shape.rows, shape.columns, shape.channels, shape.rows);
}

// Columns of tables ---------------------------------------------------------------------------------------------------

// Names of columns, as without= takes them.
typedef struct Columns {
    char names[SETTINGS_WORD_BYTES];
    int count;
    const char *last; // the feature that was added last
} Columns;

// Length of the column's name in a feature's.
static size_t column_bytes(const char *feature) {
    return strcspn(feature, (const char[]){DATASET_VALUE_FOLLOWS, DATASET_IS_GAP, '\0'});
}

// Says whether a table's column is learned if it has this name and --data does not choose another.
static bool is_usual_answer(const char *feature) {
    const size_t bytes = column_bytes(feature);
    return (bytes == 5 && strncasecmp(feature, "label", bytes) == 0) ||
           (bytes == 6 && strncasecmp(feature, "target", bytes) == 0);
}

// feature: its name. The values of one column are several features.
static void add_column(Columns *columns, const char *feature) {
    const size_t length = column_bytes(feature), used = strlen(columns->names);
    const bool is_known =
        columns->last && strncmp(columns->last, feature, length) == 0 && columns->last[length] == DATASET_VALUE_FOLLOWS;
    columns->last = feature;
    if (is_known || used + length + 2 > sizeof columns->names) return;
    snprintf(columns->names + used, sizeof columns->names - used, "%s%.*s", used ? "," : "", (int)length, feature);
    columns->count++;
}

// what: a phrase that follows the names of the columns, with a verb for one of them and one for several.
static void doubt_columns(DatasetDoubts *doubts, const Columns *columns, const char *what, const char *whats,
                          const Dataset *data, const Form *settings) {
    char word[SETTINGS_WORD_BYTES], all[2 * SETTINGS_WORD_BYTES];
    const char *without = form_text(settings, SETTING_WITHOUT);
    if (columns->count == 0) return;
    snprintf(all, sizeof all, "%.399s%s%s", without, *without ? "," : "", columns->names);
    add(doubts, "%s: %s %.160s %s, leave %s out: %s in --data", data->name, columns->count == 1 ? "column" : "columns",
        columns->names, columns->count == 1 ? what : whats, columns->count == 1 ? "it" : "them",
        settings_word(word, SETTING_WITHOUT, all));
}

// The place of a feature's mean and deviation.
static size_t scale_place(const Dataset *data, size_t feature) {
    return feature / (shape_size(data->shape) / (data->items.scales ? data->items.scales : 1));
}

static double scale_of(const Dataset *data, size_t feature) {
    return data->stddevs[scale_place(data, feature)];
}

// A number of a table as it is in the file.
static double raw_number(const Dataset *data, uint32_t sample, size_t feature) {
    const double number = (double)dataset_number(data->train.pixels, sample * shape_size(data->shape) + feature);
    return data->means ? number * scale_of(data, feature) + data->means[scale_place(data, feature)] : number;
}

// Numbers of rows: each is another whole number, and they ascend or descend, or fill at least a quarter of their range.
static bool are_row_numbers(const Dataset *data, size_t feature) {
    const uint32_t count = data->train.count;
    const double first = raw_number(data, 0, feature);
    double least = first, greatest = first, before = first;
    bool ascends = true, descends = true;
    for (uint32_t i = 1; i < count; i++) {
        const double number = raw_number(data, i, feature),
                     tolerance = data->means ? 1e-6 * scale_of(data, feature) + 1e-3 : 0;
        if (fabs(number - round(number)) > tolerance || tolerance > 0.25) return false;
        ascends = ascends && round(number) > round(before);
        descends = descends && round(number) < round(before);
        least = fmin(least, number);
        greatest = fmax(greatest, number);
        before = number;
    }
    if (ascends || descends) return true;
    const double range = round(greatest - least) + 1;
    uint8_t *seen = range <= 4.0 * count ? calloc((size_t)range, 1) : NULL;
    bool differ = seen != NULL;
    for (uint32_t i = 0; i < count && differ; i++) {
        uint8_t *place = seen + (size_t)round(raw_number(data, i, feature) - least);
        differ = !*place;
        *place = 1;
    }
    free(seen);
    return differ;
}

static bool is_target(const Dataset *data, size_t feature) {
    bool is = true;
    for (uint32_t i = 0; i < data->train.count && is; i++) {
        const double target = (double)dataset_number((const uint8_t *)data->train.labels, i);
        is = fabs(raw_number(data, i, feature) - target) <= (data->means ? 1e-5 * fabs(target) + 1e-6 : 0);
    }
    return is;
}

// Says whether a feature has one value for all samples of each class, and several in all.
static bool tells_classes(const Dataset *data, size_t feature) {
    const size_t size = shape_size(data->shape);
    float *values = malloc((size_t)data->classes * sizeof *values);
    bool *known = calloc((size_t)data->classes, sizeof *known), tells = values && known, differ = false;
    for (uint32_t i = 0; i < data->train.count && tells; i++) {
        const float number = dataset_number(data->train.pixels, i * size + feature);
        const uint16_t class = data->train.labels[i];
        if (!known[class]) values[class] = number;
        known[class] = true;
        differ = differ || number != values[data->train.labels[0]];
        tells = number == values[class];
    }
    free(values);
    free(known);
    return tells && differ;
}

static bool tells_the_answer(const Dataset *data, size_t feature) {
    if (dataset_has_rows(&data->items)) return false;
    return dataset_has_targets(&data->items) ? is_target(data, feature) : tells_classes(data, feature);
}

// Columns of texts of which most samples have a value of their own, such as names or tickets.
static void doubt_values(DatasetDoubts *doubts, const Dataset *data, const Form *settings) {
    Columns columns = {.count = 0};
    const char *name = data->feature_names, *column = name;
    const size_t features = shape_size(data->shape);
    uint32_t values = 0;
    for (size_t feature = 0; feature <= features; feature++) {
        const size_t bytes = column_bytes(column);
        const bool goes_on =
            feature < features && strncmp(name, column, bytes) == 0 && name[bytes] == DATASET_VALUE_FOLLOWS;
        if (!goes_on && data->train.count >= LEAST_ROWS && 2 * (uint64_t)values > data->train.count)
            add_column(&columns, column);
        values = goes_on ? values + 1 : 1;
        if (!goes_on) column = name;
        if (feature < features) name += strlen(name) + 1;
    }
    doubt_columns(
        doubts, &columns,
        "has so many texts that most are of one or two samples, and each is a feature; if it only names samples",
        "have so many texts that most are of one or two samples, and each is a feature; if they only name samples",
        data, settings);
}

static void doubt_features(DatasetDoubts *doubts, const Dataset *data, const Form *settings) {
    const bool is_named = settings->given[SETTING_LABEL] || settings->given[SETTING_TARGET];
    Columns named = {.count = 0}, owners = {.count = 0}, telling = {.count = 0}, rows = {.count = 0};
    char word[SETTINGS_WORD_BYTES];
    const char *name = data->feature_names;
    for (size_t feature = 0; feature < shape_size(data->shape); feature++, name += strlen(name) + 1) {
        if (is_named && is_usual_answer(name))
            add_column(&named, name);
        else if (data->users == 0 && settings_is_owner(name, column_bytes(name)))
            add_column(&owners, name);
        else if (data->train.count >= LEAST_ROWS && tells_the_answer(data, feature))
            add_column(&telling, name);
        else if (data->train.count >= LEAST_ROWS && are_row_numbers(data, feature))
            add_column(&rows, name);
    }
    doubt_columns(doubts, &named, "is a feature, for another column is to be learned; if it says the answer, too",
                  "are features, for another column is to be learned; if they say the answer, too", data, settings);
    if (owners.count == 1)
        add(doubts, "%s: column %.60s is a feature; if it names who has a sample, make it the client: %s in --data",
            data->name, owners.names, settings_word(word, SETTING_CLIENT, owners.names));
    doubt_columns(doubts, &telling, "alone says the answer to each sample; if it was made from what is to be learned",
                  "each say the answer to each sample; if they were made from what is to be learned", data, settings);
    doubt_columns(doubts, &rows, "has another whole number in each row; if it only numbers samples",
                  "have another whole number in each row; if they only number samples", data, settings);
}

// Numbers -------------------------------------------------------------------------------------------------------------

// Says whether float32 numbers of a feature's size are so far apart that its values have lost the digits in which they
// differ: times in seconds, Julian days, serial numbers. *greatest: of its numbers.
static bool has_lost_digits(double *greatest, const Dataset *data, size_t feature, uint32_t samples) {
    const size_t size = shape_size(data->shape);
    const double first = (double)dataset_number(data->train.pixels, feature);
    double sum = 0, squares = 0;
    bool whole = first == floor(first);
    *greatest = fabs(first);
    for (size_t i = 1; i < samples; i++) {
        const double number = (double)dataset_number(data->train.pixels, i * size + feature), distance = number - first;
        sum += distance;
        squares += distance * distance;
        *greatest = fmax(*greatest, fabs(number));
        whole = whole && number == floor(number);
    }
    const double mean = sum / samples, deviation = sqrt(fmax(squares / samples - mean * mean, 0));
    if (whole && *greatest <= WHOLE_FLOATS) return false;
    return (deviation > 0 || *greatest >= LEAST_LARGE) && FLT_EPSILON * *greatest > 0.02 * deviation;
}

static void doubt_digits(DatasetDoubts *doubts, const Dataset *data) {
    enum { MOST_NAMED = 4 };
    const size_t size = shape_size(data->shape), most = MOST_NUMBERS / size;
    const uint32_t samples = data->train.count < most ? data->train.count : (uint32_t)most;
    const char *name = data->feature_names;
    char names[200] = "", number[32];
    double greatest, example = 0;
    int found = 0;
    if (data->items.pixel_bytes != sizeof(float) || data->items.vocabulary || data->means || samples < LEAST_ROWS)
        return;
    for (size_t feature = 0; feature < size; feature++, name = name ? name + strlen(name) + 1 : NULL) {
        if (!has_lost_digits(&greatest, data, feature, samples)) continue;
        snprintf(number, sizeof number, "%zu", feature);
        const char *said = name ? name : number;
        if (found++ == 0) example = greatest;
        if (found <= MOST_NAMED) text_list(names, sizeof names, said, strlen(said));
    }
    if (found == 0) return;
    add(doubts,
        "%s: %d feature%s (%s%s) lose%s digits in which samples differ: as float32, which a net takes, numbers near "
        "%.10g are %g apart; normalize=yes in --data scales first (numbers of tables, JSON and float64 arrays), and "
        "rounds then",
        data->name, found, found == 1 ? "" : "s", names, found > MOST_NAMED ? ", ..." : "", found == 1 ? "s" : "",
        example, (double)nextafterf((float)example, INFINITY) - example);
}

// A step of SGD moves the weights of the widest feature most: the others learn next to nothing.
static void doubt_spreads(DatasetDoubts *doubts, const Dataset *data) {
    enum { TIMES = 30, MOST_FEATURES = 4096 };
    const size_t size = shape_size(data->shape), most = MOST_NUMBERS / size;
    const uint32_t samples = data->train.count < most ? data->train.count : (uint32_t)most;
    const char *name = data->feature_names, *widest = name, *narrowest = name;
    double wide = 0, narrow = INFINITY;
    if (data->items.pixel_bytes != sizeof(float) || data->means || samples < LEAST_ROWS || size > MOST_FEATURES) return;
    for (size_t feature = 0; feature < size; feature++, name += strlen(name) + 1) {
        double sum = 0, squares = 0;
        for (size_t i = 0; i < samples; i++) {
            const double distance = (double)dataset_number(data->train.pixels, i * size + feature) -
                                    (double)dataset_number(data->train.pixels, feature);
            sum += distance;
            squares += distance * distance;
        }
        const double deviation = sqrt(fmax(squares / samples - sum / samples * (sum / samples), 0));
        if (deviation > wide) wide = deviation, widest = name;
        if (deviation > 0 && deviation < narrow) narrow = deviation, narrowest = name;
    }
    if (!(wide > TIMES * narrow)) return;
    add(doubts,
        "%s: the deviations of features are up to %.0f times apart (%.*s: %.3g, %.*s: %.3g), and a step of SGD follows "
        "the "
        "widest; normalize=yes in --data lets all weigh alike",
        data->name, wide / narrow, (int)fmin(40, (double)column_bytes(widest)), widest, wide,
        (int)fmin(40, (double)column_bytes(narrowest)), narrowest, narrow);
}

void dataset_find_doubts(DatasetDoubts *doubts, const Dataset *data, const DatasetSource *source) {
    const DatasetFormat *format = source->format;
    doubts->count = 0;
    if (!source->folder[0]) return; // synthetic
    if (dataset_has_numbers(&data->items))
        doubt_targets(doubts, data, format);
    else if (format->targets && !dataset_has_rows(&data->items) &&
             !(data->items.vocabulary && data->class_names) && // not characters that follow
             !data->items.tokens && !settings_classes(&source->settings))
        doubt_classes(doubts, data, format);
    if (data->feature_names && !data->items.vocabulary) doubt_features(doubts, data, &source->settings);
    if (data->feature_names && !data->items.vocabulary) doubt_values(doubts, data, &source->settings);
    doubt_scale(doubts, data, format);
    doubt_channels(doubts, data, &source->settings);
    doubt_digits(doubts, data);
    if (data->feature_names && !data->items.vocabulary && doubts->count == 0) doubt_spreads(doubts, data);
}

void dataset_warn_of_doubts(const Dataset *data, const DatasetSource *source) {
    DatasetDoubts doubts;
    dataset_find_doubts(&doubts, data, source);
    for (int i = 0; i < doubts.count; i++)
        log_warning("%s", doubts.sentences[i]);
}
