#include "stream.h"

#include <chrono>
#include <deque>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "call.h"
#include "memory.h"
#include "settings.h"

struct CUgraph_st {
    std::vector<emulator::Work> works;
};

struct CUgraphExec_st {
    std::shared_ptr<const std::vector<emulator::Work>> works; // launches that still wait hold it too
};

struct CUstream_st {
    std::deque<emulator::Work> queue;
    bool blocking = true; // ordered with the default stream
    bool draining = false;
    std::unique_ptr<CUgraph_st> capture;
    bool spoilt = false;
    CUstream_st *origin = nullptr; // the stream whose capture this one has joined
};

struct CUevent_st {
    CUstream_st *stream = nullptr; // where it was recorded last
    uint64_t recorded = 0, reached = 0;
    std::chrono::steady_clock::time_point time;
    bool timed = true, captured = false;
};

namespace emulator {

namespace {

constexpr size_t queue_max = 1000; // a GPU takes about as many, then the host waits

struct Streams {
    CUstream_st legacy; // the default stream
    std::set<CUstream_st *> streams;
    std::set<CUevent_st *> events;
    std::set<CUgraph_st *> graphs;
    std::set<CUgraphExec_st *> executables;
};

Streams &all() {
    static Streams streams;
    return streams;
}

// Null: no such stream.
CUstream_st *known(cudaStream_t stream) {
    if (stream == nullptr || stream == cudaStreamLegacy) return &all().legacy;
    return all().streams.count(stream) ? stream : nullptr;
}

CUgraph_st *capture_of(CUstream_st *stream) {
    return stream->origin ? stream->origin->capture.get() : stream->capture.get();
}

cudaError_t spoil_captures() {
    for (CUstream_st *stream : all().streams)
        if (stream->capture) stream->spoilt = true;
    return cudaErrorStreamCaptureUnsupported;
}

// Runs what is queued, as long as it is wanted. Work may want other streams to go on first (cudaStreamWaitEvent).
void drain(CUstream_st *stream, const std::function<bool()> &wanted) {
    if (stream->draining || stream->queue.empty()) return;
    DeviceAccess access;
    stream->draining = true;
    while (!stream->queue.empty() && wanted()) {
        Work work = std::move(stream->queue.front());
        stream->queue.pop_front();
        if (failed_for_good() == cudaSuccess) work();
    }
    stream->draining = false;
    memory_check_guards();
}

void drain(CUstream_st *stream) {
    drain(stream, [] { return true; });
}

void drain_all() {
    for (CUstream_st *stream : all().streams)
        drain(stream);
}

// The default stream waits for the blocking ones, and they for it: so it does its work at once.
void run_on_legacy(const Work &work) {
    for (CUstream_st *stream : all().streams)
        if (stream->blocking) drain(stream);
    DeviceAccess access;
    if (failed_for_good() == cudaSuccess) work();
    memory_check_guards();
}

template <typename T> cudaError_t destroy(std::set<T *> &known_ones, T *one) {
    if (known_ones.erase(one) == 0) return cudaErrorInvalidResourceHandle;
    delete one;
    return cudaSuccess;
}

template <typename T> T *create(std::set<T *> &known_ones) {
    T *one = new T;
    known_ones.insert(one);
    return one;
}

} // namespace

bool stream_captures(cudaStream_t stream) {
    CUstream_st *found = known(stream);
    return found && capture_of(found);
}

bool stream_anybody_captures() {
    for (CUstream_st *stream : all().streams)
        if (stream->capture) return true;
    return false;
}

cudaError_t stream_add(cudaStream_t handle, Work work) {
    CUstream_st *stream = known(handle);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (CUgraph_st *graph = capture_of(stream)) {
        graph->works.push_back(std::move(work));
        return cudaSuccess;
    }
    if (stream == &all().legacy) {
        if (stream_anybody_captures()) {
            spoil_captures();
            return cudaErrorStreamCaptureImplicit;
        }
        run_on_legacy(work);
        return failed_for_good();
    }
    stream->queue.push_back(std::move(work));
    if (!settings().lazy_streams || stream->queue.size() > queue_max) drain(stream);
    return cudaSuccess;
}

cudaError_t stream_finish(cudaStream_t handle) {
    CUstream_st *stream = known(handle);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (capture_of(stream)) return spoil_captures();
    if (stream == &all().legacy) return streams_finish();
    drain(stream);
    return failed_for_good();
}

cudaError_t streams_finish() {
    if (stream_anybody_captures()) return spoil_captures();
    drain_all();
    return failed_for_good();
}

void streams_forget() {
    for (CUstream_st *stream : all().streams)
        stream->queue.clear();
}

template <typename T> static void destroy_all(std::set<T *> &known_ones) {
    for (T *one : known_ones)
        delete one;
    known_ones.clear();
}

void streams_reset() {
    destroy_all(all().streams);
    destroy_all(all().events);
    destroy_all(all().graphs);
    destroy_all(all().executables);
}

size_t stream_objects() {
    return all().streams.size() + all().events.size() + all().graphs.size() + all().executables.size();
}

} // namespace emulator

