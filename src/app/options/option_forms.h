// Options whose value is a form, a name with numbers: --client-time "lognormal mean=2 deviation=0.5". Their tables
// provide parser, ranges, "did you mean" and help. A value is stored as typed, and its numbers in the fields that the
// run reads.
//
//   {.name = "client-time", .type = OPTION_FORM, FIELD(client_time), .form = &client_time_form, ...}
#ifndef SOUNDER_APP_OPTIONS_OPTION_FORMS_H
#define SOUNDER_APP_OPTIONS_OPTION_FORMS_H

#include "app/options/options.h"
#include "base/keyed_text.h"

typedef struct OptionForm {
    FormTable table; // sampling_form: row SAMPLING_*, and so on
    void (*take)(Options *options, const Form *form);
} OptionForm;

extern const OptionForm sampling_form, stragglers_form, failures_form, client_time_form, lr_schedule_form, dp_sgd_form,
    cohort_schedule_form;

#endif
