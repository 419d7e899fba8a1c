// Everything the stub driver knows, under one lock.
#ifndef SATTN_STUB_STATE_H
#define SATTN_STUB_STATE_H

#include "abi.h"
#include "launch.h"
#include "ptx.h"
#include "stub.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>

namespace sattn_stub {

using Operation = std::function<CUresult()>;

struct Context;
struct Stream;

struct Graph {
  std::vector<Operation> nodes;
  Context *context;
};
struct Graph_exec {
  std::vector<Operation> nodes;
  Context *context;
};

// A capture in progress; several streams may have joined it through events.
struct Capture {
  std::unique_ptr<Graph> graph;
  Stream *origin;
  bool invalid = false;
};

struct Stream {
  Context *context;
  bool non_blocking = false, null = false;
  int priority = 0;
  uint64_t id = 0;  // in order of creation
  std::deque<Operation> queue;
  uint64_t enqueued = 0, completed = 0;
  std::shared_ptr<Capture> capture;
  uint64_t captured = 0, joined = 0;  // operations in the capture, and how many of them another stream waits for
};

struct Event {
  Context *context;
  bool timing = true;
  Stream *stream = nullptr;  // null: never recorded, counts as done
  uint64_t number = 0;
  std::shared_ptr<Capture> capture;
  std::shared_ptr<double> time = std::make_shared<double>(-1.0);
};

struct Function {
  const sattn_sim::Kernel *kernel;
  Context *context;
  int max_dynamic = 48 << 10, registers = 0, static_shared = 0, local_bytes = 0, binary = 0;
};

struct Module {
  Context *context;
  std::string image;
  std::unique_ptr<sattn_sim::Ptx_module> ptx;
  const unsigned char *cubin = nullptr;  // inside image
  size_t cubin_bytes = 0;
  int cubin_arch = 0;
  std::map<std::string, std::unique_ptr<Function>> functions;
};

struct Allocation {
  size_t bytes;
  Context *context;
};

struct Context {
  int device;
  bool primary;
  int retains = 0;
  int sticky = 0;  // an asynchronous error: all later calls return it
  Stream null_stream;
  std::set<Stream *> streams;
  std::set<Event *> events;
  std::set<Module *> modules;
  std::set<Graph *> graphs;
  std::set<Graph_exec *> execs;
};

struct Config {
  int capability = 80, devices = 1, driver = 13000, multiprocessors = 0;  // 0: as many as a device of the capability has
  bool ptx_engine = true, ptx_forced = false;
  size_t memory = (size_t)1 << 30;
  bool trace = false, verbose = false;
  std::string error;  // of a bad environment variable: cuInit fails with it
};

struct State {
  std::recursive_mutex mutex;
  Config config;
  bool initialized = false;
  std::vector<std::unique_ptr<Context>> primary;  // by device
  std::set<Context *> contexts;                   // all alive, the primary ones too
  std::map<CUdeviceptr, Allocation> allocations;
  std::map<void *, Context *> host_allocations;
  sattn_stub_stats stats{};
  sattn_stub_counters counters{};
  long fail_at = 0, fail_kernel = 0, fail_name_skip = 0;
  int fail_code = 0, fail_kernel_code = 0, fail_name_code = 0;
  std::string fail_name, report;
  std::vector<size_t> live_bytes;  // by device
};
extern State state;
extern thread_local std::vector<Context *> context_stack;

// What every entry point does first: lock, count, trace, fail if it is its turn, and
// check that there is a context. A release still happens when it is made to fail.
enum class Needs { nothing, init, context };
class Entry {
 public:
  Entry(const char *name, Needs needs, bool releases = false);
  CUresult result = success;    // not success: return it
  CUresult injected = success;  // releases: return this at the end
 private:
  std::lock_guard<std::recursive_mutex> lock_;
};
#define STUB_ENTER(needs)                                      \
  sattn_stub::Entry entry(__func__, sattn_stub::Needs::needs); \
  if (entry.result) return entry.result
#define STUB_RELEASE(needs)                                          \
  sattn_stub::Entry entry(__func__, sattn_stub::Needs::needs, true); \
  if (entry.result) return entry.result

// Says on standard error, and keeps for sattn_stub_report, why a call is refused.
CUresult misuse(CUresult code, const char *format, ...) __attribute__((format(printf, 2, 3)));

Context &current();

// ---- streams
bool find_stream(void *handle, Stream *&out);  // of the current context; null is the legacy stream
CUresult enqueue(Stream *s, Operation op);
CUresult run_until(Stream &s, uint64_t number);
CUresult drain(Stream &s);
CUresult drain_all(Context &c, bool blocking_only);
bool anything_pending(const Context &c);
bool anything_capturing(const Context &c);
// For calls that a capture does not allow: marks the captures invalid.
CUresult forbid_in_capture(const char *what);

// ---- memory
bool inside_allocation(CUdeviceptr p, size_t bytes);
// Device memory can be touched by this process only while one of these lives.
class Open_memory {
 public:
  Open_memory();
  ~Open_memory();
};
void release_allocation(CUdeviceptr p);

void close_context(Context &c);
void read_environment();

}  // namespace sattn_stub
#endif
