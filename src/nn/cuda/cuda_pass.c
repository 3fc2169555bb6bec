#include "cuda_pass.h"

#include "nn/layers/cuda_layer.h"

// A frozen layer, or a net that never trains, has no gradient to write: NULL tells the layer.
static CudaCall call_of(const CudaPass *pass, const CudaOp *op, CudaPurpose purpose, bool steps) {
    const CudaNetPlan *plan = &pass->plan;
    const Layer *layer = op->layer;
    return (CudaCall){.pass = pass,
                      .op = op,
                      .step = &pass->step,
                      .weight = plan->weights + layer->weight,
                      .bias = plan->weights + layer->bias,
                      .stride = plan->weights_stride,
                      .gradient = layer->frozen || !plan->gradient ? NULL : plan->gradient + layer->weight,
                      .bias_gradient = layer->frozen || !plan->gradient ? NULL : plan->gradient + layer->bias,
                      .gradient_stride = plan->stride,
                      .purpose = purpose,
                      .steps = steps};
}

// The launches of a forward pass. Only training crops and flips images.
static void forward(const CudaPass *pass, CudaPurpose purpose) {
    const CudaNetPlan *plan = &pass->plan;
    const CudaStep *step = &pass->step;
    const bool trains = purpose >= FOR_GRADIENT, augments = trains && augment_is_on(&plan->spec.augment);
    const float *scale = plan->floats ? NULL : pass->scale;
    float *in = pass->ops.ops[0].in;
    cuda_gather(in, plan->pixels, plan->order, &pass->progress, scale, pass->shift, plan->spec.input,
                augments ? &plan->spec.augment : NULL, step);
    if (plan->noisy) cuda_add_noise(in, plan->order, &pass->progress, scale, plan->spec.input, step);
    cuda_mark(pass, CUDA_PART_GATHER, NULL);
    for (int i = 0; i < pass->ops.count; i++) {
        const CudaOp *op = &pass->ops.ops[i];
        const CudaCall call = call_of(pass, op, purpose, false);
        cuda_layer(op->layer)->forward(&call);
        cuda_mark(pass, CUDA_PART_FORWARD, op);
    }
}

// Smoothing is for training alone, which asks for a gradient.
static void loss(const CudaPass *pass, float *gradient) {
    const CudaNetPlan *plan = &pass->plan;
    const float *numbers = (const float *)(const void *)plan->labels;
    if (plan->spec.squared_loss)
        cuda_squared_loss(gradient, &pass->progress, pass->ops.logits, numbers, plan->order, &pass->step);
    else if (plan->spec.label_rows || plan->spec.one_vs_rest)
        cuda_binary_cross_entropy(gradient, &pass->progress, pass->ops.logits, plan->spec.label_rows ? numbers : NULL,
                                  plan->labels, plan->order, plan->spec.classes, &pass->step);
    else
        cuda_softmax_cross_entropy(gradient, &pass->progress, pass->ops.logits, plan->labels, plan->order,
                                   plan->class_weights, gradient ? plan->spec.smoothing : 0, plan->spec.classes,
                                   &pass->step);
    cuda_mark(pass, CUDA_PART_LOSS, NULL);
}

CudaSgdUpdate cuda_pass_descent(const CudaPass *pass) {
    const CudaNetPlan *plan = &pass->plan;
    return (CudaSgdUpdate){.weights = plan->weights,
                           .velocity = plan->velocity,
                           .stride = plan->weights_stride,
                           .state_stride = plan->stride,
                           .lr = pass->lr,
                           .sgd = plan->sgd,
                           .shifts = plan->gradient_shifts,
                           .pulls = plan->pulls};
}

// Up to this number of samples, a linear layer's step in its gradient's kernel is faster than cuBLAS's product followed
// by a kernel for the step.
enum { MOST_STEPPED_SAMPLES = 128 };

// Whether the step of one weight needs the gradient of that weight alone. Clipping needs the whole gradient's length,
// and Adam and Nesterov's momentum need other formulas than a linear layer's kernel has.
static bool steps_plainly(const CudaOptimizer *optimizer) {
    return !optimizer->squares && !optimizer->nesterov && optimizer->clip == 0;
}

