// Tables of clients: of one run, how often each trained, and how well the models do on its own samples; of several,
// means over the runs whose options in `by` are equal.
//
//   Table table = {0};
//   TRY(run_clients_table(&table, &run, err));
//   TRY(table_print(stdout, &table, TABLE_TEXT, err));
//   table_free(&table);
#ifndef SOUNDER_APP_LOOK_RUN_CLIENTS_H
#define SOUNDER_APP_LOOK_RUN_CLIENTS_H

#include "app/look/by_options.h"
#include "app/look/past_run.h"
#include "app/look/table.h"

// One row per client that trained or was tested; the tests are the last of each model. Fails with USAGE if no client
// was tested. The caller frees the table, also on failure.
Status run_clients_table(Table *table, const PastRun *run, Error *err);

// One row per client and value of the options `by`: mean and standard deviation of the client's own model if it has
// one, else of the global model. runs (count): finished, ordered by the options. show: figures, with commas between; ""
// for all. Fails with USAGE if no client of a run was tested, and for an unknown figure.
Status run_clients_means(Table *table, const PastRun *runs, size_t count, ByOptions *by, const char *show, Error *err);

// A column "client": the clients' names, and a column of their numbers beside it; or the numbers alone.
typedef struct ClientColumn {
    size_t name, number;
    bool has_names;
} ClientColumn;

// Add the column, and put a client of the run into the last row.
ClientColumn client_column_add(Table *table, const PastRun *run);
void client_column_put(Table *table, const ClientColumn *column, const PastRun *run, size_t client);

#endif
