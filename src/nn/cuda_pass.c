#include "cuda_pass.h"

#include "nn/buffers.h"

// For who looks at a step part by part; nobody does in a run.
static void mark(const CudaPass *pass, CudaPart part, const CudaOp *op) {
    if (pass->mark) pass->mark(pass->mark_context, part, op);
}

static void drop(const CudaPass *pass, const CudaOp *op, float *values) {
    size_t features = dropout_features(op->layer);
    cuda_dropout_apply(values, op->keep, op->layer->rate, features, shape_size(op->layer->in) / features, &pass->step);
}

static void drop_forward(const CudaPass *pass, const CudaOp *op) {
    const RngKey *keys = pass->progress.keys + (size_t)op->number * (size_t)pass->step.models;
    cuda_dropout_draw(op->keep, keys, pass->progress.numbers, op->layer->rate, dropout_features(op->layer),
                      &pass->step);
    drop(pass, op, op->out);
}

static CudaRows rows_of(float *at, const Layer *layer, size_t first) {
    return (CudaRows){at, shape_size(layer->out), first};
}

// What works in place works on a copy where others take its input, too.
static void bring(const CudaPass *pass, float *to, float *from, const Layer *layer) {
    if (to != from)
        cuda_add(rows_of(to, layer, 0), rows_of(from, layer, 0), shape_size(layer->out), false, &pass->step);
}

// Where the other value of a join begins.
static size_t behind(const Layer *layer) {
    return layer->kind == LAYER_CONCAT ? shape_size(layer->in) : 0;
}

static void combine(const CudaPass *pass, const CudaOp *op) {
    const Layer *layer = op->layer;
    const size_t in = shape_size(layer->in), other = shape_size(layer->out) - behind(layer);
    cuda_add(rows_of(op->out, layer, 0), (CudaRows){op->in, in, 0}, in, false, &pass->step);
    cuda_add(rows_of(op->out, layer, behind(layer)), (CudaRows){op->other, other, 0}, other, layer->kind == LAYER_ADD,
             &pass->step);
}

// The gradient of a sum or a join goes to both parts; of a sum, what goes to the first lies where it is.
static void pass_on(const CudaPass *pass, const CudaOp *op) {
    const Layer *layer = op->layer;
    const size_t own = shape_size(layer->in);
    if (op->in_gradient && op->in_gradient != op->out_gradient)
        cuda_add((CudaRows){op->in_gradient, own, 0}, rows_of(op->out_gradient, layer, 0), own, false, &pass->step);
    const size_t other = shape_size(layer->out) - behind(layer);
    if (op->other_gradient)
        cuda_add((CudaRows){op->other_gradient, other, 0}, rows_of(op->out_gradient, layer, behind(layer)), other,
                 op->other_adds, &pass->step);
}

// What a pass is for.
typedef enum Purpose { FOR_TESTS, FOR_GRADIENT, FOR_STEP } Purpose;

// A batch that is for a step moves what is not frozen of the running statistics, too: none is read before the next.
static void batch_norm_forward(const CudaPass *pass, const CudaOp *op, Purpose purpose) {
    const CudaNetPlan *plan = &pass->plan;
    const Layer *layer = op->layer;
    float *running[2]; // means and variances
    for (size_t i = 0; i < 2; i++) {
        const size_t first = layer->bias + (1 + i) * norm_weights(layer);
        running[i] = purpose == FOR_STEP && !spec_freezes_at(&plan->spec, first) ? plan->weights + first : NULL;
    }
    cuda_batch_norm_forward(op->out, op->statistics, running[0], running[1], op->in, plan->weights + layer->weight,
                            plan->weights_stride, purpose != FOR_TESTS, layer, &pass->step);
}

