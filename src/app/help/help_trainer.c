// Part of help.h: `sounder help trainer`: what a user writes, which options go with it, and the protocol.
#include <stdio.h>

#include "app/help/help.h"
#include "app/options/option_table.h"

static const char example[] =
    "  # trainer.py\n"
    "  import torch, sounder                      # tools/python\n"
    "  from torch.nn import functional as F\n"
    "\n"
    "  def train(net, turn):\n"
    "      optimizer = torch.optim.SGD(net.parameters(), lr=turn.lr, momentum=turn.momentum)\n"
    "      for x, y in turn.batches():\n"
    "          loss = F.cross_entropy(net(x), y)\n"
    "          optimizer.zero_grad(); loss.backward()\n"
    "          turn.correct()                     # what the algorithm adds to the gradients\n"
    "          optimizer.step(); turn.add(loss, len(y))\n"
    "\n"
    "  def test(net, turn):\n"
    "      for x, y in turn.batches():\n"
    "          out = net(x)\n"
    "          turn.add(F.cross_entropy(out, y), len(y), hits=(out.argmax(1) == y).sum())\n"
    "\n"
    "  sounder.serve(Net, train, test)            # Net: a class or function that makes the module\n"
    "\n"
    "  sounder train --trainer \"python3 trainer.py\" --data cifar10 --clients 100\n\n"
    "  # the same with Datasets of your own: the loop is the library's, and the run needs no --data\n"
    "  import torch, sounder\n"
    "  from mine import Net, train_set, test_set  # a module, two of torch's Datasets\n"
    "  def look(net, batch):                      # in training and in tests, as the DataLoader collates it\n"
    "      x, y = batch\n"
    "      out = net(x)\n"
    "      return dict(loss=torch.nn.functional.cross_entropy(out, y), hits=(out.argmax(1) == y).sum())\n"
    "  sounder.serve(Net, look, data=(train_set, test_set), optimizer=torch.optim.AdamW)\n"
    "\n"
    "  sounder train --trainer \"python3 trainer.py\" --clients 100\n\n";

