// Streams are lazy: nothing runs before somebody waits for it, so that results read
// too early are seen to be wrong. Events, and capture into graphs.
#include "state.h"

#include <algorithm>
#include <chrono>

using namespace sattn_stub;

namespace {

constexpr unsigned flag_non_blocking = 1, flag_no_timing = 2;
void *const legacy_stream = (void *)1, *const thread_stream = (void *)2;

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Event *find_event(void *handle) {
  Event *e = (Event *)handle;
  if (current().events.count(e)) return e;
  for (Context *c : state.contexts)
    if (c->events.count(e)) {
      misuse(invalid_context, "an event of another context");
      return nullptr;
    }
  misuse(invalid_handle, "not a live event");
  return nullptr;
}

bool stream_alive(const Stream *s) {
  for (Context *c : state.contexts)
    if (s == &c->null_stream || c->streams.count(const_cast<Stream *>(s))) return true;
  return false;
}

bool done(const Event &e) {
  return !e.stream || !stream_alive(e.stream) || e.stream->completed >= e.number;
}

void leave_capture(Stream &s) {
  s.capture.reset();
  s.captured = s.joined = 0;
}

}  // namespace

bool sattn_stub::find_stream(void *handle, Stream *&out) {
  if (handle == thread_stream) {
    misuse(not_supported, "the per-thread default stream is not in the stub");
    return false;
  }
  if (!handle || handle == legacy_stream) {
    out = &current().null_stream;
    return true;
  }
  out = (Stream *)handle;
  if (current().streams.count(out)) return true;
  for (Context *c : state.contexts)
    if (c->streams.count(out)) {
      misuse(invalid_context, "a stream of another context than the current one");
      return false;
    }
  misuse(invalid_handle, "not a live stream");
  return false;
}

CUresult sattn_stub::run_until(Stream &s, uint64_t number) {
  while (s.completed < number && !s.queue.empty()) {
    Operation op = std::move(s.queue.front());
    s.queue.pop_front();
    ++s.completed;
    if (s.context->sticky) continue;  // after an error the rest is dropped
    if (CUresult r = op()) s.context->sticky = r;
  }
  return s.context->sticky;
}

CUresult sattn_stub::drain(Stream &s) {
  return run_until(s, s.enqueued);
}

CUresult sattn_stub::drain_all(Context &c, bool blocking_only) {
  // newest stream first, so that a missing dependency on an older one shows
  std::vector<Stream *> streams(c.streams.begin(), c.streams.end());
  std::sort(streams.begin(), streams.end(), [](const Stream *a, const Stream *b) { return a->id > b->id; });
  for (Stream *s : streams)
    if (!blocking_only || !s->non_blocking) drain(*s);
  drain(c.null_stream);
  return c.sticky;
}

bool sattn_stub::anything_pending(const Context &c) {
  for (const Stream *s : c.streams)
    if (!s->queue.empty()) return true;
  return !c.null_stream.queue.empty();
}

bool sattn_stub::anything_capturing(const Context &c) {
  for (const Stream *s : c.streams)
    if (s->capture) return true;
  return false;
}

CUresult sattn_stub::forbid_in_capture(const char *what) {
  if (!anything_capturing(current())) return success;
  for (Stream *s : current().streams)
    if (s->capture) s->capture->invalid = true;
  return misuse(capture_unsupported, "%s while a stream is capturing", what);
}

CUresult sattn_stub::enqueue(Stream *s, Operation op) {
  if (s->capture) {
    if (s->capture->invalid) return capture_invalidated;
    s->capture->graph->nodes.push_back(std::move(op));
    ++s->captured;
    return success;
  }
  Context &c = *s->context;
  if (s->null) {
    // the legacy stream waits for all blocking ones, and they for it
    for (Stream *x : c.streams)
      if (x->capture && !x->non_blocking) {
        x->capture->invalid = true;
        return misuse(capture_implicit, "work on the legacy stream while a blocking stream is capturing");
      }
    for (Stream *x : c.streams)
      if (!x->non_blocking) drain(*x);
  } else if (!s->non_blocking && !c.null_stream.queue.empty()) {
    drain(c.null_stream);
  }
  if (c.sticky) return c.sticky;
  ++state.stats.deferred;
  ++s->enqueued;
  s->queue.push_back(std::move(op));
  return success;
}

STUB_API int sattn_stub_enqueue(void *stream, int (*fn)(void *), void *data, void (*destroy)(void *)) {
  STUB_ENTER(context);
  std::shared_ptr<void> owned(data, [destroy](void *p) {
    if (destroy) destroy(p);
  });
  Stream *s;
  if (!find_stream(stream, s)) return invalid_handle;
  return enqueue(s, [fn, owned] {
    Open_memory open;
    return fn(owned.get());
  });
}