static void sequence_forward(const CudaPass *pass, const CudaOp *op, const float *weight) {
    const CudaNetPlan *plan = &pass->plan;
    const Layer *layer = op->layer;
    if (layer->kind == LAYER_EMBEDDING)
        cuda_embedding_forward(op->out, op->in, weight, plan->weights_stride, layer, &pass->step);
    else if (layer->kind == LAYER_POSITIONS)
        cuda_positions_forward(op->out, op->in, weight, plan->weights_stride, layer, &pass->step);
    else if (layer->kind == LAYER_ATTENTION)
        cuda_attention_forward(op->out, op->statistics, op->in, weight, plan->weights_stride, layer, pass->blas,
                               &pass->step);
    else
        cuda_lstm_forward(op->out, op->statistics, op->in, weight, plan->weights_stride, layer, pass->blas,
                          &pass->step);
}

static void forward(const CudaPass *pass, Purpose purpose) {
    const CudaNetPlan *plan = &pass->plan;
    const CudaStep *step = &pass->step;
    const bool trains = purpose != FOR_TESTS, augments = trains && augment_is_on(&plan->spec.augment);
    cuda_gather(pass->ops.ops[0].in, plan->pixels, plan->order, &pass->progress, pass->scale, pass->shift,
                plan->spec.input, augments ? &plan->spec.augment : NULL, step);
    mark(pass, CUDA_PART_GATHER, NULL);
    for (int i = 0; i < pass->ops.count; i++) {
        const CudaOp *op = &pass->ops.ops[i];
        const Layer *layer = op->layer;
        const float *weight = plan->weights + layer->weight, *bias = plan->weights + layer->bias;
        switch (layer->kind) {
        case LAYER_CONV:
            cuda_conv_forward(op->out, op->in, weight, bias, plan->weights_stride, layer, step);
            break;
        case LAYER_POOL:
            cuda_pool_forward(op->out, op->in, op->relu, layer, step);
            break;
        case LAYER_NORM:
            cuda_norm_forward(op->out, op->statistics, op->in, weight, bias, plan->weights_stride, layer, step);
            break;
        case LAYER_ADD:
        case LAYER_CONCAT:
            combine(pass, op);
            break;
        case LAYER_BATCH_NORM:
            batch_norm_forward(pass, op, purpose);
            break;
        case LAYER_EMBEDDING:
        case LAYER_POSITIONS:
        case LAYER_LSTM:
        case LAYER_ATTENTION:
            sequence_forward(pass, op, weight);
            break;
        case LAYER_AVERAGE:
            cuda_average_forward(op->out, op->in, layer, step);
            break;
        case LAYER_ACTIVATION:
            cuda_activation_forward(op->out, op->in, layer, step);
            break;
        case LAYER_RELU:
            bring(pass, op->out, op->in, layer);
            cuda_relu_forward(op->out, shape_size(layer->out), step);
            break;
        case LAYER_DROPOUT:
        case LAYER_DROPOUT2D:
            bring(pass, op->out, op->in, layer);
            if (trains) drop_forward(pass, op);
            break;
        case LAYER_LINEAR:
        case LAYER_LINEAR_EACH:
            cuda_linear_forward(op->out, op->in, weight, bias, plan->weights_stride, op->relu, layer, pass->blas, step);
            break;
        }
        mark(pass, CUDA_PART_FORWARD, op);
    }
}

static void loss(const CudaPass *pass, float *gradient) {
    const CudaNetPlan *plan = &pass->plan;
    cuda_softmax_cross_entropy(gradient, &pass->progress, pass->ops.logits, plan->labels, plan->order,
                               gradient ? plan->spec.smoothing : 0, plan->spec.classes, &pass->step);
    mark(pass, CUDA_PART_LOSS, NULL);
}

static CudaDescent descent_of(const CudaPass *pass) {
    const CudaNetPlan *plan = &pass->plan;
    return (CudaDescent){.weights = plan->weights,
                         .velocity = plan->velocity,
                         .stride = plan->weights_stride,
                         .parameters = plan->spec.parameter_count,
                         .lr = pass->lr,
                         .sgd = plan->sgd,
                         .shifts = plan->slope_shifts,
                         .pulls = plan->pulls};
}

// From so many samples on cuBLAS's product and a step of its own are the faster way.
enum { MOST_STEPPED_SAMPLES = 128 };