static const HelpEntry python[] = {
    {"turn.trains, part, round, client", "whether the turn trains; \"train\", \"test\", \"validation\" "
                                         "(--validation), or \"client\" (a test on the samples of one client); "
                                         "counted from 1; from 0"},
    {"turn.lr, momentum, weight_decay, clip, batch_size, epochs, options",
     "as the options of the run give them; it is the trainer that has to obey them. options: those of "
     "--trainer-option"},
    {"turn.batches(), indices()",
     "the batches (x, y) in the run's order, over all epochs of the turn, as the client sees them (--client-noise, "
     "--drift, attacks on samples); the places of their samples in turn.x and turn.y. Data without samples, a .npz of "
     "y_train and y_test "
     "alone, are for samples that the program loads itself, before its first turn: x are then these numbers. "
     "--data clients:N has one number per client, for a program that has their samples"},
    {"turn.batches(size)",
     "in a test: batches of so many samples. Otherwise they are ten times as large as in training, up to 500"},
    {"serve(..., data=(train, test), client=)",
     "two Datasets in place of --data. The run learns their lengths, labels (targets, labels, label; else 0) and, with "
     "client=, the attribute or column that says whose a sample is; a resumed run wants the samples with which it "
     "began. turn.loader(num_workers=, ...): a DataLoader with the batches of the turn"},
    {"serve(Net, look, data=, ...)",
     "look(net, batch) returns a dict of loss, hits, answers, samples, weight (tokens, over which loss and figures "
     "are then means: weighted_loss) and figures of your own. optimizer=: a class or a function of the parameters, "
     "which gets lr, momentum and weight_decay as far as it takes them (SGD). accumulate=: batches per step. "
     "autocast=\"bf16\". schedule=: makes a scheduler of the optimizer, and of the number of steps. loader=: words of "
     "the DataLoader"},
    {"turn.split, x, y", "\"train\" or \"test\": what the numbers are of; the whole split as it is stored, or, where "
                         "the client sees others, "
                         "the samples of this turn. turn.own(): as indices(), numbers in the data set"},
    {"turn.generator, random", "random numbers of this turn, of torch and NumPy; both modules' own are seeded, too"},
    {"turn.correct()", "adds what the algorithm adds to the gradients, once per step: after the last backward pass and "
                       "after unscale_, before clipping, as the engine does. A turn that needs and never calls it ends "
                       "the run. turn.correcting(optimizer) wraps the step for loops that others own"},
    {"turn.add(loss, samples, hits=, recall=, ...)",
     "one batch: its mean loss, its samples, how many were right, and figures of your own by name, means over the "
     "batch. A test without hits has no accuracy; the run then goes by the loss, or by --target. Where targets are "
     "numbers, RMSE and R2 follow from a loss that is the mean square (PyTorch's MSELoss). With --data clients:N the "
     "samples are as many as the client has: they weigh its test, and with combine mean told its update"},
    {"turn.metric(perplexity=)", "a figure of the whole turn, which weighs as much as its samples"},
    {"turn.answers(scores)", "the net's answers for one batch of a test, for --confusion and --predictions of sounder "
                             "eval: one score per class before softmax, (samples, classes), or the predicted targets, "
                             "(samples,). Other tests and trainings drop them"},
    {"turn.hand_in(steps=, travel=)", "ends the turn before its function does, where fednova and scaffold are told of "
                                      "other steps than one per batch, or how far they go. What follows in the "
                                      "function reaches no run"},
    {"turn.rehearsal",
     "whether this is a first turn of the program that is forked: two batches (or all, if the program "
     "fails with two), thrown away; it is made twice, and a warning names what trains to other weights the second "
     "time"},
    {"turn.keep(optimizer)", "a client's optimizer continues with the state of its last turn: serve(..., "
                             "state=torch.optim.AdamW) and --client-optimizer-state keep"},
    {"turn.hf_arguments(folder), hf()", "TrainingArguments and a callback for a Trainer of transformers"},
    {"turn.steps", "batches of the turn, over all epochs, as schedules of rates want them"},
    {"turn.progress()", "a sign of life; the calls above are signs, too"},
    {"sounder.check(net, train, test, (x, y))",
     "whether turns repeat, without a run: what --check-trainer looks for, in a notebook"},
    {"sounder.turns(net)", "the same as a generator: for turn in sounder.turns(net): ... turn.hand_in(). net may be a "
                           "dict of NumPy arrays, whose gradients go into turn.correct({name: gradient})"},
    {"serve(Net, ...), turns(Net)", "a class or a function that makes the net; one that takes an argument gets the "
                                    "data: data.shape (channels, rows, columns), data.classes"},
    {"serve(..., state=N), turn.state",
     "floats of each client, zeros in its first turn, changed in place or assigned: "
     "--client-optimizer-state keep keeps them for its next one. A client's test has a "
     "copy"},
    {"serve(..., still=True), turn.still",
     "names of the tensors that rest in the turn: fedrep trains the head alone, then the body alone, fedbabu the body. "
     "A module's parameters need no gradient meanwhile, and its buffers are put back; loops of your own leave these "
     "tensors as they are"},
    {"serve(..., whole_test=True)", "a test of the test set or of a client is one turn; otherwise 500 samples are"},
    {"serve(..., exchange=, device=)",
     "names or patterns of the tensors that travel (default: those of real or complex numbers, the latter as pairs; if "
     "some are frozen, those that learn). Of the others, buffers of whole numbers and unsaved ones are put back before "
     "each turn; the rest must not change in a turn. device: where the net computes, as \"cuda\": the net goes there "
     "after the fork, and the run's samples stay there if they fit; --workers says how many trainers share it"},
};

static const HelpEntry rules[] = {
    {"go with it", "all options of data, partition, world, --algorithm, --attack, privacy, tests and the run; --init"},
    {"are the trainer's duty",
     "--lr and its schedule, --momentum, --weight-decay, --clip-grad-norm, --batch-size, --local-epochs"},
    {"are refused",
     "--model, --random-crop, --random-flip, --label-smoothing, --loss, --class-weights, --dp-sgd, --clock real, "
     "--device cuda; ssgd, hogwild, easgd, moon, pfedme, apfl, ifca, fedbn, `optimizer`, rules that need a first "
     "gradient; fedrep and fedbabu without still=True"},
    {"have another meaning",
     "--freeze: the worker puts these tensors back, the trainer need not train them. fedper, lg-fedavg: layers are "
     "modules, names up to the last dot, as with fedrep. personal tensors names=head.*: these stay with the client. "
     "--client-optimizer-state keep: the client keeps turn.state"},
    {"faults", "a trainer that dies, hangs (--hang-seconds without a line), raises or sends nonsense costs the turn: "
               "another one does it again, to the same bits. A second fault ends the run with its sentence"},
    {"sounder eval, replay",
     "start the program again: eval of a run, replay and --resume in the folder where the run began; eval of a file of "
     "a model wants --trainer, and --confusion and --predictions want turn.answers"},
    {"--check-trainer",
     "trains client A, B, A again, A after a test, and A in a fresh process, and names the first tensor that differs, "
     "with the likely cause. Where the algorithm adds to the gradients, also whether the trainer heeds that"},
    {"output",
     "stdout and stderr go to RUN/trainer.log, each line with its rank (\"nursery\": before the first turn); "
     "where a run has no folder, to stderr. A start or --resume adds at most 64 MiB, and then the last lines; of "
     "a progress bar the last text is kept. A run that a trainer ends shows its last exception"},
    {"starts",
     "the program starts once, up to its first turn, which is a rehearsal; trainers are forks of it, and "
     "share what it has loaded and the files that it has open. With device= the forks begin before that, "
     "since no fork can share an open GPU. If it has threads, children or an open GPU, or with "
     "--trainer-start each, every trainer is a start of its own (said at --log-level info). The first start has no "
     "limit; a later one may take ten times as long, and at least a minute (--hang-seconds 0: no limit)"},
    {"processes", "a trainer and all that it starts (wrappers, data loaders) end with its worker, even if that is "
                  "killed. INT, HUP, USR1 and USR2 are ignored in it; TERM is not. Ctrl-Z stops it with the run"},
};

