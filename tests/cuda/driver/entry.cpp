// Entry to every call, failure injection, the environment, error names, and the
// look-up of entry points.
#include "state.h"

#include <dlfcn.h>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace sattn_stub {

State state;
thread_local std::vector<Context *> context_stack;

CUresult misuse(CUresult code, const char *format, ...) {
  char text[700];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  state.report = text;
  ++state.stats.misuses;
  fprintf(stderr, "stub driver: %s\n", text);
  return code;
}

static bool due(const char *name, CUresult &code) {
  State &s = state;
  if (s.fail_at > 0 && --s.fail_at == 0) {
    code = s.fail_code;
    return true;
  }
  if (!s.fail_name.empty() && s.fail_name == name && s.fail_name_skip-- == 0) {
    s.fail_name.clear();
    code = s.fail_name_code;
    return true;
  }
  return false;
}

Entry::Entry(const char *name, Needs needs, bool releases) : lock_(state.mutex) {
  read_environment();
  ++state.stats.calls;
  CUresult code = success;
  const bool fails = due(name, code);
  if (state.config.trace) fprintf(stderr, "stub driver: %ld %s%s\n", state.stats.calls, name, fails ? " (made to fail)" : "");
  if (fails) {
    state.stats.failed_function = name;
    if (!releases) {
      result = code;
      return;
    }
    injected = code;
  }
  if (needs == Needs::nothing) return;
  if (!state.initialized) {
    result = not_initialized;
    return;
  }
  if (needs == Needs::init) return;
  if (context_stack.empty() || !state.contexts.count(context_stack.back())) {
    result = misuse(invalid_context, "%s: no context is current", name);
    return;
  }
  const int sticky = context_stack.back()->sticky;
  if (sticky && releases && !injected)
    injected = sticky;
  else if (sticky && !releases)
    result = sticky;
}

Context &current() {
  return *context_stack.back();
}

namespace {

bool number(const char *name, long long &value) {
  const char *e = getenv(name);
  if (!e || !*e) return false;
  char *end;
  value = strtoll(e, &end, 0);
  if (*end) state.config.error = std::string(name) + " is not a number: " + e;
  return !*end;
}

}  // namespace

void read_environment() {
  static bool done;
  if (done) return;
  done = true;
  state.stats.failed_function = "";
  for (const char *name : {"capability", "devices", "memory", "driver", "multiprocessors"}) {
    std::string variable = "SATTN_SIM_";
    for (const char *c = name; *c; ++c) variable += (char)(*c - 'a' + 'A');
    long long v;
    if (number(variable.c_str(), v) && !sattn_stub_set(name, v)) state.config.error = variable + ": value refused";
  }
  long long v;
  if (number("SATTN_SIM_FAIL_AT", v)) {
    state.fail_at = (long)v;
    state.fail_code = number("SATTN_SIM_FAIL_CODE", v) ? (int)v : (int)out_of_memory;
  }
  if (const char *e = getenv("SATTN_SIM_ENGINE")) {
    state.config.ptx_engine = state.config.ptx_forced = !strcmp(e, "ptx");
    if (strcmp(e, "ptx") && strcmp(e, "host")) state.config.error = std::string("SATTN_SIM_ENGINE must be ptx or host, not ") + e;
  }
  state.config.trace = getenv("SATTN_SIM_TRACE") != nullptr;
  state.config.verbose = getenv("SATTN_SIM_VERBOSE") != nullptr;
  sattn_sim::options_from_environment(state.config.error);
}

}  // namespace sattn_stub

using namespace sattn_stub;

STUB_API int sattn_stub_set(const char *name, long long value) {
  std::lock_guard<std::recursive_mutex> lock(state.mutex);
  Config &c = state.config;
  const std::string n = name;
  if (n == "capability" && (value == 75 || value == 80 || value == 86 || value == 89 || value == 90))
    c.capability = (int)value;
  else if (n == "devices" && value >= 0 && value <= 16 && !state.initialized)
    c.devices = (int)value;
  else if (n == "memory" && value >= 0)
    c.memory = (size_t)value;
  else if (n == "driver" && value >= 10000)
    c.driver = (int)value;
  else if (n == "multiprocessors" && value >= 1 && value <= 1024)
    c.multiprocessors = (int)value;
  else if (n == "engine" && (value == 0 || value == 1))
    c.ptx_engine = c.ptx_forced = value == 1;
  else if (n == "banks")
    setenv("SATTN_SIM_BANKS", value ? "1" : "0", 1);
  else
    return 0;
  return 1;
}

