// Part of spec.h: nets by name: texts for spec_parse.
//
// The texts follow their papers' nets, with group normalisation instead of batch normalisation in residual nets: its
// statistics do not mix the samples of a batch, so that small batches and clients of few samples train, too.
#include "spec.h"

#include <stdio.h>
#include <string.h>

const ZooEntry zoo_entries[] = {
    // Relu and maximum commute, so the pooling is first: it leaves the relu a quarter of the values.
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
    {"lenet5", "conv 6 5; relu; pool 2; conv 16 5; relu; pool 2; linear 120; relu; linear 84; relu; linear classes",
     "CIFAR-10 net of NIID-Bench (Li, Diao, Chen, He, ICDE 2022)"},
    {"feddyn-cnn",
     "conv 64 5; relu; pool 2; conv 64 5; relu; pool 2; linear 384; relu; linear 192; relu; linear classes",
     "CIFAR-10 net of FedDyn (Acar et al., ICLR 2021)"},
    // Each block adds its input to its output, and a relu follows, as in the paper. Where the shape changes, the
    // shortcut is a strided convolution of single pixels (the paper's option B), which "from" starts at the block's
    // input.
    {"resnet8",
     "conv 16 3 pad 1; groupnorm 8; relu as a; "
     "conv 16 3 pad 1; groupnorm 8; relu; conv 16 3 pad 1; groupnorm 8; add a; relu as b; "
     "conv 32 3 stride 2 pad 1; groupnorm 8; relu; conv 32 3 pad 1; groupnorm 8 as c1; conv 32 1 stride 2 from b; "
     "groupnorm 8; add c1; relu as c; "
     "conv 64 3 stride 2 pad 1; groupnorm 8; relu; conv 64 3 pad 1; groupnorm 8 as d1; conv 64 1 stride 2 from c; "
     "groupnorm 8; add d1; relu; "
     "globalpool; linear classes",
     "residual net of one block a stage, with group normalisation in place of batch normalisation"},
    {"resnet20",
     "conv 16 3 pad 1; groupnorm 8; relu as a; "
     "conv 16 3 pad 1; groupnorm 8; relu; conv 16 3 pad 1; groupnorm 8; add a; relu as b; "
     "conv 16 3 pad 1; groupnorm 8; relu; conv 16 3 pad 1; groupnorm 8; add b; relu as c; "
     "conv 16 3 pad 1; groupnorm 8; relu; conv 16 3 pad 1; groupnorm 8; add c; relu as d; "
     "conv 32 3 stride 2 pad 1; groupnorm 8; relu; conv 32 3 pad 1; groupnorm 8 as e1; conv 32 1 stride 2 from d; "
     "groupnorm 8; add e1; relu as e; "
     "conv 32 3 pad 1; groupnorm 8; relu; conv 32 3 pad 1; groupnorm 8; add e; relu as f; "
     "conv 32 3 pad 1; groupnorm 8; relu; conv 32 3 pad 1; groupnorm 8; add f; relu as g; "
     "conv 64 3 stride 2 pad 1; groupnorm 8; relu; conv 64 3 pad 1; groupnorm 8 as h1; conv 64 1 stride 2 from g; "
     "groupnorm 8; add h1; relu as h; "
     "conv 64 3 pad 1; groupnorm 8; relu; conv 64 3 pad 1; groupnorm 8; add h; relu as i; "
     "conv 64 3 pad 1; groupnorm 8; relu; conv 64 3 pad 1; groupnorm 8; add i; relu; "
     "globalpool; linear classes",
     "CIFAR-10 net of He, Zhang, Ren, Sun (CVPR 2016), with group normalisation and projections"},
    {"resnet18",
     "conv 64 3 pad 1; groupnorm 32; relu as a; "
     "conv 64 3 pad 1; groupnorm 32; relu; conv 64 3 pad 1; groupnorm 32; add a; relu as b; "
     "conv 64 3 pad 1; groupnorm 32; relu; conv 64 3 pad 1; groupnorm 32; add b; relu as c; "
     "conv 128 3 stride 2 pad 1; groupnorm 32; relu; conv 128 3 pad 1; groupnorm 32 as d1; conv 128 1 stride 2 from c; "
     "groupnorm 32; add d1; relu as d; "
     "conv 128 3 pad 1; groupnorm 32; relu; conv 128 3 pad 1; groupnorm 32; add d; relu as e; "
     "conv 256 3 stride 2 pad 1; groupnorm 32; relu; conv 256 3 pad 1; groupnorm 32 as f1; conv 256 1 stride 2 from e; "
     "groupnorm 32; add f1; relu as f; "
     "conv 256 3 pad 1; groupnorm 32; relu; conv 256 3 pad 1; groupnorm 32; add f; relu as g; "
     "conv 512 3 stride 2 pad 1; groupnorm 32; relu; conv 512 3 pad 1; groupnorm 32 as h1; conv 512 1 stride 2 from g; "
     "groupnorm 32; add h1; relu as h; "
     "conv 512 3 pad 1; groupnorm 32; relu; conv 512 3 pad 1; groupnorm 32; add h; relu; "
     "globalpool; linear classes",
     "the same authors' net for larger images as it is used for small ones, with group normalisation"},
    // A convolution of each channel by itself, then one of single pixels, which mixes the channels: together they need
    // an eighth of the products of a full convolution.
    {"mobilenet",
     "conv 16 3 pad 1; groupnorm 8; relu; conv 16 3 pad 1 groups 16; groupnorm 8; relu; conv 32 1; groupnorm 8; relu; "
     "conv 32 3 stride 2 pad 1 groups 32; groupnorm 8; relu; conv 64 1; groupnorm 8; relu; "
     "conv 64 3 pad 1 groups 64; groupnorm 8; relu; conv 64 1; groupnorm 8; relu; "
     "conv 64 3 stride 2 pad 1 groups 64; groupnorm 8; relu; conv 128 1; groupnorm 8; relu; "
     "conv 128 3 pad 1 groups 128; groupnorm 8; relu; conv 128 1; groupnorm 8; relu; globalpool; linear classes",
     "convolutions of single channels and of single pixels in turn: a small net after Howard et al. (2017), with group "
     "normalisation"},
    {"char-lstm", "embedding 256 8; lstm 256; lstm 256 last; linear classes",
     "next-character net of LEAF's Shakespeare (Caldas et al. 2018), for any bytes"},
};
const size_t zoo_entry_count = sizeof zoo_entries / sizeof *zoo_entries;

static const char placeholder[] = "classes";

// The second word of the last layer if that is "classes"; otherwise NULL. Options and names may follow it.
static const char *find_classes(const char *layers) {
    static const char blanks[] = " \t\n";
    const char *end = strrchr(layers, ';'), *word = end ? end + 1 : layers;
    word += strspn(word, blanks);
    word += strcspn(word, blanks);
    word += strspn(word, blanks);
    const size_t length = strcspn(word, blanks);
    return length == strlen(placeholder) && memcmp(word, placeholder, length) == 0 ? word : NULL;
}

// A value that is no name is taken as a net's text, whose errors spec_parse explains. The number of classes depends on
// the data, so the last layer gives "classes".
void zoo_expand(char *text, size_t bytes, const char *model, int classes) {
    const char *layers = model;
    for (size_t i = 0; i < zoo_entry_count; i++)
        if (strcmp(zoo_entries[i].name, model) == 0) layers = zoo_entries[i].text;
    const char *found = find_classes(layers);
    if (found)
        snprintf(text, bytes, "%.*s%d%s", (int)(found - layers), layers, classes, found + strlen(placeholder));
    else
        snprintf(text, bytes, "%s", layers);
}