static const HelpEntry hello[] = {
    {"sounder",
     "1, the version of these lines; rank, seed, threads, parameters (floats in all tensors), options: as named"},
    {"desk", "{fd, bytes, weights, shift, state, order, ends, answers, places, samples, labels, samples_type}: a file "
             "to map, shared with the worker, and offsets in it in bytes. shift is absent with algorithms that add "
             "nothing to the gradients, state if clients keep none, answers unless the tests are those of sounder eval "
             "with --confusion or --predictions; places and what follows if all clients see the data set as it is"},
    {"tensors", "[[name, shape], ...]: float32, one after the other, both in weights and in shift"},
    {"data", "{shape, classes, scale, shift, train, test}; a split is {count, samples, labels}, each of these {fd, "
             "offset, type}, samples absent if --data has labels alone, with type u1, u2 or f4. A pixel (u1) of "
             "channel c enters a net as pixel * scale[c] + shift[c]"},
    {"describe", "1: the parent asks for the net; desk has only fd. Write the initial values to fd, float32, and "
                 "answer {\"tensors\":[[name, shape], ...]}, with \"views\":1 if the program heeds `viewed` below, "
                 "\"state\":N floats if clients are to keep some (--client-optimizer-state keep), \"whole_test\":1 to "
                 "have a test in one turn, and \"still\":1 if it heeds `still` below; then the socket ends"},
    {"samples",
     "a folder, in place of desk and data: the run has no --data. A program that loads its samples itself writes a "
     ".npz of y_train and y_test (client_train, client_test) there, named by its contents, and answers "
     "{\"samples\":PATH}; others {}. Then the socket ends"},
    {"files",
     "an answer to describe, and {\"ready\":1}, may name the files of the trainer, [path, ...]: their hash is in the "
     "run's record, and another one ends the run"},
    {"statistics, variances", "in the answer to describe: numbers of tensors that batches change and gradients do not, "
                              "and of which no server's step may make a value negative"},
    {"stays", "likewise {\"hash\":\"16 digits\",\"tensors\":N,\"floats\":N} of the tensors that do not travel"},
    {"versions",
     "an answer to describe may name language and libraries: \"Python 3.11.2, torch 2.1.0\"; others are told"},
    {"answer",
     "{\"ready\":1}, or {\"error\":\"sentence\"}; with \"pid\":N the run's record has the memory of process N"},
};

static const HelpEntry forks[] = {
    {"nursery", "1 in the first line, beside describe: this program may be forked. It answers with its tensors and "
                "\"forks\":1, or 0 and \"why\". With 1 the socket stays: a line follows with rank -1, parameters, desk "
                "and tensors, to be answered by {\"ready\":1}"},
    {"rehearsal", "1 in the turns that follow. When {\"forks\":1} arrives in place of a turn, the program answers "
                  "{\"forks\":1}, or 0 "
                  "and \"why\", and forks"},
    {"fork", "{\"fork\":1}, a datagram at the socket whose number is in $SOUNDER_NURSERY, with four descriptors: the "
             "fork's socket, leash, desk and output. The fork leads a process group of its own, maps its desk in the "
             "place of the program's, reads a first line that has only its rank, and answers {\"ready\":1}"},
    {"leash", "when it closes, the program kills the fork's process group and reaps the fork; when the fork ends, it "
              "does so, too, and sends \"exit 3\" or \"signal 9\" on the leash"},
};