// Whether linear layers make their steps by themselves, without storing their gradients. Hogwild must know first that
// the whole gradient is finite. Above MOST_STEPPED_SAMPLES cuBLAS's product is fast enough that writing and reading the
// gradient pays.
static bool steps_linear_layers(const CudaPass *pass) {
    return !pass->plan.updates && steps_plainly(&pass->plan.optimizer) && pass->step.samples <= MOST_STEPPED_SAMPLES;
}

// Whether the layer makes its step by itself, if linear layers do.
static bool steps_early(const CudaPass *pass, const Layer *layer) {
    return layer_has(layer, HEADS) && !spec_freezes_of(&pass->plan.spec, layer);
}

// Makes the steps of linear layers after the backward pass, CUDA_MOST_LINEAR of them in a launch: the inputs' gradients
// have been computed with the weights from before, and the layers' inputs and outputs' gradients are still there.
static void step_linear_layers(const CudaPass *pass) {
    const CudaSgdUpdate descent = cuda_pass_descent(pass);
    CudaLinear layers[CUDA_MOST_LINEAR];
    int count = 0;
    for (int i = pass->ops.count - 1; i >= pass->ops.first; i--) {
        const CudaOp *op = &pass->ops.ops[i];
        if (op->works && steps_early(pass, op->layer))
            layers[count++] = (CudaLinear){op->layer, op->in, op->out_gradient};
        if (count == CUDA_MOST_LINEAR || (count > 0 && i == pass->ops.first)) {
            cuda_linear_step(&descent, layers, count, &pass->step);
            count = 0;
        }
    }
    cuda_mark(pass, CUDA_PART_PARAMETERS_AND_STEP, NULL);
}

// The backward pass from the logits' gradient to the first op with parameters, whose input gradient is not needed. With
// `steps`, the steps of linear layers follow.
static void backward(const CudaPass *pass, CudaPurpose purpose, bool steps) {
    for (int i = pass->ops.count - 1; i >= pass->ops.first; i--) {
        const CudaOp *op = &pass->ops.ops[i];
        if (!op->works) continue;
        const CudaCall call = call_of(pass, op, purpose, steps && steps_early(pass, op->layer));
        cuda_layer(op->layer)->backward(&call);
        const size_t in = shape_size(op->layer->in);
        if (op->sum) cuda_add((CudaRows){op->sum, in, 0}, (CudaRows){op->in_gradient, in, 0}, in, true, &pass->step);
    }
    if (steps) step_linear_layers(pass);
}

void cuda_pass_evaluate(const CudaPass *pass) {
    forward(pass, FOR_TESTS);
    loss(pass, NULL);
}

// The loss kernel between the passes writes the logits' gradient, with which the backward pass begins.
static void forward_and_back(const CudaPass *pass, CudaPurpose purpose, bool steps) {
    forward(pass, purpose);
    loss(pass, pass->ops.logits_gradient);
    backward(pass, purpose, steps);
}

void cuda_pass_gradient(const CudaPass *pass) {
    forward_and_back(pass, FOR_GRADIENT, false);
}

// A run of neighbouring parameters that are stepped by one launch.
// The parameters of a net are one array, so neighbours of several layers make one launch.
typedef struct Run {
    size_t first, count;
} Run;

// Lists the parameters that still have to step: neither frozen nor running statistics, nor, with `steps`, those of
// linear layers. Returns the number of runs.
static int runs_of(Run runs[SPEC_MAX_TENSORS], const CudaPass *pass, bool steps) {
    const Spec *spec = &pass->plan.spec;
    int count = 0;
    for (int t = 0; t < spec->tensor_count; t++) {
        const ParameterTensor *tensor = &spec->tensors[t];
        if (tensor->frozen || tensor->follows || (steps && steps_early(pass, spec_layer_of(spec, tensor)))) continue;
        if (count == 0 || tensor->first != runs[count - 1].first + runs[count - 1].count)
            runs[count++] = (Run){tensor->first, 0};
        runs[count - 1].count += tensor->count;
    }
    return count;
}

