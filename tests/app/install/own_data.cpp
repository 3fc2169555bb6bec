// Trains a net on data of its own, in C++: bright squares in one of the four corners of noise.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <sounder/base/cores.h>
#include <sounder/datasets/order.h>
#include <sounder/datasets/partition.h>
#include <sounder/io/safetensors.h>
#include <sounder/nn/net.h>

enum { SIDE = 8, CLASSES = 4, SAMPLES = 512, BATCH = 32, EPOCHS = 5 };

static void check(Status status, const Error &err) {
    if (status == STATUS_OK) return;
    std::fprintf(stderr, "%s\n", err.message);
    std::exit(status_exit_code(status));
}

static void draw(std::vector<uint8_t> &pixels, std::vector<uint16_t> &labels) {
    const RngKey key = rng_key(1, RNG_SYNTHETIC, 0, 0, 0);
    for (uint32_t s = 0; s < SAMPLES; s++) {
        labels[s] = (uint16_t)(s % CLASSES);
        const uint32_t top = labels[s] / 2 * SIDE / 2, left = labels[s] % 2 * SIDE / 2;
        for (uint32_t p = 0; p < SIDE * SIDE; p++) {
            const bool bright = p / SIDE - top < SIDE / 2 && p % SIDE - left < SIDE / 2;
            pixels[s * SIDE * SIDE + p] =
                (uint8_t)((bright ? 100 : 0) + rng_below(rng_block(key, s, p, 0, 0).word[0], 100));
        }
    }
}

int main(int argc, char **argv) {
    if (argc != 2) return EX_USAGE;
    std::vector<uint8_t> pixels(SAMPLES * SIDE * SIDE);
    std::vector<uint16_t> labels(SAMPLES);
    draw(pixels, labels);
    Error err;
    PartitionSpec halves = {};
    check(partition_parse(&halves.form, "iid", &err), err);
    halves.clients = 2; // client 0 trains, client 1 tests
    const size_t bytes = partition_block_bytes(&halves, SAMPLES);
    std::vector<uint64_t> block(bytes / sizeof(uint64_t) + 1);
    Partition partition;
    check(partition_build(block.data(), &halves, labels.data(), SAMPLES, CLASSES, &err), err);
    check(partition_view(&partition, block.data(), bytes, &err), err);
    uint32_t train_count, test_count;
    const uint32_t *train = partition_client(&partition, 0, &train_count);
    const uint32_t *test = partition_client(&partition, 1, &test_count);

    subnormals_flush();
    Spec spec;
    Net net;
    check(spec_parse(&spec, "conv 4 3; relu; pool 2; linear 4", Shape{1, SIDE, SIDE}, CLASSES, &err), err);
    check(net_init(&net, &spec, kernels_best(), &err), err);
    std::vector<float> weights(spec.parameter_count), velocity(spec.parameter_count);
    std::vector<uint32_t> order(train_count);
    spec_initialise(weights.data(), &spec, 1);
    const float scale = 1.0f / 255, shift = 0;
    const Sgd sgd = {0.1f, 0.5f, 0};
    BatchResult result;
    const auto batch_of = [&](const uint32_t *indices, uint32_t count) {
        Batch batch = {};
        batch.pixels = pixels.data();
        batch.labels = labels.data();
        batch.indices = indices;
        batch.count = count;
        batch.scale = &scale;
        batch.shift = &shift;
        return batch;
    };
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
        batch_order(order.data(), train, train_count, 1, 0, 0, epoch);
        for (uint32_t first = 0; first + BATCH <= train_count; first += BATCH) {
            const Batch batch = batch_of(&order[first], BATCH);
            net_train_step(&net, weights.data(), velocity.data(), &result, &sgd, nullptr, &batch, nullptr);
        }
    }
    const Batch all = batch_of(test, test_count);
    net_evaluate(&net, &result, weights.data(), &all);
    net_free(&net);
    std::printf("%u of %u right\n", result.hits, test_count);

    TensorEntry tensor = {"weights", TENSOR_F32, 1, {(int64_t)weights.size()}, 0, 0};
    char *header;
    size_t header_bytes;
    check(safetensors_header(&header, &header_bytes, &tensor, 1, nullptr, 0, &err), err);
    FILE *output = std::fopen(argv[1], "wb");
    if (!output || std::fwrite(header, 1, header_bytes, output) != header_bytes ||
        std::fwrite(weights.data(), sizeof(float), weights.size(), output) != weights.size() ||
        std::fclose(output) != 0)
        return EX_IOERR;
    std::free(header);
    Safetensors file;
    check(safetensors_open(&file, argv[1], &err), err);
    const TensorEntry *entry = safetensors_find(&file, "weights");
    const bool kept = entry && entry->bytes == weights.size() * sizeof(float);
    safetensors_close(&file);
    return kept && result.hits > test_count * 9 / 10 ? 0 : 1;
}