STUB_API CUresult cuInit(unsigned flags) {
  STUB_ENTER(nothing);
  if (flags) return misuse(invalid_value, "cuInit: flags must be 0");
  if (!state.config.error.empty()) return misuse(invalid_value, "%s", state.config.error.c_str());
  if (!state.config.devices) return no_device;
  if (state.initialized) return success;
  state.initialized = true;
  state.live_bytes.assign((size_t)state.config.devices, 0);
  state.primary.resize((size_t)state.config.devices);
  return success;
}

STUB_API CUresult cuDriverGetVersion(int *version) {
  STUB_ENTER(nothing);
  if (!version) return invalid_value;
  *version = state.config.driver;
  return success;
}

namespace {
struct Error_name {
  int code;
  const char *name, *text;
};
const Error_name error_names[] = {
    {success, "CUDA_SUCCESS", "no error"},
    {invalid_value, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {not_initialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {no_device, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {invalid_device, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {invalid_image, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {invalid_context, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {no_binary_for_gpu, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {invalid_ptx, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {unsupported_ptx_version, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain"},
    {invalid_handle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {illegal_state, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {not_found, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {not_ready, "CUDA_ERROR_NOT_READY", "device not ready"},
    {illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {out_of_resources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {misaligned_address, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {launch_failed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {not_supported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {capture_unsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {capture_invalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
    {capture_unmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began"},
    {capture_unjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    {capture_implicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {captured_event, "CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream"},
};
const Error_name *error_name(int code) {
  for (const auto &e : error_names)
    if (e.code == code) return &e;
  return nullptr;
}
}  // namespace

STUB_API CUresult cuGetErrorString(CUresult code, const char **text) {
  const Error_name *e = error_name(code);
  *text = e ? e->text : nullptr;
  return e ? success : invalid_value;
}
STUB_API CUresult cuGetErrorName(CUresult code, const char **text) {
  const Error_name *e = error_name(code);
  *text = e ? e->name : nullptr;
  return e ? success : invalid_value;
}

namespace {

// Names that mean a later version of a function from some driver on.
struct Versioned {
  const char *name, *symbol;
  int since;
};
const Versioned versioned[] = {
    {"cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease_v2", 11000},
    {"cuDevicePrimaryCtxSetFlags", "cuDevicePrimaryCtxSetFlags_v2", 11000},
    {"cuDeviceTotalMem", "cuDeviceTotalMem_v2", 3020},
    {"cuDeviceGetUuid", "cuDeviceGetUuid_v2", 11040},
    {"cuCtxCreate", "cuCtxCreate_v2", 3020},
    {"cuCtxCreate", "cuCtxCreate_v4", 12050},
    {"cuCtxDestroy", "cuCtxDestroy_v2", 4000},
    {"cuCtxPushCurrent", "cuCtxPushCurrent_v2", 4000},
    {"cuCtxPopCurrent", "cuCtxPopCurrent_v2", 4000},
    {"cuMemAlloc", "cuMemAlloc_v2", 3020},
    {"cuMemFree", "cuMemFree_v2", 3020},
    {"cuMemGetInfo", "cuMemGetInfo_v2", 3020},
    {"cuMemGetAddressRange", "cuMemGetAddressRange_v2", 3020},
    {"cuMemAllocHost", "cuMemAllocHost_v2", 3020},
    {"cuMemcpyHtoD", "cuMemcpyHtoD_v2", 3020},
    {"cuMemcpyDtoH", "cuMemcpyDtoH_v2", 3020},
    {"cuMemcpyDtoD", "cuMemcpyDtoD_v2", 3020},
    {"cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync_v2", 3020},
    {"cuMemcpyDtoHAsync", "cuMemcpyDtoHAsync_v2", 3020},
    {"cuMemcpyDtoDAsync", "cuMemcpyDtoDAsync_v2", 3020},
    {"cuMemsetD8", "cuMemsetD8_v2", 3020},
    {"cuMemsetD16", "cuMemsetD16_v2", 3020},
    {"cuMemsetD32", "cuMemsetD32_v2", 3020},
    {"cuModuleGetGlobal", "cuModuleGetGlobal_v2", 3020},
    {"cuStreamDestroy", "cuStreamDestroy_v2", 4000},
    {"cuEventDestroy", "cuEventDestroy_v2", 4000},
    {"cuEventElapsedTime", "cuEventElapsedTime", 2000},
    {"cuEventElapsedTime", "cuEventElapsedTime_v2", 12080},
    {"cuStreamBeginCapture", "cuStreamBeginCapture_v2", 10010},
    {"cuGraphInstantiate", "cuGraphInstantiateWithFlags", 12000},
    {"cuGraphInstantiateWithFlags", "cuGraphInstantiateWithFlags", 11040},
    {"cuLaunchKernelEx", "cuLaunchKernelEx", 11060},
    {"cuMemAllocAsync", "cuMemAllocAsync", 11020},
    {"cuMemFreeAsync", "cuMemFreeAsync", 11020},
    {"cuGetProcAddress", "cuGetProcAddress", 11030},
    {"cuGetProcAddress", "cuGetProcAddress_v2", 12000},
};

void *own_symbol(const char *name) {
  static void *self = [] {
    Dl_info info;
    return dladdr((void *)&error_names, &info) ? dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD) : nullptr;
  }();
  return self ? dlsym(self, name) : nullptr;
}

enum Look_up { found = 0, symbol_not_found = 1, version_not_sufficient = 2 };

CUresult look_up(const char *name, void **address, int version, int *status) {
  if (!name || !address) return invalid_value;
  *address = nullptr;
  bool known = false;
  const char *symbol = nullptr;
  for (const auto &v : versioned)
    if (!strcmp(v.name, name)) {
      known = true;
      if (v.since <= version && v.since <= state.config.driver) symbol = v.symbol;
    }
  if (!known && !strncmp(name, "cu", 2) && !strstr(name, "_v")) symbol = name;
  if (symbol) *address = own_symbol(symbol);
  if (status) *status = *address ? found : known ? version_not_sufficient : symbol_not_found;
  if (*address) return success;
  return misuse(not_found, "cuGetProcAddress: %s is not in the stub for version %d", name, version);
}

}  // namespace

STUB_API CUresult cuGetProcAddress(const char *name, void **address, int version, unsigned long long) {
  STUB_ENTER(nothing);
  return look_up(name, address, version, nullptr);
}
STUB_API CUresult cuGetProcAddress_v2(const char *name, void **address, int version, unsigned long long, int *status) {
  STUB_ENTER(nothing);
  return look_up(name, address, version, status);
}

// ---- for tests only

static void count_objects(sattn_stub_stats &s) {
  s.retains = s.contexts = s.modules = s.streams = s.events = s.graphs = s.graph_execs = 0;
  for (const Context *c : state.contexts) {
    s.retains += c->retains;
    s.contexts += !c->primary;
    s.modules += (int)c->modules.size();
    s.streams += (int)c->streams.size();
    s.events += (int)c->events.size();
    s.graphs += (int)c->graphs.size();
    s.graph_execs += (int)c->execs.size();
  }
  s.allocations = (int)state.allocations.size();
  s.host_allocations = (int)state.host_allocations.size();
  s.bytes = 0;
  for (size_t b : state.live_bytes) s.bytes += b;
}

STUB_API void sattn_stub_get_stats(sattn_stub_stats *out) {
  std::lock_guard<std::recursive_mutex> lock(state.mutex);
  read_environment();
  count_objects(state.stats);
  *out = state.stats;
}
STUB_API void sattn_stub_get_counters(sattn_stub_counters *out) {
  std::lock_guard<std::recursive_mutex> lock(state.mutex);
  *out = state.counters;
}
STUB_API void sattn_stub_reset(void) {
  std::lock_guard<std::recursive_mutex> lock(state.mutex);
  state.stats = sattn_stub_stats{};
  state.stats.failed_function = "";
  state.counters = sattn_stub_counters{};
  state.report.clear();
}
STUB_API void sattn_stub_fail_at(long n, int code) {
  std::lock_guard<std::recursive_mutex> lock(state.mutex);
  read_environment();
  state.fail_at = n;
  state.fail_code = code;
  state.stats.failed_function = "";
}
STUB_API void sattn_stub_fail_name(const char *name, long skip, int code) {
  std::lock_guard<std::recursive_mutex> lock(state.mutex);
  state.fail_name = name ? name : "";
  state.fail_name_skip = skip;
  state.fail_name_code = code;
}
STUB_API void sattn_stub_fail_kernel(long n, int code) {
  std::lock_guard<std::recursive_mutex> lock(state.mutex);
  state.fail_kernel = n;
  state.fail_kernel_code = code;
}
STUB_API int sattn_stub_context_depth(void) {
  return (int)context_stack.size();
}
STUB_API const char *sattn_stub_report(void) {
  return state.report.c_str();
}
