// The clients of one run, from its record: how often each trained, and the last test of each model on its own samples.
//
//   ClientRecords clients = {0};
//   client_records_note(&clients, line);       // each line "client" and "client_evaluation", in their order
//   ... clients.all[k].trained
//   client_records_free(&clients);
#ifndef SOUNDER_APP_LOOK_CLIENT_RECORDS_H
#define SOUNDER_APP_LOOK_CLIENT_RECORDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A run may test personal, global, fine-tuned, new and new-fine-tuned models (train_round.c).
enum { CLIENT_MODELS = 5, CLIENT_MODEL_BYTES = 32 };

// Zeroed: a client without a line. Unknown numbers are NaN.
typedef struct ClientRecord {
    uint32_t trained;     // rounds
    double samples, loss; // that it has, by its last training; of that training
    double tested;        // samples of its last test
    struct {
        json_int_t round; // 0: none
        double accuracy, loss;
        json_t *line;       // owned; NULL: none
    } tests[CLIENT_MODELS]; // the last one of each model
} ClientRecord;

typedef struct ClientRecords {
    ClientRecord *all; // owned, (count), by client
    size_t count;
    char models[CLIENT_MODELS][CLIENT_MODEL_BYTES];
    json_int_t last[CLIENT_MODELS]; // round of the last test of each model
    int model_count;
} ClientRecords;

// Takes a line of the run's record; lines of other types, and of clients that no run can have, are ignored. Returns
// false if memory runs out.
bool client_records_note(ClientRecords *records, json_t *line);

void client_records_free(ClientRecords *records);

// Returns the number of the line's model, by the first line of a client about each; CLIENT_MODELS: none is about it.
int client_records_model(const ClientRecords *records, const json_t *line);

// Whether the client took part in the last test of the model.
bool client_records_tested(const ClientRecords *records, size_t client, int model);

#endif
