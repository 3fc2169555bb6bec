// Streams, events and graphs of the emulated runtime.
//
// Work on a stream waits in a queue until somebody synchronises with it, and only then runs: a host that reads results
// too early reads poison, every time. (SOUNDER_EMULATED_STREAMS=eager: it runs at once.) A stream that captures hands
// its work to a graph instead; a graph is the list of that work in order.
#ifndef SOUNDER_TESTS_EMULATOR_STREAM_H
#define SOUNDER_TESTS_EMULATOR_STREAM_H

#include <functional>

#include "cuda_runtime_api.h"

namespace emulator {

using Work = std::function<void()>;

// Puts work on a stream, or into the graph that the stream captures.
cudaError_t stream_add(cudaStream_t stream, Work work);

// Whether a stream, any stream, captures.
bool stream_captures(cudaStream_t stream);
bool stream_anybody_captures();

// Runs what waits on a stream; on all. Not while something is captured: then the capture is spoilt, as with CUDA.
cudaError_t stream_finish(cudaStream_t stream);
cudaError_t streams_finish();

// Drops what waits on the streams; and also destroys streams, events and graphs.
void streams_forget();
void streams_reset();

// Streams, events, graphs and executable graphs that have not been destroyed.
size_t stream_objects();

} // namespace emulator

#endif
