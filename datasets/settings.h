// Settings of files of data, which a user writes after their place: --data "iris.csv label=species test-fraction=0.2".
//
//   const size_t place = settings_place_bytes(data);          // "iris.csv" of it; the rest are settings
//   TRY(settings_parse(&source->settings, data + place, err));
//   form_text(&source->settings, SETTING_LABEL)               // "species"; empty: not given
//
// A form of files knows some settings (DatasetFormat); the others are refused. Files without settings have a Form of
// presets, other data one of zeros.
#ifndef SOUNDER_DATASETS_SETTINGS_H
#define SOUNDER_DATASETS_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/keyed_text.h"
#include "base/shape.h"

// In the order of the row's keys.
typedef enum DatasetSetting {
    SETTING_LABEL,
    SETTING_TARGET,
    SETTING_CLIENT,
    SETTING_WITHOUT,
    SETTING_HEADER,
    SETTING_TEXT,
    SETTING_MISSING,
    SETTING_DECIMAL,
    SETTING_GAPS,
    SETTING_TEST_FRACTION,
    SETTING_TEST_SEED,
    SETTING_FOLD,
    SETTING_SHAPE,
    SETTING_NORMALIZE,
    SETTING_CHANNELS,
    SETTING_TOKENS,
    SETTING_LENGTH,
    SETTING_VOCABULARY,
    SETTING_CLASSES,
    DATASET_SETTINGS
} DatasetSetting;

// Bits of 1 << DatasetSetting.
enum {
    SETTINGS_OF_SPLIT = 1 << SETTING_TEST_FRACTION | 1 << SETTING_TEST_SEED | 1 << SETTING_FOLD,
    SETTINGS_OF_SAMPLES = 1 << SETTING_SHAPE | 1 << SETTING_NORMALIZE,
    SETTINGS_OF_TEXTS = 1 << SETTING_TOKENS | 1 << SETTING_LENGTH | 1 << SETTING_VOCABULARY,
    SETTINGS_OF_TABLES = 1 << SETTING_LABEL | 1 << SETTING_TARGET | 1 << SETTING_CLIENT | 1 << SETTING_WITHOUT |
                         1 << SETTING_HEADER | 1 << SETTING_TEXT | 1 << SETTING_MISSING | 1 << SETTING_DECIMAL |
                         1 << SETTING_GAPS,
};

// One row, whose keys are the settings.
extern const FormTable settings_table;

// Length of the place in the value of --data: all of it if it exists under that name or no setting follows. Blanks
// before the settings belong to them.
size_t settings_place_bytes(const char *data);

// Writes the value of --data with another text for its place: settings_replace(text, bytes, "/home/me/iris.csv", data).
// Returns false if it does not fit.
bool settings_replace(char *text, size_t bytes, const char *place, const char *data);

// Writes the value of --data with the full path of its place, as a run's record has it. Returns false, with
// errno, if the place does not exist, or if the text does not fit.
bool settings_full(char *text, size_t bytes, const char *data);

// Reads the settings after a place; an empty text gives the presets. Fails with USAGE, also for a fold that is none.
Status settings_parse(Form *settings, const char *text, Error *err);

// Fails with USAGE if a setting is given that is not in `known` (bits of 1 << DatasetSetting). form: name of the
// files' form.
Status settings_check(const Form *settings, unsigned known, const char *form, Error *err);

enum { SETTINGS_WORD_BYTES = 400 };

// Writes "setting=value" as a user types it: with quotes around a value that has blanks. A value that would be cut
// becomes COLUMN. Returns `word`.
char *settings_word(char word[SETTINGS_WORD_BYTES], DatasetSetting setting, const char *value);

// Says whether a column of this name (of `bytes` bytes) often names the owners of samples, as client= would: user_id.
bool settings_is_owner(const char *name, size_t bytes);

// Says whether the word of a choice is chosen: settings_say(&settings, SETTING_MISSING, "drop").
bool settings_say(const Form *settings, DatasetSetting setting, const char *word);

// The fold that is for tests: number `fold` of `folds`, from 1. false: no fold is given.
bool settings_fold(uint32_t *fold, uint32_t *folds, const Form *settings);

// The setting that asks for a part of the samples as tests, as a user types it: "test-fraction" or "fold". NULL: none.
const char *settings_split(const Form *settings);

// How many classes there are said to be; 0: as many as the labels have.
uint32_t settings_classes(const Form *settings);

// Gives the shape of the settings to samples of as many numbers. Fails with USAGE if they have more or fewer. Leaves a
// shape as it is if the settings have none.
Status settings_reshape(Shape *shape, const Form *settings, Error *err);

#endif