// Whether a step may begin before the whole gradient is known.
static bool steps_plainly(const CudaOptimizer *optimizer) {
    return !optimizer->squares && !optimizer->nesterov && optimizer->clip == 0;
}

// Whether the way back moves a linear layer's weights as soon as it knows their slopes.
static bool steps_linear_layers(const CudaPass *pass) {
    return !pass->plan.updates && !pass->plan.slope_shifts && steps_plainly(&pass->plan.optimizer) &&
           pass->step.samples <= MOST_STEPPED_SAMPLES;
}

// Whether it does for this one.
static bool steps_on_the_way(const CudaPass *pass, const Layer *layer) {
    return layer->kind == LAYER_LINEAR && !spec_freezes_of(&pass->plan.spec, layer);
}

static void linear_backward(const CudaPass *pass, const CudaOp *op, bool steps) {
    const CudaNetPlan *plan = &pass->plan;
    const Layer *layer = op->layer;
    if (op->relu) {
        cuda_relu_backward(op->out_gradient, op->out, shape_size(layer->out), &pass->step);
        mark(pass, CUDA_PART_BACK, op);
    }
    if (op->in_gradient) {
        cuda_linear_backward_input(op->in_gradient, op->out_gradient, plan->weights + layer->weight,
                                   plan->weights_stride, layer, pass->blas, &pass->step);
        mark(pass, CUDA_PART_INPUT, op);
    }
    if (layer->frozen) return;
    const CudaDescent descent = descent_of(pass);
    if (steps)
        cuda_linear_step(&descent, op->in, op->out_gradient, layer, &pass->step);
    else
        cuda_linear_backward_weight(plan->gradient + layer->weight, plan->gradient + layer->bias, op->in,
                                    op->out_gradient, plan->spec.parameter_count, layer, pass->blas, &pass->step);
    mark(pass, steps ? CUDA_PART_SLOPES_AND_STEP : CUDA_PART_SLOPES, op);
}

static void conv_backward(const CudaPass *pass, const CudaOp *op) {
    const CudaNetPlan *plan = &pass->plan;
    const Layer *layer = op->layer;
    if (op->in_gradient) {
        cuda_conv_backward_input(op->in_gradient, op->out_gradient, plan->weights + layer->weight, plan->weights_stride,
                                 layer, &pass->step);
        mark(pass, CUDA_PART_INPUT, op);
    }
    if (layer->frozen) return;
    cuda_conv_backward_weight(plan->gradient + layer->weight, plan->gradient + layer->bias, pass->ops.scratch, op->in,
                              op->out_gradient, plan->spec.parameter_count, layer, &pass->step);
    mark(pass, CUDA_PART_SLOPES, op);
}

static void norm_backward(const CudaPass *pass, const CudaOp *op) {
    const CudaNetPlan *plan = &pass->plan;
    const Layer *layer = op->layer;
    if (op->in_gradient) {
        cuda_norm_backward_input(op->in_gradient, op->statistics, op->in, op->out_gradient,
                                 plan->weights + layer->weight, plan->weights_stride, layer, &pass->step);
        mark(pass, CUDA_PART_INPUT, op);
    }
    if (layer->frozen) return;
    cuda_norm_backward_weight(plan->gradient + layer->weight, plan->gradient + layer->bias, op->statistics, op->in,
                              op->out_gradient, plan->spec.parameter_count, layer, &pass->step);
    mark(pass, CUDA_PART_SLOPES, op);
}

static void batch_norm_backward(const CudaPass *pass, const CudaOp *op) {
    const CudaNetPlan *plan = &pass->plan;
    const Layer *layer = op->layer;
    cuda_batch_norm_backward_weight(layer->frozen ? NULL : plan->gradient + layer->weight, op->statistics, op->in,
                                    op->out_gradient, plan->spec.parameter_count, layer, &pass->step);
    mark(pass, CUDA_PART_SLOPES, op);
    if (!op->in_gradient) return;
    cuda_batch_norm_backward_input(op->in_gradient, op->statistics, op->in, op->out_gradient,
                                   plan->weights + layer->weight, plan->weights_stride, layer, &pass->step);
    mark(pass, CUDA_PART_INPUT, op);
}