static CUresult create_stream(void **stream, unsigned flags, int priority) {
  if (flags & ~flag_non_blocking) return misuse(invalid_value, "cuStreamCreate: flags %x", flags);
  Stream *s = new Stream;
  s->context = &current();
  s->non_blocking = flags & flag_non_blocking;
  s->priority = priority;
  static uint64_t created;
  s->id = ++created;
  current().streams.insert(s);
  *stream = s;
  return success;
}
STUB_API CUresult cuStreamCreate(void **stream, unsigned flags) {
  STUB_ENTER(context);
  return create_stream(stream, flags, 0);
}
STUB_API CUresult cuStreamCreateWithPriority(void **stream, unsigned flags, int priority) {
  STUB_ENTER(context);
  return create_stream(stream, flags, priority);
}
STUB_API CUresult cuStreamDestroy_v2(void *handle) {
  STUB_RELEASE(context);
  Stream *s;
  if (!handle || !find_stream(handle, s)) return invalid_handle;
  if (s->capture) return misuse(invalid_value, "cuStreamDestroy of a stream that is capturing");
  const CUresult r = drain(*s);  // a real driver lets the work finish by itself
  for (Event *e : current().events)
    if (e->stream == s) e->stream = nullptr;  // all it waited for has run
  current().streams.erase(s);
  delete s;
  return entry.injected ? entry.injected : r;
}
STUB_API CUresult cuStreamSynchronize(void *handle) {
  STUB_ENTER(context);
  Stream *s;
  if (!find_stream(handle, s)) return invalid_handle;
  if (s->capture) {
    s->capture->invalid = true;
    return misuse(capture_unsupported, "cuStreamSynchronize of a stream that is capturing");
  }
  return s->null ? drain_all(current(), true) : drain(*s);
}
STUB_API CUresult cuStreamQuery(void *handle) {
  STUB_ENTER(context);
  Stream *s;
  if (!find_stream(handle, s)) return invalid_handle;
  if (s->capture) {
    s->capture->invalid = true;
    return misuse(capture_unsupported, "cuStreamQuery of a stream that is capturing");
  }
  if (s->queue.empty()) return success;
  run_until(*s, s->completed + 1);  // so that polling ends
  return current().sticky ? current().sticky : not_ready;
}
STUB_API CUresult cuStreamGetFlags(void *handle, unsigned *flags) {
  STUB_ENTER(context);
  Stream *s;
  if (!find_stream(handle, s)) return invalid_handle;
  *flags = s->non_blocking ? flag_non_blocking : 0;
  return success;
}
STUB_API CUresult cuStreamGetPriority(void *handle, int *priority) {
  STUB_ENTER(context);
  Stream *s;
  if (!find_stream(handle, s)) return invalid_handle;
  *priority = s->priority;
  return success;
}
STUB_API CUresult cuStreamGetCtx(void *handle, void **context) {
  STUB_ENTER(init);
  if (!handle || handle == legacy_stream) {
    if (context_stack.empty()) return invalid_context;
    *context = context_stack.back();
    return success;
  }
  for (Context *c : state.contexts)
    if (c->streams.count((Stream *)handle)) {
      *context = c;
      return success;
    }
  return misuse(invalid_handle, "cuStreamGetCtx: not a live stream");
}

// ---- events

