// Where the values of a net lie and how gradients flow back, whatever it is computed on: for the nodes of a graph in
// the order of their computation, which share buffers where that is safe.
//
//   Flow flow;
//   flow_plan(&flow, nodes, count);        // then: a buffer for each node that owns its value, one for each slot
//
// A gradient is whole when the way back, from the last node to the first, comes to the node whose value it belongs to:
// the first reader on that way writes it, the others add to it. In a chain of layers two slots take turns.
#ifndef SOUNDER_NN_FLOW_H
#define SOUNDER_NN_FLOW_H

#include <stdbool.h>
#include <stddef.h>

#include "nn/spec.h"

// In the place of a node: the net's input. In the place of a slot: there is none.
enum { FLOW_INPUT = -1, FLOW_NOWHERE = -1, FLOW_MAX_SLOTS = SPEC_MAX_LAYERS + 2 };

typedef struct FlowNode {
    int source, other; // nodes whose values it takes, or FLOW_INPUT; other: that, unless it takes two
    bool has_parameters;
    bool in_place;   // it may write its value over its source's, and the gradients likewise
    bool overwrites; // it may write its source's gradient over its source's value
    bool looks_back; // its way back looks at its own value
    bool passes;     // its source's gradient is the first part of its own
    bool adds;       // it can add its source's gradient to what others have written of it
    bool keeps;      // where it writes its source's gradient, nobody else writes from there on; one node at most
    size_t in, out;  // values of a sample, or of as many as go through the node together
} FlowNode;

// What the plan says of a node. Slots of gradients: from 0 on; FLOW_NOWHERE; or flow_over_value(node).
typedef struct FlowPlace {
    int owner;          // the node in whose buffer its value lies: itself or one before; FLOW_INPUT
    bool works;         // it has something to do on the way back
    int gradient;       // of its value
    int in_gradient;    // where it writes its source's gradient; FLOW_NOWHERE: nobody needs it
    bool adds;          // it adds it to what others have written there
    int sum;            // where that is added afterwards, because others have written there; or FLOW_NOWHERE
    int other_gradient; // of the other value; FLOW_NOWHERE: nobody needs it
    bool other_adds;    // it is added to what others have written there
} FlowPlace;

typedef struct Flow {
    FlowPlace places[SPEC_MAX_LAYERS];
    size_t slots[FLOW_MAX_SLOTS]; // values, of as many samples as the nodes' are
    int slot_count;
    int kept; // the slot of a node that keeps; or FLOW_NOWHERE
} Flow;

// The slot number that stands for the buffer of a node's value, and back again.
static inline int flow_over_value(int node) {
    return FLOW_NOWHERE - 1 - node;
}

static inline bool flow_is_over_value(int slot) {
    return slot < FLOW_NOWHERE;
}

// nodes: 1 to SPEC_MAX_LAYERS, each but the last read by another; the last one's gradient lies in slot 0.
void flow_plan(Flow *flow, const FlowNode *nodes, int count);

#endif