using namespace emulator;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags) {
    if (cudaError_t error = enter(__func__)) return error;
    *stream = create(all().streams);
    (*stream)->blocking = !(flags & cudaStreamNonBlocking);
    return leave(memory_open_context());
}

cudaError_t cudaStreamCreate(cudaStream_t *stream) {
    return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int) {
    return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    cudaError_t error = enter(__func__);
    if (known(stream) && stream) drain(stream);
    for (CUevent_st *event : all().events) // an event may outlive its stream, whose work is done by now
        if (event->stream == stream) event->stream = nullptr;
    cudaError_t released = destroy(all().streams, stream);
    return leave(error ? error : released);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    if (cudaError_t error = enter(__func__)) return error;
    return leave(stream_finish(stream));
}

cudaError_t cudaDeviceSynchronize() {
    if (cudaError_t error = enter(__func__)) return error;
    return leave(streams_finish());
}

// Asking is what makes work go on here, one piece at a time, so that whoever polls comes to an end.
cudaError_t cudaStreamQuery(cudaStream_t handle) {
    if (cudaError_t error = enter(__func__)) return error;
    CUstream_st *stream = known(handle);
    if (!stream) return leave(cudaErrorInvalidResourceHandle);
    if (capture_of(stream)) return leave(spoil_captures());
    bool first = true;
    drain(stream, [&] { return std::exchange(first, false); });
    return stream->queue.empty() ? failed_for_good() : cudaErrorNotReady;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data) {
    if (cudaError_t error = enter(__func__)) return error;
    return leave(stream_add(stream, [=] { function(data); }));
}

// Events -------------------------------------------------------------------------------------------------------------

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags) {
    if (cudaError_t error = enter(__func__)) return error;
    *event = create(all().events);
    (*event)->timed = !(flags & cudaEventDisableTiming);
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    cudaError_t error = enter(__func__);
    if (all().events.count(event) && event->stream) drain(event->stream); // what waits there may refer to it
    cudaError_t released = destroy(all().events, event);
    return leave(error ? error : released);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
    if (cudaError_t error = enter(__func__)) return error;
    CUstream_st *stream = known(handle);
    if (!stream || !all().events.count(event)) return leave(cudaErrorInvalidResourceHandle);
    event->stream = stream;
    event->captured = capture_of(stream) != nullptr;
    if (event->captured) return cudaSuccess; // a graph runs in the order of capture: nothing has to wait
    uint64_t number = ++event->recorded;
    return leave(stream_add(stream, [=] {
        event->reached = number;
        event->time = std::chrono::steady_clock::now();
    }));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned int) {
    if (cudaError_t error = enter(__func__)) return error;
    CUstream_st *stream = known(handle);
    if (!stream || !all().events.count(event)) return leave(cudaErrorInvalidResourceHandle);
    if (event->captured) { // a fork joins the capture, a join leaves it as it is
        CUstream_st *origin = event->stream->origin ? event->stream->origin : event->stream;
        if (stream != origin) stream->origin = origin;
        return cudaSuccess;
    }
    uint64_t number = event->recorded;
    return leave(stream_add(stream, [=] {
        if (event->stream) drain(event->stream, [=] { return event->reached < number; });
    }));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    if (cudaError_t error = enter(__func__)) return error;
    if (!all().events.count(event)) return leave(cudaErrorInvalidResourceHandle);
    if (stream_anybody_captures()) return leave(spoil_captures());
    if (event->stream) drain(event->stream, [=] { return event->reached < event->recorded; });
    return failed_for_good();
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    if (cudaError_t error = enter(__func__)) return error;
    if (!all().events.count(event)) return leave(cudaErrorInvalidResourceHandle);
    bool first = true;
    if (event->stream)
        drain(event->stream, [&] { return event->reached < event->recorded && std::exchange(first, false); });
    return event->reached < event->recorded ? cudaErrorNotReady : failed_for_good();
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
    if (cudaError_t error = enter(__func__)) return error;
    if (!start->timed || !end->timed || !start->reached || !end->reached) return leave(cudaErrorInvalidResourceHandle);
    if (start->reached < start->recorded || end->reached < end->recorded) return leave(cudaErrorNotReady);
    *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
    return cudaSuccess;
}