// A kernel that steps parameters as the descent says: SGD's, or Hogwild's.
typedef void StepKernel(const CudaSgdUpdate *descent, const float *gradient, size_t first, size_t count,
                        const CudaStep *step);

// Makes the step of all remaining parameters, one launch per run.
static void step_others(const CudaPass *pass, StepKernel *kernel, bool steps, const CudaStep *step) {
    const CudaSgdUpdate descent = cuda_pass_descent(pass);
    Run runs[SPEC_MAX_TENSORS];
    for (int r = 0, count = runs_of(runs, pass, steps); r < count; r++)
        kernel(&descent, pass->plan.gradient, runs[r].first, runs[r].count, step);
}

// A kernel that steps parameters when the whole gradient is known.
typedef void WholeStepKernel(const CudaSgdUpdate *descent, const CudaWholeStep *whole, const CudaOptimizer *optimizer,
                             const float *gradient, size_t first, size_t count, const CudaStep *step);

// Steps that need the whole gradient: clipped ones, and those of Nesterov's momentum and Adam.
static void step_whole(const CudaPass *pass, WholeStepKernel *kernel, const CudaStep *step) {
    const CudaNetPlan *plan = &pass->plan;
    const CudaOptimizer *optimizer = &plan->optimizer;
    const CudaSgdUpdate descent = cuda_pass_descent(pass);
    Run runs[SPEC_MAX_TENSORS];
    const int count = runs_of(runs, pass, false);
    for (int r = 0; r < count && descent.shifts; r++)
        cuda_join_terms(plan->gradient, &descent, runs[r].first, runs[r].count, step);
    for (int r = 0; r < count && optimizer->clip > 0; r++)
        cuda_add_lengths(&pass->whole, plan->gradient, plan->stride, runs[r].first, runs[r].count, step);
    cuda_begin_whole_step(&pass->whole, optimizer->forgotten, optimizer, &descent, step);
    for (int r = 0; r < count; r++)
        kernel(&descent, &pass->whole, optimizer, plan->gradient, runs[r].first, runs[r].count, step);
}

// A step of Hogwild. If the GPU finds the gradient not finite, it sets the count to zero: to SGD the model is then
// idle, and the host need not know. Frozen parameters have no gradient to judge.
static void hogwild(const CudaPass *pass) {
    const CudaNetPlan *plan = &pass->plan;
    CudaStep applied = pass->step;
    applied.counts = pass->progress.applied;
    Run runs[SPEC_MAX_TENSORS];
    for (int r = 0, count = runs_of(runs, pass, false); r < count; r++)
        cuda_progress_judge(&pass->progress, plan->gradient + runs[r].first, runs[r].count, applied.stream);
    if (plan->optimizer.clip > 0)
        step_whole(pass, plan->atomic_updates ? cuda_whole_step_atomically : cuda_whole_step, &applied);
    else
        step_others(pass, plan->atomic_updates ? cuda_sgd_step_atomically : cuda_sgd_step, false, &applied);
    cuda_progress_count(&pass->progress, applied.stream);
}

// Tensors that learn nothing keep the zeros of their full gradient.
void cuda_pass_look(const CudaPass *pass) {
    const CudaNetPlan *plan = &pass->plan;
    Run runs[SPEC_MAX_TENSORS];
    forward_and_back(pass, FOR_LOOK, false);
    for (int r = 0, count = runs_of(runs, pass, false); r < count; r++)
        cuda_add_share(plan->full_gradient, plan->gradient, plan->totals, plan->stride, runs[r].first, runs[r].count,
                       &pass->step);
}

// With plain SGD most weights of a net, those of its linear layers, are stepped by their gradient's kernel; one more
// launch per run of the remaining parameters completes the step.
void cuda_pass_train(const CudaPass *pass) {
    const bool steps = steps_linear_layers(pass);
    forward_and_back(pass, FOR_STEP, steps);
    if (pass->plan.updates)
        hogwild(pass);
    else if (!steps_plainly(&pass->plan.optimizer))
        step_whole(pass, cuda_whole_step, &pass->step);
    else
        step_others(pass, cuda_sgd_step, steps, &pass->step);
    cuda_mark(pass, CUDA_PART_STEP, NULL);
}
