// How many cards this process may use, counted without waking one up: no CUDA call, no context, no library.
#ifndef SOUNDER_APP_LAUNCH_GPUS_H
#define SOUNDER_APP_LAUNCH_GPUS_H

// The device files nvidia0, nvidia1, ... in `folder` (/dev; a container sees those it was given), of which
// visible_devices (CUDA_VISIBLE_DEVICES; NULL: all) may allow fewer: as CUDA reads it, a comma-separated list that ends
// at the first -1 or the first number without a card. Names (GPU-..., MIG-...) count as they stand.
int gpus_visible(const char *visible_devices, const char *folder);

#endif