// Graphs -------------------------------------------------------------------------------------------------------------

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode) {
    if (cudaError_t error = enter(__func__)) return error;
    CUstream_st *stream = known(handle);
    if (!stream) return leave(cudaErrorInvalidResourceHandle);
    if (stream == &all().legacy) return leave(cudaErrorStreamCaptureUnsupported);
    if (capture_of(stream)) return leave(cudaErrorIllegalState);
    stream->capture = std::make_unique<CUgraph_st>();
    stream->spoilt = false;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *graph) {
    *graph = nullptr;
    cudaError_t error = enter(__func__);
    CUstream_st *stream = known(handle);
    if (!stream || !stream->capture) return leave(error ? error : cudaErrorStreamCaptureUnmatched);
    std::unique_ptr<CUgraph_st> captured = std::move(stream->capture);
    for (CUstream_st *other : all().streams)
        if (other->origin == stream) other->origin = nullptr;
    if (error) return error;
    if (stream->spoilt) return leave(cudaErrorStreamCaptureInvalidated);
    all().graphs.insert(captured.get());
    *graph = captured.release();
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus *status) {
    if (cudaError_t error = enter(__func__)) return error;
    CUstream_st *stream = known(handle);
    if (!stream) return leave(cudaErrorInvalidResourceHandle);
    *status = !capture_of(stream) ? cudaStreamCaptureStatusNone
              : stream->spoilt    ? cudaStreamCaptureStatusInvalidated
                                  : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}

cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned int) {
    if (cudaError_t error = enter(__func__)) return error;
    *graph = create(all().graphs);
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    cudaError_t error = enter(__func__);
    cudaError_t released = destroy(all().graphs, graph);
    return leave(error ? error : released);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    if (cudaError_t error = enter(__func__)) return error;
    if (!all().graphs.count(graph) || nodes) return leave(cudaErrorInvalidValue); // only the count is told
    *count = graph->works.size();
    return cudaSuccess;
}

cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *, size_t,
                                       cudaGraph_t child) {
    if (cudaError_t error = enter(__func__)) return error;
    if (!all().graphs.count(graph) || !all().graphs.count(child) || !node) return leave(cudaErrorInvalidValue);
    graph->works.push_back([works = child->works] {
        for (const Work &work : works)
            work();
    });
    *node = reinterpret_cast<cudaGraphNode_t>(graph->works.size()); // a number: it is only passed back
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long) {
    if (cudaError_t error = enter(__func__)) return error;
    if (!all().graphs.count(graph)) return leave(cudaErrorInvalidValue);
    *executable = create(all().executables);
    (*executable)->works = std::make_shared<const std::vector<Work>>(graph->works);
    return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t) {
    if (cudaError_t error = enter(__func__)) return error;
    return leave(all().executables.count(executable) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
    if (cudaError_t error = enter(__func__)) return error;
    if (!all().executables.count(executable)) return leave(cudaErrorInvalidValue);
    return leave(stream_add(stream, [works = executable->works] {
        for (const Work &work : *works)
            if (failed_for_good() == cudaSuccess) work();
    }));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
    cudaError_t error = enter(__func__);
    cudaError_t released = destroy(all().executables, executable);
    return leave(error ? error : released);
}
