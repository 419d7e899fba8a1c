// Modules, functions and launches.
#include "image.h"
#include "state.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

using namespace sattn_stub;

namespace {

int shared_limit() {
  const int cc = state.config.capability;
  return (cc >= 90 ? 227 : cc == 80 ? 163 : cc >= 86 ? 99 : 64) << 10;
}

CUresult load_ptx(Module &m, const std::string &text, std::string &error) {
  m.ptx = sattn_sim::Ptx_module::load(text, error);
  if (!m.ptx) return misuse(invalid_ptx, "%s", error.c_str());
  if (driver_for_ptx(m.ptx->version() / 10.0) > state.config.driver) {
    error = "the PTX needs a newer driver";
    return unsupported_ptx_version;
  }
  if ((int)m.ptx->target() > state.config.capability) return misuse(no_binary_for_gpu, "the PTX is for sm_%u", m.ptx->target());
  return success;
}

CUresult load_fatbin(Module &m, std::string &error) {
  Choice c;
  const unsigned char *image = (const unsigned char *)m.image.data();
  if (!choose(image, m.image.size(), state.config.capability, state.config.driver, c, error))
    return misuse(invalid_image, "%s", error.c_str());
  if (!c.cubin && c.ptx.empty()) {
    error = c.too_new ? "every image for this device needs a newer driver" : "the fat binary has nothing for this device";
    // what drivers say: a version error if PTX could have been compiled, had it been older
    return c.too_new ? unsupported_ptx_version : no_binary_for_gpu;
  }
  m.cubin = c.cubin;
  m.cubin_bytes = c.cubin_bytes;
  m.cubin_arch = c.cubin_arch;
  if (state.config.verbose && c.cubin)
    fprintf(stderr, "stub driver: machine code for sm_%d%s\n", c.cubin_arch, c.ptx.empty() ? "" : ", and PTX");
  if (state.config.verbose && !c.cubin)
    fprintf(stderr, "stub driver: PTX alone%s\n", c.too_new ? ", the machine code needs a newer driver" : "");
  if (!state.config.ptx_engine) return success;
  if (c.ptx.empty()) {
    error = "the machine code fits, but the stub needs PTX of this device or the host engine to run it";
    return state.config.ptx_forced ? misuse(invalid_image, "%s", error.c_str()) : success;
  }
  return load_ptx(m, c.ptx, error);
}

CUresult load(void **out, const void *data, std::string &error) {
  if (!out || !data) return invalid_value;
  const unsigned char *image = unwrapped((const unsigned char *)data);
  const Image_kind kind = kind_of(image);
  std::unique_ptr<Module> m(new Module);
  m->context = &current();
  CUresult r = success;
  switch (kind) {
    case Image_kind::fatbin:
      m->image.assign((const char *)image, image_bytes(image, kind));
      r = load_fatbin(*m, error);
      break;
    case Image_kind::ptx:
      r = load_ptx(*m, std::string((const char *)image), error);
      break;
    case Image_kind::cubin:
      m->image.assign((const char *)image, image_bytes(image, kind));
      m->cubin = (const unsigned char *)m->image.data();
      m->cubin_bytes = m->image.size();
      break;
    case Image_kind::host_kernels:
      if (state.config.ptx_forced) return misuse(invalid_image, "the image has no PTX: the library was built without nvcc");
      break;
    case Image_kind::unknown:
      return misuse(invalid_image, "cuModuleLoadData: neither fat binary, ELF, PTX nor the stub's own image");
  }
  if (r) return r;
  current().modules.insert(m.get());
  *out = m.release();
  return success;
}

Module *find_module(void *handle) {
  Module *m = (Module *)handle;
  if (current().modules.count(m)) return m;
  misuse(invalid_handle, "not a live module of the current context");
  return nullptr;
}

Function *find_function(void *handle) {
  for (Context *c : state.contexts)
    for (Module *m : c->modules)
      for (auto &f : m->functions)
        if (f.second.get() == handle) {
          if (c == &current()) return f.second.get();
          misuse(invalid_handle, "a function of another context than the current one");
          return nullptr;
        }
  misuse(invalid_handle, "not a live function");
  return nullptr;
}

// The parameter block as the compiler lays it out.
int parameter_bytes(const sattn_sim::Kernel &k) {
  size_t end = 0;
  for (size_t s : k.argument_sizes) {
    size_t align = 1;
    while (align < 8 && align < s && s % (align * 2) == 0) align *= 2;
    end = (end + align - 1) / align * align + s;
  }
  return (int)end;
}

// SATTN_SIM_PTX: a file whose kernels take the place of those of the same names in images. Null: there is none of this name.
const sattn_sim::Kernel *replacement(const char *name) {
  static std::unique_ptr<sattn_sim::Ptx_module> module;
  const char *file = getenv("SATTN_SIM_PTX");
  if (!file) return nullptr;
  if (!module) {
    std::ifstream stream(file);
    const std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    std::string error;
    module = sattn_sim::Ptx_module::load(text, error);
    if (!module) misuse(invalid_ptx, "SATTN_SIM_PTX: %s: %s", file, text.empty() ? "nothing to read" : error.c_str());
  }
  return module ? module->find(name) : nullptr;
}

CUresult make_function(Module &m, const char *name, Function &f) {
  f.kernel = m.ptx ? m.ptx->find(name) : sattn_sim::find_host_kernel(name);
  if (const sattn_sim::Kernel *other = replacement(name)) f.kernel = other;
  f.context = m.context;
  f.binary = m.cubin ? m.cubin_arch : state.config.capability;
  if (!f.kernel) return misuse(not_found, "kernel %s is not %s", name, m.ptx ? "in the PTX" : "among the host-compiled ones");
  if (!m.cubin) return success;
  Kernel_facts facts;
  if (!kernel_facts(m.cubin, m.cubin_bytes, name, facts)) return misuse(not_found, "kernel %s is not in the machine code", name);
  f.registers = facts.registers;
  // sm_90 counts the kilobyte that the system keeps for itself; the device's limit is already without it
  f.static_shared = m.cubin_arch >= 90 ? std::max(0, facts.static_shared - 1024) : facts.static_shared;
  f.local_bytes = facts.local_bytes;
  const int expected = parameter_bytes(*f.kernel);
  if (facts.parameter_bytes >= 0 && facts.parameter_bytes != expected)
    return misuse(invalid_image, "kernel %s takes %d parameter bytes in machine code and %d here", name, facts.parameter_bytes, expected);
  return success;
}

bool registers_fit(const Function &f, unsigned threads) {
  const unsigned per_warp = ((unsigned)f.registers * 32 + 255) / 256 * 256;
  return !f.registers || per_warp * ((threads + 31) / 32) <= 65536;
}

struct Shape {
  sattn_sim::Dim3 grid, block;
  unsigned shared;
};

CUresult check_shape(const Function &f, const Shape &s) {
  const char *name = f.kernel->name.c_str();
  const unsigned long long threads = (unsigned long long)s.block.x * s.block.y * s.block.z;
  if (!s.grid.x || !s.grid.y || !s.grid.z || s.grid.x > 0x7fffffff || s.grid.y > 65535 || s.grid.z > 65535)
    return misuse(invalid_value, "launch of %s: grid %u x %u x %u", name, s.grid.x, s.grid.y, s.grid.z);
  if (!threads || threads > 1024 || s.block.z > 64)
    return misuse(invalid_value, "launch of %s: block %u x %u x %u", name, s.block.x, s.block.y, s.block.z);
  if (threads > f.kernel->max_threads)
    return misuse(invalid_value, "launch of %s: %llu threads, its launch bounds say %u", name, threads, f.kernel->max_threads);
  if ((int)s.shared > f.max_dynamic)
    return misuse(invalid_value, "launch of %s: %u bytes of dynamic shared memory, cuFuncSetAttribute allowed %d", name, s.shared,
                  f.max_dynamic);
  if ((int)s.shared + f.static_shared > shared_limit())
    return misuse(invalid_value, "launch of %s: more shared memory than the device has", name);
  if (!registers_fit(f, (unsigned)threads)) return misuse(out_of_resources, "launch of %s: too many registers", name);
  return success;
}

void add_counters(const sattn_sim::Counters &c) {
  sattn_stub_counters &t = state.counters;
  t.mma += c.mma;
  t.ldmatrix += c.ldmatrix;
  t.ldmatrix_conflicts += c.ldmatrix_conflicts;
  t.async_copies += c.async_copies;
  t.async_conflicts += c.async_conflicts;
  t.shared_accesses += c.shared_accesses;
  t.shared_conflicts += c.shared_conflicts;
  t.barriers += c.barriers;
  t.warp_syncs += c.warp_syncs;
  t.global_stores += c.global_stores;
  t.instructions += c.instructions;
}

CUresult run_kernel(const sattn_sim::Kernel &kernel, int device, const Shape &shape, const std::vector<std::vector<char>> &arguments) {
  if (state.fail_kernel > 0 && --state.fail_kernel == 0) return state.fail_kernel_code;
  Open_memory open;
  std::vector<void *> pointers;
  for (const auto &a : arguments) pointers.push_back((void *)a.data());
  std::string error;
  sattn_sim::Options options = sattn_sim::options_from_environment(error);
  options.device = device;
  options.shared_limit = (unsigned)shared_limit();
  const sattn_sim::Report r = sattn_sim::launch(kernel, shape.grid, shape.block, shape.shared, pointers.data(), options);
  add_counters(r.counters);
  if (!r.failed) return success;
  return misuse(r.kind == "bounds" ? illegal_address : r.kind == "align" ? misaligned_address : launch_failed, "%s", r.text.c_str());
}

CUresult launch_kernel(void *function, const Shape &shape, void *stream, void **parameters, void **extra) {
  Function *f = find_function(function);
  Stream *s;
  if (!f || !find_stream(stream, s)) return invalid_handle;
  if (extra) return misuse(not_supported, "cuLaunchKernel: extra is not in the stub");
  const auto &sizes = f->kernel->argument_sizes;
  if (!parameters && !sizes.empty()) return misuse(invalid_value, "launch of %s without parameters", f->kernel->name.c_str());
  if (CUresult r = check_shape(*f, shape)) return r;
  // parameters are read now, the kernel runs later
  std::vector<std::vector<char>> copy;
  for (size_t k = 0; k < sizes.size(); ++k) copy.emplace_back((char *)parameters[k], (char *)parameters[k] + sizes[k]);
  ++state.stats.launches;
  const sattn_sim::Kernel *kernel = f->kernel;
  const int device = f->context->device;
  return enqueue(s, [=] { return run_kernel(*kernel, device, shape, copy); });
}

}  // namespace

