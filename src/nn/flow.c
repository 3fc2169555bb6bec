// The planner makes three passes over the nodes: it finds readers and the gradients that are needed; then it gives
// values their buffers; then, from the last node to the first, gradients their slots. It runs once per net, on at most
// SPEC_MAX_LAYERS nodes, so it is simple rather than fast.
#include "flow.h"

#include <assert.h>

// The state of flow_plan. Nodes that share a value share its buffer; gradients take slots, which are taken when the
// backward pass first writes them and released after their last use, so that few slots serve many nodes.
typedef struct Planner {
    Flow *flow;
    const FlowNode *nodes;
    int count;
    int readers[SPEC_MAX_LAYERS];
    bool carries[SPEC_MAX_LAYERS]; // it or an earlier node on its path has parameters, so its gradient is needed
    bool taken[FLOW_MAX_SLOTS];
} Planner;

static bool is_node(int number) {
    return number >= 0;
}

// Values --------------------------------------------------------------------------------------------------------------

// Counts each node's readers and finds the nodes that need a gradient: no gradient flows back beyond the
// first parameters.
static void look_at_nodes(Planner *planner) {
    for (int n = 0; n < planner->count; n++) {
        const FlowNode *node = &planner->nodes[n];
        const int read[] = {node->source, node->other};
        assert(node->source < n && node->other < n); // values flow forwards
        planner->carries[n] = node->has_parameters;
        for (int i = 0; i < 2; i++) {
            if (!is_node(read[i])) continue;
            planner->readers[read[i]]++;
            planner->carries[n] |= planner->carries[read[i]];
        }
    }
}

// A node can write its value over its source's only if no other node reads the source.
static void place_values(Planner *planner) {
    FlowPlace *places = planner->flow->places;
    for (int n = 0; n < planner->count; n++) {
        const FlowNode *node = &planner->nodes[n];
        // The net's input is read by the first node alone.
        const bool read_once = !is_node(node->source) || planner->readers[node->source] == 1;
        const bool shares = node->in_place && read_once;
        places[n].owner = !shares ? n : is_node(node->source) ? places[node->source].owner : FLOW_INPUT;
    }
}

static bool shares_value(const Planner *planner, int n) {
    return planner->flow->places[n].owner != n;
}

// Whether node n may write its source's gradient over its source's value: no other node reads the value, and no node
// that shares its buffer reads its own value on its later backward pass.
static bool may_overwrite(const Planner *planner, int n) {
    const FlowNode *nodes = planner->nodes;
    int value = nodes[n].source;
    if (!nodes[n].overwrites || !is_node(value) || planner->readers[value] > 1) return false;
    for (;; value = nodes[value].source) {
        if (nodes[value].looks_back) return false;
        if (!shares_value(planner, value) || !is_node(nodes[value].source)) return true;
    }
}

// Gradients -----------------------------------------------------------------------------------------------------------

// Takes the first free slot, and enlarges it to `values`, if it is smaller. The first free slot rather than the best
// fitting one: with two slots in turn, which is what a chain of layers takes, both soon have the size of the largest
// gradients.
static int take_slot(Planner *planner, size_t values) {
    Flow *flow = planner->flow;
    int slot = 0;
    while (planner->taken[slot])
        slot++;
    assert(slot < FLOW_MAX_SLOTS && slot <= flow->slot_count);
    if (slot == flow->slot_count) flow->slots[flow->slot_count++] = 0;
    if (flow->slots[slot] < values) flow->slots[slot] = values;
    planner->taken[slot] = true;
    return slot;
}

// The slot of a node that `keeps` stays taken for the rest of the plan, and slots over values are not taken at all.
static void release_slot(Planner *planner, int slot) {
    assert(slot < planner->flow->slot_count && (slot < 0 || planner->taken[slot])); // a slot is released once
    if (slot >= 0 && slot != planner->flow->kept) planner->taken[slot] = false;
}

// The second source: a slot of its own for the first reader to write, and an addition for the later ones. The gradient
// is never shared with the node's own, since both sources may have other readers.
static void plan_other(Planner *planner, int n) {
    FlowPlace *places = planner->flow->places, *place = &places[n];
    const int other = planner->nodes[n].other;
    if (!is_node(other) || !planner->carries[other]) return;
    place->other_adds = places[other].gradient != FLOW_NOWHERE;
    if (!place->other_adds) places[other].gradient = take_slot(planner, planner->nodes[other].out);
    place->other_gradient = places[other].gradient;
}

// Plans the gradient of the node's source. There are four cases: the node adds to a gradient that other readers wrote;
// the node passes its own gradient on in place; it overwrites its source's value; or it takes a slot of its own, which
// is added to the others' gradient afterwards if there is one. Returns whether the node's own slot is now its source's.
static bool plan_source(Planner *planner, int n) {
    FlowPlace *places = planner->flow->places, *place = &places[n];
    const FlowNode *node = &planner->nodes[n];
    if (!is_node(node->source) || !planner->carries[node->source]) return false;
    FlowPlace *source = &places[node->source];
    const bool is_first = source->gradient == FLOW_NOWHERE, keeps = node->passes || shares_value(planner, n);
    place->adds = !is_first && node->adds;
    if (place->adds) {
        place->in_gradient = source->gradient;
        return false;
    }
    if (!is_first) place->sum = source->gradient;
    if (keeps)
        place->in_gradient = place->gradient;
    else if (is_first && may_overwrite(planner, n))
        place->in_gradient = flow_over_value(node->source);
    else
        place->in_gradient = take_slot(planner, node->in);
    if (node->keeps) planner->flow->kept = place->in_gradient;
    if (is_first)
        source->gradient = place->in_gradient;
    else if (!keeps)
        release_slot(planner, place->in_gradient);
    return keeps && is_first;
}

// Walks from the last node to the first. A node's slot is free again when the node has used it, unless it has become
// its source's.
static void plan_gradients(Planner *planner) {
    FlowPlace *places = planner->flow->places;
    for (int n = 0; n < planner->count; n++)
        places[n].gradient = places[n].in_gradient = places[n].sum = places[n].other_gradient = FLOW_NOWHERE;
    places[planner->count - 1].gradient = take_slot(planner, planner->nodes[planner->count - 1].out);
    for (int n = planner->count - 1; n >= 0; n--) {
        if (!planner->carries[n]) continue;
        places[n].works = true;
        assert(places[n].gradient != FLOW_NOWHERE); // a reader has written it
        plan_other(planner, n);
        if (!plan_source(planner, n) && !planner->nodes[n].lasts) release_slot(planner, places[n].gradient);
    }
}

void flow_plan(Flow *flow, const FlowNode *nodes, int count) {
    assert(count >= 1 && count <= SPEC_MAX_LAYERS);
    *flow = (Flow){.slot_count = 0, .kept = FLOW_NOWHERE};
    Planner planner = {.flow = flow, .nodes = nodes, .count = count};
    look_at_nodes(&planner);
    place_values(&planner);
    plan_gradients(&planner);
}