static void sequence_backward(const CudaPass *pass, const CudaOp *op) {
    const CudaNetPlan *plan = &pass->plan;
    const Layer *layer = op->layer;
    const float *weight = plan->weights + layer->weight;
    float *gradient = layer->frozen ? NULL : plan->gradient + layer->weight;
    if (layer->kind == LAYER_ATTENTION)
        cuda_attention_backward(gradient, op->in_gradient, op->statistics, op->in, op->out_gradient, weight,
                                plan->weights_stride, plan->spec.parameter_count, layer, pass->blas, &pass->step);
    else if (layer->kind == LAYER_LSTM)
        cuda_lstm_backward(gradient, op->in_gradient, op->statistics, op->in, op->out_gradient, weight,
                           plan->weights_stride, plan->spec.parameter_count, layer, pass->blas, &pass->step);
    else if (layer->kind == LAYER_POSITIONS && gradient)
        cuda_positions_backward(gradient, op->out_gradient, plan->spec.parameter_count, layer, &pass->step);
    else if (layer->kind == LAYER_EMBEDDING && gradient) // nobody needs the gradient of numbers
        cuda_embedding_backward(gradient, op->in, op->out_gradient, plan->spec.parameter_count, layer, &pass->step);
    mark(pass, CUDA_PART_SLOPES, op);
}

// Of an op without parameters.
static void plain_backward(const CudaPass *pass, const CudaOp *op) {
    const Layer *layer = op->layer;
    switch (layer->kind) {
    case LAYER_POOL:
        cuda_pool_backward(op->in_gradient, op->in, op->out_gradient, op->relu, layer, &pass->step);
        break;
    case LAYER_AVERAGE:
        cuda_average_backward(op->in_gradient, op->out_gradient, layer, &pass->step);
        break;
    case LAYER_ACTIVATION:
        cuda_activation_backward(op->in_gradient, op->in, op->out_gradient, layer, &pass->step);
        break;
    case LAYER_RELU:
        bring(pass, op->in_gradient, op->out_gradient, layer);
        cuda_relu_backward(op->in_gradient, op->out, shape_size(layer->out), &pass->step);
        break;
    case LAYER_DROPOUT:
    case LAYER_DROPOUT2D:
        bring(pass, op->in_gradient, op->out_gradient, layer);
        drop(pass, op, op->in_gradient);
        break;
    default: // add, concat
        pass_on(pass, op);
        break;
    }
    mark(pass, CUDA_PART_BACK, op);
}

static bool is_of_sequences(const Layer *layer) {
    return layer->kind == LAYER_EMBEDDING || layer->kind == LAYER_POSITIONS || layer->kind == LAYER_LSTM ||
           layer->kind == LAYER_ATTENTION;
}

// From the logits' gradient back to the first op with parameters, whose input gradient nobody needs. With `steps`,
// linear layers make their step of SGD on the way.
static void backward(const CudaPass *pass, bool steps) {
    for (int i = pass->ops.count - 1; i >= pass->ops.first; i--) {
        const CudaOp *op = &pass->ops.ops[i];
        if (!op->works) continue;
        if (op->layer->kind == LAYER_CONV)
            conv_backward(pass, op);
        else if (layer_is_linear(op->layer))
            linear_backward(pass, op, steps && steps_on_the_way(pass, op->layer));
        else if (op->layer->kind == LAYER_NORM)
            norm_backward(pass, op);
        else if (op->layer->kind == LAYER_BATCH_NORM)
            batch_norm_backward(pass, op);
        else if (is_of_sequences(op->layer))
            sequence_backward(pass, op);
        else
            plain_backward(pass, op);
        const size_t in = shape_size(op->layer->in);
        if (op->sum) cuda_add((CudaRows){op->sum, in, 0}, (CudaRows){op->in_gradient, in, 0}, in, true, &pass->step);
    }
}

