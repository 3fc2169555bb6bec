// Plans which values and gradients of a net share memory, for the CPU and the GPU alike. The nodes of a graph are given
// in the order of their computation.
//
//   Flow flow;
//   flow_plan(&flow, nodes, count);   // then allocate a buffer per node that owns its value, and one per slot
//
// The backward pass goes from the last node to the first. A node's gradient is complete when that pass reaches the
// node: the first reader of its value on the backward pass writes the gradient, the others add to it. In a chain of
// layers the gradients take turns in two slots.
#ifndef SOUNDER_NN_FLOW_H
#define SOUNDER_NN_FLOW_H

#include <stdbool.h>
#include <stddef.h>

#include "nn/spec.h"

// Special numbers: of a node, the net's input; of a slot, no slot.
enum { FLOW_INPUT = -1, FLOW_NOWHERE = -1, FLOW_MAX_SLOTS = SPEC_MAX_LAYERS + 2 };

typedef struct FlowNode {
    int source, other; // numbers of the nodes that it reads, or FLOW_INPUT; other is FLOW_INPUT unless it reads two
    bool has_parameters;
    bool in_place;   // it can write its value over its source's, and its source's gradient over its own
    bool overwrites; // it can write its source's gradient over its source's value
    bool looks_back; // its backward pass reads its own value
    bool passes;     // its source's gradient is the first part of its own
    bool adds;       // it can add its source's gradient to the one already there
    bool keeps;      // no other node may write to the slot of its source's gradient afterwards; at most one node
    bool lasts;      // no other node may write to the slot of its own gradient afterwards
    size_t in, out;  // number of values of a sample, or of as many samples as go through the node together
} FlowNode;

// The plan for one node. A slot is a number from 0 on, FLOW_NOWHERE, or flow_over_value(node).
typedef struct FlowPlace {
    int owner;       // the node whose buffer holds its value: itself or an earlier one; FLOW_INPUT
    bool works;      // its backward pass has something to do
    int gradient;    // slot of its value's gradient
    int in_gradient; // slot that it writes its source's gradient to; FLOW_NOWHERE: not needed
    bool adds;       // it adds the gradient to what that slot holds
    int sum;         // slot that in_gradient is added to afterwards, as other readers wrote there; FLOW_NOWHERE: none
    int other_gradient; // slot of its second source's gradient; FLOW_NOWHERE: not needed
    bool other_adds;    // other_gradient is added to what that slot holds
} FlowPlace;

typedef struct Flow {
    FlowPlace places[SPEC_MAX_LAYERS];
    size_t slots[FLOW_MAX_SLOTS]; // size of each slot, in values of as many samples as those of the nodes
    int slot_count;
    int kept; // the slot that a node with `keeps` writes; or FLOW_NOWHERE
} Flow;

// The slot number that means the buffer of a node's value. Applied to such a number, it gives the node.
static inline int flow_over_value(int node) {
    return FLOW_NOWHERE - 1 - node;
}

static inline bool flow_is_over_value(int slot) {
    return slot < FLOW_NOWHERE;
}

// nodes: 1 to SPEC_MAX_LAYERS; a later node reads each of them but the last, whose gradient is in slot 0.
void flow_plan(Flow *flow, const FlowNode *nodes, int count);

#endif
