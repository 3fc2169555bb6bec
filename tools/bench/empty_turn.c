// A trainer whose turns do nothing, for rows of what a turn itself costs: empty_turn WEIGHTS.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "trainer.h"

int main(int argc, char **argv) {
    char *line = NULL, *number = getenv(TRAINER_SOCKET);
    size_t room = 0;
    FILE *in = number ? fdopen(atoi(number), "r") : NULL, *out = number ? fdopen(atoi(number), "w") : NULL;
    if (argc != 2 || !in || !out || getline(&line, &room, in) < 0)
        return 64; // sounder train --trainer starts it
    const TrainerRun run = trainer_run(line);
    if (run.describe)
        return ftruncate(run.desk_fd, atol(argv[1]) * (off_t)sizeof(float)) != 0 ||
               fprintf(out, "{\"tensors\":[[\"weight\",[%s]]]}\n", argv[1]) < 0;
    fputs("{\"ready\":1}\n", out);
    while (fflush(out) == 0 && getline(&line, &room, in) > 0)
        fprintf(out, "{\"turn\":%.0f,\"loss_sum\":0,\"hits\":0,\"samples\":%.0f,\"steps\":1}\n", trainer_number(line, "turn", 0),
                trainer_number(line, "count", 0));
}
