// The algorithms that have a name.
#include "recipe.h"

const ZooAlgorithm zoo_algorithms[] = {
    {"fedavg", "", "clients train from the global weights, the server takes the mean", "McMahan et al., AISTATS 2017"},
    {"fedprox", "local prox", "FedAvg whose clients are pulled back to the global weights", "Li et al., MLSys 2020"},
    {"scaffold", "local scaffold; combine mean uniform; server scaffold",
     "control variates take the clients' drift out of their steps", "Karimireddy et al., ICML 2020"},
    {"feddyn", "local dyn; combine mean uniform; server dyn",
     "a dynamic regulariser moves every client's optimum to the global one", "Acar et al., ICLR 2021"},
    {"fednova", "combine nova", "updates are divided by the length of their local training",
     "Wang et al., NeurIPS 2020"},
    {"fedavgm", "server momentum", "FedAvg with momentum over the rounds", "Hsu, Qi, Brown 2019"},
    {"fedadagrad", "server adagrad", "Adagrad on the mean update", "Reddi et al., ICLR 2021"},
    {"fedadam", "server adam", "Adam on the mean update", "Reddi et al., ICLR 2021"},
    {"fedyogi", "server yogi", "Yogi on the mean update", "Reddi et al., ICLR 2021"},
    {"bmuf", "server bmuf", "block momentum", "Chen, Huo, ICASSP 2016"},
    {"qfedavg", "combine qffl", "clients with large losses count more", "Li et al., ICLR 2020"},
    {"median", "combine median", "every weight moves by the median of the clients' updates of it", "Yin et al., ICML 2018"},
    {"trimmed", "combine trimmed", "of every weight the smallest and largest updates are left out", "Yin et al., ICML 2018"},
    {"ditto", "personal ditto", "each client trains a second model, pulled to the global one", "Li et al., ICML 2021"},
    {"fedper", "personal head", "the last layer stays with the client", "Arivazhagan et al. 2019"},
    {"fedrep", "personal alternate", "the last layer stays with the client, head and body are trained in turn",
     "Collins et al., ICML 2021"},
    {"lg-fedavg", "personal body", "all but the last layer stays with the client", "Liang et al. 2020"},
    {"fedbn", "personal norms", "normalisation layers stay with the client", "Li et al., ICLR 2021"},
    {"local-only", "personal all", "every client trains for itself", "the baseline of personal models"},
    {"hogwild", "schedule wild", "workers write one model without locks", "Niu et al., NIPS 2011"},
    {"ssgd", "schedule lockstep", "synchronous SGD: gradients are averaged at every step", "Chen et al. 2016"},
};
const size_t zoo_algorithm_count = sizeof zoo_algorithms / sizeof *zoo_algorithms;