static const HelpEntry asked[] = {
    {"turn", "its number, which the answer repeats"},
    {"task, part, split", "\"train\" or \"test\"; \"train\", \"test\", \"validation\" or \"client\"; whether "
                          "sample numbers are those of \"train\" or \"test\""},
    {"round, client, seed", "client may be null; seed: 53 bits, of this turn's random numbers"},
    {"count, batches", "desk.order has count sample numbers (u4), desk.ends the end of each batch in it (u4)"},
    {"lr, momentum, weight_decay, clip, epochs, batch_size",
     "of this turn; lr and epochs are 0 in a test, whose batches are up to ten times as large"},
    {"check", "1 in a turn of --check-trainer"},
    {"asks_gpu", "1 in one turn of the second round: see `gpu`"},
    {"pull, shifts",
     "add pull * weight to every gradient, and if shifts is 1 also the float of desk.shift at its place"},
    {"viewed", "1: the client sees other samples or labels than the data set has. For each sample number desk.places "
               "(u4) has a row of desk.samples (samples_type: u1, pixels; f4, as they enter a net) and of desk.labels"},
    {"keeps",
     "1: desk.state has what the client keeps, zeros in its first turn, and gets what its next turn finds; in a "
     "test of this client, a copy"},
    {"still",
     "[first, end): numbers of the tensors that rest, which the turn leaves as they are, bit for bit; else absent"},
};

static const HelpEntry answered[] = {
    {"turn", "the number of the turn. desk.weights has the trained weights; after a test, those it had"},
    {"loss_sum", "sum of the losses over all samples, of targets of (y - t)^2; null if it is not finite"},
    {"samples, hits", "that the loss is of, in a test all of them, but for --data clients:N as many as the client has; "
                      "how many were right: absent from every test if there is no accuracy"},
    {"answers", "samples of a test for which the trainer has written the net's answers to desk.answers, in their "
                "order: float32 (count, classes), scores before softmax, or predicted targets. All of them, or absent"},
    {"gpu", "{name, free, bytes}: the trainer's GPU and its memory, if the turn has `asks_gpu`: --log-level info then "
            "says how many trainers it can hold"},
    {"metrics", "{name: [sum, weight], ...}: the run has sum / weight over all turns; of a client that trains twice, "
                "as with ditto, over the training whose loss it reports. A name is a letter, then letters, digits and "
                "_ - . / @, at most 64 bytes; there may be 32"},
    {"steps, travel, counted",
     "steps that were made; scaffold and fednova divide by them. They take them for steps of SGD with lr and momentum: "
     "otherwise travel says how far a gradient of 1 in every step would have taken a weight. counted 1: the number is "
     "a guess, so that the run warns once where it is not that of the batches"},
    {"kept", "names of what a turn with check has used of before it, such as optimizers; may be absent"},
    {"error, fatal", "in place of the others: a sentence. fatal 1: another trainer would fail, too, so the run ends"},
    {"progress", "{\"progress\":1} at any time, as a sign of life"},
};

void help_print_trainer(FILE *file) {
    print_paragraph(file, 0,
                    "A trainer is a program of yours that trains the clients and tests the model, in any language. "
                    "Everything else stays: partitions, algorithms, privacy, faults, --resume, sweeps, reports, and "
                    "the same bits for any number of workers.");
    fputc('\n', file);
    fputs(example, file);
    help_print_entries(file, python, sizeof python / sizeof *python);
    print_paragraph(file, 0, "Options:");
    help_print_entries(file, rules, sizeof rules / sizeof *rules);
    print_paragraph(file, 0,
                    "In C, <sounder/io/trainer.h> of the installed library maps what the lines place and finds numbers "
                    "in them; tools/python/examples has trainers in C, NumPy, JAX and PyTorch.");
    fputc('\n', file);
    print_paragraph(file, 0,
                    "Without Python: each worker starts the command (words as in a shell, but without one), with a "
                    "connected stream socket whose number is in $SOUNDER_TRAINER. A message is one line of JSON, at "
                    "most 1 MiB. The trainer ends when the socket does. Descriptors in messages are inherited under "
                    "their numbers. The first line that a trainer receives:");
    help_print_entries(file, hello, sizeof hello / sizeof *hello);
    print_paragraph(file, 0, "Then, again and again, a turn:");
    help_print_entries(file, asked, sizeof asked / sizeof *asked);
    print_paragraph(file, 0, "The trainer answers:");
    help_print_entries(file, answered, sizeof answered / sizeof *answered);
    print_paragraph(file, 0, "A program that starts once, and forks its trainers, speaks these, too:");
    for (size_t i = 0; i < sizeof forks / sizeof *forks; i++)
        print_entry(file, forks[i].left, forks[i].text);
}