void cuda_pass_evaluate(const CudaPass *pass) {
    forward(pass, FOR_TESTS);
    loss(pass, NULL);
}

static void forward_and_back(const CudaPass *pass, Purpose purpose, bool steps) {
    forward(pass, purpose);
    loss(pass, pass->ops.logits_gradient);
    backward(pass, steps);
}

void cuda_pass_gradient(const CudaPass *pass) {
    forward_and_back(pass, FOR_GRADIENT, false);
}

// Neighbouring parameters that step alike.
typedef struct Run {
    size_t first, count;
} Run;

// Those that are not frozen, follow no batches and have not made their step, as linear layers have with `steps`.
// Returns how many runs they are.
static int runs_of(Run runs[SPEC_MAX_TENSORS], const CudaPass *pass, bool steps) {
    const Spec *spec = &pass->plan.spec;
    int count = 0;
    for (int t = 0; t < spec->tensor_count; t++) {
        const ParameterTensor *tensor = &spec->tensors[t];
        if (tensor->frozen || tensor->follows || (steps && steps_on_the_way(pass, spec_layer_of(spec, tensor))))
            continue;
        if (count == 0 || tensor->first != runs[count - 1].first + runs[count - 1].count)
            runs[count++] = (Run){tensor->first, 0};
        runs[count - 1].count += tensor->count;
    }
    return count;
}

// What steps with the descent: SGD, or Hogwild's.
typedef void StepKernel(const CudaDescent *descent, const float *gradient, size_t first, size_t count,
                        const CudaStep *step);

// One launch for each run.
static void step_others(const CudaPass *pass, StepKernel *kernel, bool steps, const CudaStep *step) {
    const CudaDescent descent = descent_of(pass);
    Run runs[SPEC_MAX_TENSORS];
    for (int r = 0, count = runs_of(runs, pass, steps); r < count; r++)
        kernel(&descent, pass->plan.gradient, runs[r].first, runs[r].count, step);
}

// Clipped, with Nesterov's momentum, or Adam's: once the whole gradient is known.
static void step_whole(const CudaPass *pass) {
    const CudaNetPlan *plan = &pass->plan;
    const CudaOptimizer *optimizer = &plan->optimizer;
    const CudaDescent descent = descent_of(pass);
    Run runs[SPEC_MAX_TENSORS];
    const int count = runs_of(runs, pass, false);
    for (int r = 0; r < count && descent.shifts; r++)
        cuda_join_terms(plan->gradient, &descent, runs[r].first, runs[r].count, &pass->step);
    for (int r = 0; r < count && optimizer->clip > 0; r++)
        cuda_add_lengths(pass->whole.lengths, plan->gradient, plan->spec.parameter_count, runs[r].first, runs[r].count,
                         &pass->step);
    cuda_begin_whole_step(&pass->whole, pass->progress.forgotten, optimizer, &descent, &pass->step);
    for (int r = 0; r < count; r++)
        cuda_whole_step(&descent, &pass->whole, optimizer, plan->gradient, runs[r].first, runs[r].count, &pass->step);
}

// The step is refused on the card, by a count of zero: to SGD the model is then idle.
static void hogwild(const CudaPass *pass) {
    const CudaNetPlan *plan = &pass->plan;
    CudaStep applied = pass->step;
    applied.counts = pass->progress.applied;
    cuda_progress_judge(&pass->progress, plan->gradient, plan->spec.parameter_count, applied.stream);
    step_others(pass, plan->atomic_updates ? cuda_sgd_step_atomically : cuda_sgd_step, false, &applied);
    cuda_progress_count(&pass->progress, applied.stream);
}

void cuda_pass_train(const CudaPass *pass) {
    const bool steps = steps_linear_layers(pass);
    forward_and_back(pass, FOR_STEP, steps);
    if (pass->plan.updates)
        hogwild(pass);
    else if (!steps_plainly(&pass->plan.optimizer))
        step_whole(pass);
    else
        step_others(pass, cuda_sgd_step, steps, &pass->step);
    mark(pass, CUDA_PART_STEP, NULL);
}
