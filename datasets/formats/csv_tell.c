// Part of csv_columns.h: describes each column of a table in words.
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "datasets/formats/csv_columns.h"

static const char *const roles[] = {"feature", "label", "target", "client", "left out"}; // by CsvRole

// Lists the values of a column by number, or in any order where they have none: a column that is refused.
static void list_values(DatasetColumn *told, const Categories *categories, bool has_many) {
    char list[96] = "", name[24];
    size_t listed = 0;
    for (size_t i = 0; i < (categories->names ? categories->count : categories->room); i++) {
        const char *value = categories->names ? categories->names[i] : categories->table[i].text;
        if (!value) continue;
        text_cut(name, sizeof name, value);
        if (strlen(list) + strlen(name) + 8 >= sizeof list) break;
        text_list(list, sizeof list, name, strlen(name));
        listed++;
    }
    if (listed < categories->used) text_list(list, sizeof list, "...", 3);
    snprintf(told->values, sizeof told->values, "%zu%s: %s", categories->used, has_many ? " or more" : "", list);
    disarm_text(told->values);
}

static void tell_number(DatasetColumn *told, const CsvColumn *column) {
    if (column->numbers == 0) return;
    snprintf(told->values, sizeof told->values, "%.10g to %.10g", column->least, column->greatest);
}

static void tell_becomes(DatasetColumn *told, const CsvColumns *columns, const CsvColumn *column, uint32_t *feature) {
    const uint32_t numbers = (csv_is_one_hot(columns, column) ? column->categories.count : 1) + column->is_flagged;
    if (column->role == CSV_LABEL && column->categories.count > 0)
        snprintf(told->becomes, sizeof told->becomes, "classes 0 to %u", column->categories.count - 1);
    if (column->role == CSV_CLIENT && column->categories.count > 0)
        snprintf(told->becomes, sizeof told->becomes, "clients 0 to %u", column->categories.count - 1);
    if (column->role == CSV_TARGET) snprintf(told->becomes, sizeof told->becomes, "targets");
    if (column->role != CSV_FEATURE || numbers == 0) return;
    const bool is_refused = csv_is_unfit(columns, column) || (column->gaps > 0 && !columns->fills);
    if (is_refused)
        snprintf(told->becomes, sizeof told->becomes, "refused");
    else if (numbers == 1)
        snprintf(told->becomes, sizeof told->becomes, "feature %u", *feature);
    else
        snprintf(told->becomes, sizeof told->becomes, "features %u to %u", *feature, *feature + numbers - 1);
    *feature += numbers;
}

void csv_columns_tell(DatasetTeller *tell, void *to, const CsvColumns *columns) {
    uint32_t feature = 0;
    for (int i = 0; i < columns->count; i++) {
        const CsvColumn *column = &columns->columns[i];
        DatasetColumn told = {
            .name = columns->names[i], .role = roles[column->role], .texts = column->texts, .gaps = column->gaps};
        const bool has_values = column->texts > 0 || column->role == CSV_LABEL || column->role == CSV_CLIENT;
        if (has_values)
            list_values(&told, &column->categories, column->has_many);
        else if (column->role != CSV_LEFT_OUT)
            tell_number(&told, column);
        tell_becomes(&told, columns, column, &feature);
        tell(to, &told);
    }
}
