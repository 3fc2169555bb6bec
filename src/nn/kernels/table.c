// Part of ops.h: the table of one instruction set's build, and the table of its ops for few samples.
#include "ops.h"

#define QUOTE(text)     #text
#define STRING(text)    QUOTE(text)
#define ROW(member, op) .member = ISA_NAME(op),

#if SOUNDER_LANES > 4
// Ops whose vectors are samples are those of the build of FEW_SAMPLES lanes; the others are this build's.
#define FEW_OP(member, op)  __typeof__(*((const Kernels *)NULL)->member) ISA_EXPAND(op, few);
#define FEW_ROW(member, op) .member = ISA_EXPAND(op, few),
OPS_OF_SAMPLES(FEW_OP)

static const Kernels few = {
    .name = STRING(SOUNDER_ISA), .lanes = FEW_SAMPLES, OPS_OF_VALUES(ROW) OPS_OF_SAMPLES(FEW_ROW)};
#define FEW &few
#else
#define FEW NULL
#endif

// Every op of the lists has its place here: an op that a build lacks does not link.
const Kernels ISA_NAME(kernels) = {.name = STRING(SOUNDER_ISA), .lanes = SOUNDER_LANES, .few = FEW, OPS(ROW)};
