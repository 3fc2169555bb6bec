// The table of one instruction set's build.
#include "ops.h"

#define QUOTE(text)     #text
#define STRING(text)    QUOTE(text)
#define ROW(member, op) .member = ISA_NAME(op),

const Kernels ISA_NAME(kernels) = {.name = STRING(SOUNDER_ISA), .lanes = SOUNDER_LANES, OPS(ROW)};
