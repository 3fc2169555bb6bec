// Nets by name: texts for spec_parse.
#include "spec.h"

#include <stdio.h>
#include <string.h>

const ZooEntry zoo_entries[] = {
    {"lenet",
     "conv 10 5; pool 2; relu; conv 20 5; dropout2d 0.5; pool 2; relu; linear 50; relu; dropout 0.5; linear classes",
     "small LeNet of the PyTorch MNIST examples (21,840 parameters on 28x28 grey images)"},
    {"softmax", "linear classes", "multinomial logistic regression"},
    {"2nn", "linear 200; relu; linear 200; relu; linear classes",
     "two hidden layers of 200 (McMahan et al., AISTATS 2017)"},
    {"cnn", "conv 32 5 pad 2; relu; pool 2; conv 64 5 pad 2; relu; pool 2; linear 512; relu; linear classes",
     "two padded convolutions and a hidden layer of 512 (McMahan et al., AISTATS 2017)"},
    {"cifar-cnn",
     "conv 32 3; relu; conv 64 3; relu; pool 2; dropout 0.25; linear 128; relu; dropout 0.5; linear classes",
     "CIFAR-10 net of the pfl-research benchmark (Granqvist et al., 2024)"},
};
const size_t zoo_entry_count = sizeof zoo_entries / sizeof *zoo_entries;

void zoo_expand(char *text, size_t bytes, const char *model, int classes) {
    static const char placeholder[] = "classes";
    const char *layers = model;
    for (size_t i = 0; i < zoo_entry_count; i++)
        if (strcmp(zoo_entries[i].name, model) == 0) layers = zoo_entries[i].text;
    size_t length = strlen(layers), tail = strlen(placeholder);
    if (length >= tail && strcmp(layers + length - tail, placeholder) == 0)
        snprintf(text, bytes, "%.*s%d", (int)(length - tail), layers, classes);
    else
        snprintf(text, bytes, "%s", layers);
}