STUB_API CUresult cuEventCreate(void **event, unsigned flags) {
  STUB_ENTER(context);
  Event *e = new Event;
  e->context = &current();
  e->timing = !(flags & flag_no_timing);
  current().events.insert(e);
  *event = e;
  return success;
}
STUB_API CUresult cuEventDestroy_v2(void *event) {
  STUB_RELEASE(context);
  Event *e = find_event(event);
  if (!e) return invalid_handle;
  current().events.erase(e);
  delete e;
  return entry.injected;
}
STUB_API CUresult cuEventRecord(void *event, void *handle) {
  STUB_ENTER(context);
  Event *e = find_event(event);
  Stream *s;
  if (!e || !find_stream(handle, s)) return invalid_handle;
  e->stream = s;
  e->capture = s->capture;
  e->time = std::make_shared<double>(-1.0);
  if (s->capture) {
    e->number = s->captured;
    return success;
  }
  auto time = e->time;
  const CUresult r = enqueue(s, [time] {
    *time = now_ms();
    return success;
  });
  e->number = s->enqueued;
  return r;
}
STUB_API CUresult cuEventSynchronize(void *event) {
  STUB_ENTER(context);
  Event *e = find_event(event);
  if (!e) return invalid_handle;
  if (e->capture) return misuse(captured_event, "cuEventSynchronize of an event recorded in a capture");
  return done(*e) ? current().sticky : run_until(*e->stream, e->number);
}
STUB_API CUresult cuEventQuery(void *event) {
  STUB_ENTER(context);
  Event *e = find_event(event);
  if (!e) return invalid_handle;
  if (e->capture) return misuse(captured_event, "cuEventQuery of an event recorded in a capture");
  if (done(*e)) return current().sticky;
  run_until(*e->stream, e->stream->completed + 1);
  return current().sticky ? current().sticky : not_ready;
}
static CUresult elapsed(float *ms, void *start, void *end) {
  Event *a = find_event(start), *b = find_event(end);
  if (!a || !b) return invalid_handle;
  if (!a->timing || !b->timing || (*a->time < 0 && done(*a)) || (*b->time < 0 && done(*b)))
    return misuse(invalid_handle, "cuEventElapsedTime: an event without a time");
  if (!done(*a) || !done(*b)) return not_ready;
  *ms = (float)(*b->time - *a->time);
  return success;
}
STUB_API CUresult cuEventElapsedTime(float *ms, void *start, void *end) {
  STUB_ENTER(context);
  return elapsed(ms, start, end);
}
STUB_API CUresult cuEventElapsedTime_v2(float *ms, void *start, void *end) {
  STUB_ENTER(context);
  return elapsed(ms, start, end);
}
STUB_API CUresult cuStreamWaitEvent(void *handle, void *event, unsigned) {
  STUB_ENTER(context);
  Stream *s;
  Event *e = find_event(event);
  if (!e || !find_stream(handle, s)) return invalid_handle;
  if (e->capture) {
    if (e->capture->invalid) return capture_invalidated;
    if (!e->capture->graph) return misuse(captured_event, "cuStreamWaitEvent: the event's capture has ended");
    if (s->capture && s->capture != e->capture) return misuse(capture_unmatched, "cuStreamWaitEvent between two captures");
    if (s->null) return misuse(capture_implicit, "the legacy stream cannot join a capture");
    s->capture = e->capture;
    if (e->stream != s) e->stream->joined = std::max(e->stream->joined, e->number);
    return success;
  }
  if (s->capture) return e->stream ? misuse(capture_unsupported, "a capturing stream waits for an event recorded outside") : success;
  if (!e->stream || e->stream == s) return success;
  Stream *other = e->stream;
  const uint64_t number = e->number;
  return enqueue(s, [other, number]() -> CUresult { return stream_alive(other) ? run_until(*other, number) : success; });
}

// ---- capture

STUB_API CUresult cuStreamBeginCapture_v2(void *handle, int) {
  STUB_ENTER(context);
  Stream *s;
  if (!find_stream(handle, s)) return invalid_handle;
  if (s->null) return misuse(capture_unsupported, "the legacy stream cannot be captured");
  if (s->capture) return misuse(illegal_state, "the stream is capturing already");
  s->capture = std::make_shared<Capture>();
  s->capture->graph.reset(new Graph{{}, s->context});
  s->capture->origin = s;
  s->captured = s->joined = 0;
  return success;
}
STUB_API CUresult cuStreamEndCapture(void *handle, void **graph) {
  STUB_ENTER(context);
  Stream *s;
  if (!find_stream(handle, s)) return invalid_handle;
  *graph = nullptr;
  if (!s->capture) return misuse(illegal_state, "cuStreamEndCapture: the stream is not capturing");
  if (s->capture->origin != s) return misuse(capture_unmatched, "cuStreamEndCapture on another stream than the one that began it");
  const std::shared_ptr<Capture> capture = s->capture;
  bool unjoined = false;
  for (Stream *x : current().streams)
    if (x->capture == capture) {
      unjoined |= x != s && x->joined < x->captured;
      leave_capture(*x);
    }
  std::unique_ptr<Graph> g = std::move(capture->graph);
  if (capture->invalid) return capture_invalidated;
  if (unjoined) return misuse(capture_unjoined, "a stream joined the capture and was not waited for");
  current().graphs.insert(g.get());
  *graph = g.release();
  return success;
}
STUB_API CUresult cuStreamIsCapturing(void *handle, int *status) {
  STUB_ENTER(context);
  Stream *s;
  if (!find_stream(handle, s)) return invalid_handle;
  *status = !s->capture ? 0 : s->capture->invalid ? 2 : 1;
  return success;
}
STUB_API CUresult cuThreadExchangeStreamCaptureMode(int *mode) {
  STUB_ENTER(init);
  static thread_local int present = 0;
  std::swap(*mode, present);
  return success;
}