STUB_API CUresult cuModuleLoadData(void **module, const void *image) {
  STUB_ENTER(context);
  if (CUresult r = forbid_in_capture("cuModuleLoadData")) return r;
  std::string error;
  return load(module, image, error);
}
STUB_API CUresult cuModuleLoadFatBinary(void **module, const void *image) {
  STUB_ENTER(context);
  std::string error;
  return load(module, image, error);
}
// Options 3 to 6 are the log buffers and their sizes; the others do not change results here.
STUB_API CUresult cuModuleLoadDataEx(void **module, const void *image, unsigned count, int *options, void **values) {
  STUB_ENTER(context);
  if (CUresult r = forbid_in_capture("cuModuleLoadDataEx")) return r;
  char *log = nullptr, *info = nullptr;
  size_t bytes = 0;
  for (unsigned k = 0; k < count; ++k) {
    if (options[k] < 0 || options[k] > 32) return misuse(invalid_value, "cuModuleLoadDataEx: option %d is not in the stub", options[k]);
    if (options[k] == 3) info = (char *)values[k];
    if (options[k] == 5) log = (char *)values[k];
    if (options[k] == 6) bytes = (size_t)(uintptr_t)values[k];
  }
  std::string error;
  const CUresult r = load(module, image, error);
  if (log && bytes) snprintf(log, bytes, "%s", error.c_str());
  if (info) *info = 0;
  return r;
}
STUB_API CUresult cuModuleUnload(void *module) {
  STUB_RELEASE(context);
  Module *m = find_module(module);
  if (!m) return invalid_handle;
  const CUresult r = drain_all(current(), false);
  current().modules.erase(m);
  delete m;
  return entry.injected ? entry.injected : r;
}
STUB_API CUresult cuModuleGetFunction(void **function, void *module, const char *name) {
  STUB_ENTER(context);
  Module *m = find_module(module);
  if (!m || !function || !name) return invalid_handle;
  auto &f = m->functions[name];
  if (!f) {
    f.reset(new Function);
    if (CUresult r = make_function(*m, name, *f)) {
      m->functions.erase(name);
      return r;
    }
  }
  *function = f.get();
  return success;
}
STUB_API CUresult cuModuleGetGlobal_v2(CUdeviceptr *, size_t *, void *, const char *name) {
  STUB_ENTER(context);
  return misuse(not_found, "cuModuleGetGlobal: %s: variables are not in the stub", name);
}
STUB_API CUresult cuModuleGetLoadingMode(int *mode) {
  STUB_ENTER(init);
  *mode = 1;
  return success;
}

