#include "flow.h"

// While a plan is made.
typedef struct Planner {
    Flow *flow;
    const FlowNode *nodes;
    int count;
    int readers[SPEC_MAX_LAYERS];
    bool carries[SPEC_MAX_LAYERS]; // parameters lie before its value, so that somebody needs its gradient
    bool taken[FLOW_MAX_SLOTS];
} Planner;

static bool is_node(int number) {
    return number >= 0;
}

// Values --------------------------------------------------------------------------------------------------------------

static void look_at_nodes(Planner *planner) {
    for (int n = 0; n < planner->count; n++) {
        const FlowNode *node = &planner->nodes[n];
        const int read[] = {node->source, node->other};
        planner->carries[n] = node->has_parameters;
        for (int i = 0; i < 2; i++) {
            if (!is_node(read[i])) continue;
            planner->readers[read[i]]++;
            planner->carries[n] |= planner->carries[read[i]];
        }
    }
}

// The net's input is read by the first node alone.
static bool is_read_once(const Planner *planner, int number) {
    return !is_node(number) || planner->readers[number] == 1;
}

static void place_values(Planner *planner) {
    FlowPlace *places = planner->flow->places;
    for (int n = 0; n < planner->count; n++) {
        const FlowNode *node = &planner->nodes[n];
        const bool shares = node->in_place && is_read_once(planner, node->source);
        places[n].owner = !shares ? n : is_node(node->source) ? places[node->source].owner : FLOW_INPUT;
    }
}

static bool shares_value(const Planner *planner, int n) {
    return planner->flow->places[n].owner != n;
}

// Whether node n may write over its source's value on the way back: nobody else reads that, and nobody whose value it
// was in the same buffer looks there any more.
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

static int take_slot(Planner *planner, size_t values) {
    Flow *flow = planner->flow;
    int slot = 0;
    while (planner->taken[slot])
        slot++;
    if (slot == flow->slot_count) flow->slots[flow->slot_count++] = 0;
    if (flow->slots[slot] < values) flow->slots[slot] = values;
    planner->taken[slot] = true;
    return slot;
}

static void release_slot(Planner *planner, int slot) {
    if (slot >= 0 && slot != planner->flow->kept) planner->taken[slot] = false;
}

static void plan_other(Planner *planner, int n) {
    FlowPlace *places = planner->flow->places, *place = &places[n];
    const int other = planner->nodes[n].other;
    if (!is_node(other) || !planner->carries[other]) return;
    place->other_adds = places[other].gradient != FLOW_NOWHERE;
    if (!place->other_adds) places[other].gradient = take_slot(planner, planner->nodes[other].out);
    place->other_gradient = places[other].gradient;
}

// Returns whether the node's own gradient becomes that of its source.
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

static void plan_gradients(Planner *planner) {
    FlowPlace *places = planner->flow->places;
    for (int n = 0; n < planner->count; n++)
        places[n].gradient = places[n].in_gradient = places[n].sum = places[n].other_gradient = FLOW_NOWHERE;
    places[planner->count - 1].gradient = take_slot(planner, planner->nodes[planner->count - 1].out);
    for (int n = planner->count - 1; n >= 0; n--) {
        if (!planner->carries[n]) continue;
        places[n].works = true;
        plan_other(planner, n);
        if (!plan_source(planner, n)) release_slot(planner, places[n].gradient);
    }
}

void flow_plan(Flow *flow, const FlowNode *nodes, int count) {
    *flow = (Flow){.slot_count = 0, .kept = FLOW_NOWHERE};
    Planner planner = {.flow = flow, .nodes = nodes, .count = count};
    look_at_nodes(&planner);
    place_values(&planner);
    plan_gradients(&planner);
}
