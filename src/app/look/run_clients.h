// A table of the clients of one run: how often each trained, and how well the models do on its own samples.
//
//   Table table = {0};
//   TRY(run_clients_table(&table, &run, err));
//   TRY(table_print(stdout, &table, TABLE_TEXT, err));
//   table_free(&table);
#ifndef SOUNDER_APP_LOOK_RUN_CLIENTS_H
#define SOUNDER_APP_LOOK_RUN_CLIENTS_H

#include "app/look/past_run.h"
#include "app/look/table.h"

// One row per client that trained or was tested; the tests are the last of each model. Fails with USAGE if no client
// was tested. The caller frees the table, also on failure.
Status run_clients_table(Table *table, const PastRun *run, Error *err);

// A column "client": the clients' names, and a column of their numbers beside it; or the numbers alone.
typedef struct ClientColumn {
    size_t name, number;
    bool has_names;
} ClientColumn;

// Add the column, and put a client of the run into the last row.
ClientColumn client_column_add(Table *table, const PastRun *run);
void client_column_put(Table *table, const ClientColumn *column, const PastRun *run, size_t client);

#endif