enum Function_attribute {
  max_threads = 0,
  static_shared = 1,
  constant = 2,
  local = 3,
  registers = 4,
  ptx_version = 5,
  binary_version = 6,
  cache_mode = 7,
  max_dynamic_shared = 8,
  carveout = 9
};

STUB_API CUresult cuFuncGetAttribute(int *value, int attribute, void *function) {
  STUB_ENTER(context);
  Function *f = find_function(function);
  if (!f) return invalid_handle;
  switch (attribute) {
    case max_threads: {
      unsigned n = f->kernel->max_threads;
      while (n > 32 && !registers_fit(*f, n)) n -= 32;
      *value = (int)n;
      return success;
    }
    case static_shared:
      *value = f->static_shared;
      return success;
    case constant:
      *value = 0;
      return success;
    case local:
      *value = f->local_bytes;
      return success;
    case registers:
      *value = f->registers;
      return success;
    case ptx_version:
    case binary_version:
      *value = f->binary;
      return success;
    case cache_mode:
      *value = 0;
      return success;
    case max_dynamic_shared:
      *value = f->max_dynamic;
      return success;
    case carveout:
      *value = -1;
      return success;
    default:
      return misuse(invalid_value, "cuFuncGetAttribute: attribute %d is not in the stub", attribute);
  }
}
STUB_API CUresult cuFuncSetAttribute(void *function, int attribute, int value) {
  STUB_ENTER(context);
  Function *f = find_function(function);
  if (!f) return invalid_handle;
  if (attribute == carveout) return value >= -1 && value <= 100 ? success : invalid_value;
  if (attribute != max_dynamic_shared) return misuse(invalid_value, "cuFuncSetAttribute: attribute %d is not in the stub", attribute);
  if (value < 0 || value + f->static_shared > shared_limit())
    return misuse(invalid_value, "cuFuncSetAttribute: %d bytes of dynamic shared memory, the device has %d", value, shared_limit());
  f->max_dynamic = value;
  return success;
}
STUB_API CUresult cuFuncSetCacheConfig(void *function, int) {
  STUB_ENTER(context);
  return find_function(function) ? success : invalid_handle;
}
STUB_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t shared) {
  STUB_ENTER(context);
  Function *f = find_function(function);
  if (!f || threads < 1) return invalid_value;
  const int warps = (threads + 31) / 32, cc = state.config.capability;
  const int warp_limit = cc == 75 ? 32 : cc == 80 || cc == 90 ? 64 : 48;
  int n = std::min(warp_limit / warps, cc == 75 ? 16 : 32);
  if (f->registers) n = std::min(n, 65536 / ((f->registers * 32 + 255) / 256 * 256 * warps));
  const size_t used = shared + (size_t)f->static_shared + (cc >= 80 ? 1024 : 0);
  if (used) n = std::min(n, (int)((size_t)(shared_limit() + 1024) / used));
  *blocks = n;
  return success;
}

STUB_API CUresult cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                 unsigned shared, void *stream, void **parameters, void **extra) {
  STUB_ENTER(context);
  return launch_kernel(function, {{gx, gy, gz}, {bx, by, bz}, shared}, stream, parameters, extra);
}
struct Launch_config {
  unsigned grid[3], block[3], shared;
  void *stream;
  void *attributes;
  unsigned attribute_count;
};
STUB_API CUresult cuLaunchKernelEx(const Launch_config *c, void *function, void **parameters, void **extra) {
  STUB_ENTER(context);
  if (c->attribute_count) return misuse(not_supported, "cuLaunchKernelEx: launch attributes are not in the stub");
  return launch_kernel(function, {{c->grid[0], c->grid[1], c->grid[2]}, {c->block[0], c->block[1], c->block[2]}, c->shared}, c->stream,
                       parameters, extra);
}
STUB_API CUresult cuLaunchHostFunc(void *stream, void (*fn)(void *), void *data) {
  STUB_ENTER(context);
  Stream *s;
  if (!fn || !find_stream(stream, s)) return invalid_handle;
  return enqueue(s, [fn, data] {
    fn(data);
    return success;
  });
}
