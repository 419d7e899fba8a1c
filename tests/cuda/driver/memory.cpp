// Device memory lies in one reserved range that this process can touch only while a
// copy or a kernel runs: host code that follows a device pointer faults, as with a
// real device. Addresses are never used twice, so that use after free shows.
#include "state.h"

#include <sys/mman.h>
#include <cstdlib>
#include <cstring>

using namespace sattn_stub;

namespace {

constexpr size_t arena_bytes = (size_t)64 << 30, page = 4096;
char *arena;
size_t arena_top;
int open_count;

CUresult allocate(CUdeviceptr *out, size_t bytes) {
  if (!out || !bytes) return misuse(invalid_value, "cuMemAlloc of %zu bytes", bytes);
  Context &c = current();
  size_t &live = state.live_bytes[(size_t)c.device];
  if (bytes > state.config.memory || live > state.config.memory - bytes) return out_of_memory;
  if (!arena) {
    void *p = mmap(nullptr, arena_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return out_of_memory;
    arena = (char *)p;
    arena_top = page;  // nothing starts where the range does
  }
  const size_t start = arena_top, end = (start + bytes + page - 1) / page * page;
  if (end + page > arena_bytes) return misuse(out_of_memory, "the stub's address range is used up");
  {
    Open_memory open;
    mprotect(arena + start, end - start, PROT_READ | PROT_WRITE);
    memset(arena + start, 0xff, bytes);  // NaN in every floating type
  }
  arena_top = end + page;  // a page between allocations is never readable
  mprotect(arena + start, end - start, open_count ? PROT_READ | PROT_WRITE : PROT_NONE);
  const CUdeviceptr p = (CUdeviceptr)(uintptr_t)(arena + start);
  state.allocations[p] = Allocation{bytes, &c};
  live += bytes;
  state.stats.peak_bytes = std::max<unsigned long long>(state.stats.peak_bytes, live);
  sattn_sim::global_register(arena + start, bytes, c.device);
  *out = p;
  return success;
}

const std::pair<const CUdeviceptr, Allocation> *containing(CUdeviceptr p) {
  auto it = state.allocations.upper_bound(p);
  if (it == state.allocations.begin()) return nullptr;
  --it;
  return p - it->first < it->second.bytes ? &*it : nullptr;
}

// Is [p, p + bytes) memory of the current context?
CUresult check_range(const char *call, CUdeviceptr p, size_t bytes) {
  const auto *a = containing(p);
  if (!bytes) return success;
  if (!a || bytes > a->second.bytes - (size_t)(p - a->first))
    return misuse(invalid_value, "%s: %zu bytes at %llx are not inside one allocation", call, bytes, p);
  if (a->second.context->device != current().device)
    return misuse(invalid_value, "%s: the memory belongs to device %d, current is %d", call, a->second.context->device, current().device);
  return success;
}

// A host address must not be a device's: that would be a forgotten copy direction.
CUresult check_host(const char *call, const void *p, size_t bytes) {
  if (bytes && (!p || containing((CUdeviceptr)(uintptr_t)p))) return misuse(invalid_value, "%s: %p is not host memory", call, p);
  return success;
}

Operation copying(void *to, const void *from, size_t bytes) {
  return [=] {
    Open_memory open;
    memmove(to, from, bytes);
    return success;
  };
}
void *host(CUdeviceptr p) {
  return (void *)(uintptr_t)p;
}

// Synchronous copies go through the legacy stream, as the documentation has it.
CUresult copy_now(const char *call, Operation op) {
  if (CUresult r = forbid_in_capture(call)) return r;
  Stream &null = current().null_stream;
  if (CUresult r = enqueue(&null, std::move(op))) return r;
  return drain(null);
}
CUresult copy_later(void *stream, Operation op) {
  Stream *s;
  if (!find_stream(stream, s)) return invalid_handle;
  return enqueue(s, std::move(op));
}

Operation filling(CUdeviceptr p, const void *pattern, size_t width, size_t count) {
  uint32_t value = 0;
  memcpy(&value, pattern, width);
  return [=] {
    Open_memory open;
    for (size_t k = 0; k < count; ++k) memcpy((char *)host(p) + k * width, &value, width);
    return success;
  };
}
CUresult check_fill(const char *call, CUdeviceptr p, size_t width, size_t count) {
  if (p % width) return misuse(invalid_value, "%s: the address is not a multiple of %zu", call, width);
  return check_range(call, p, width * count);
}

}  // namespace

sattn_stub::Open_memory::Open_memory() {
  if (!open_count++)
    for (const auto &a : state.allocations) mprotect(host(a.first), (a.second.bytes + page - 1) / page * page, PROT_READ | PROT_WRITE);
}
sattn_stub::Open_memory::~Open_memory() {
  if (!--open_count)
    for (const auto &a : state.allocations) mprotect(host(a.first), (a.second.bytes + page - 1) / page * page, PROT_NONE);
}

bool sattn_stub::inside_allocation(CUdeviceptr p, size_t bytes) {
  const auto *a = containing(p);
  return a && bytes <= a->second.bytes - (size_t)(p - a->first);
}

void sattn_stub::release_allocation(CUdeviceptr p) {
  const auto it = state.allocations.find(p);
  const size_t bytes = it->second.bytes;
  // Poison and give back: what still reads it gets NaN or a fault, never old values.
  mprotect(host(p), (bytes + page - 1) / page * page, PROT_NONE);
  madvise(host(p), (bytes + page - 1) / page * page, MADV_DONTNEED);
  state.live_bytes[(size_t)it->second.context->device] -= bytes;
  state.allocations.erase(it);
  sattn_sim::global_unregister(host(p));
}

STUB_API CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t bytes) {
  STUB_ENTER(context);
  if (CUresult r = forbid_in_capture("cuMemAlloc")) return r;
  return allocate(p, bytes);
}
STUB_API CUresult cuMemFree_v2(CUdeviceptr p) {
  STUB_RELEASE(context);
  if (!p) return success;
  if (CUresult r = forbid_in_capture("cuMemFree")) return r;
  const auto it = state.allocations.find(p);
  if (it == state.allocations.end()) return misuse(invalid_value, "cuMemFree of %llx, which is not a live allocation", p);
  Context &owner = *it->second.context;
  if (anything_pending(owner)) ++state.stats.pending_frees;
  const CUresult r = drain_all(owner, false);
  release_allocation(p);
  return entry.injected ? entry.injected : r;
}
STUB_API CUresult cuMemAllocAsync(CUdeviceptr *p, size_t bytes, void *stream) {
  STUB_ENTER(context);
  Stream *s;
  if (!find_stream(stream, s)) return invalid_handle;
  if (s->capture) return misuse(not_supported, "cuMemAllocAsync in a capture is not in the stub");
  return allocate(p, bytes);
}
STUB_API CUresult cuMemFreeAsync(CUdeviceptr p, void *stream) {
  STUB_RELEASE(context);
  Stream *s;
  if (!find_stream(stream, s)) return invalid_handle;
  if (s->capture) return misuse(not_supported, "cuMemFreeAsync in a capture is not in the stub");
  if (!state.allocations.count(p)) return misuse(invalid_value, "cuMemFreeAsync of %llx, which is not a live allocation", p);
  const CUresult r = enqueue(s, [p] {
    if (state.allocations.count(p)) release_allocation(p);
    return success;
  });
  return entry.injected ? entry.injected : r;
}
STUB_API CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
  STUB_ENTER(context);
  *total = state.config.memory;
  *free_bytes = state.config.memory - state.live_bytes[(size_t)current().device];
  return success;
}
STUB_API CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr p) {
  STUB_ENTER(context);
  const auto *a = containing(p);
  if (!a) return not_found;
  if (base) *base = a->first;
  if (bytes) *bytes = a->second.bytes;
  return success;
}

// ---- pinned host memory: ordinary memory, but counted; kernels may not touch it

static CUresult allocate_host(void **p, size_t bytes) {
  if (!p || !bytes) return invalid_value;
  *p = aligned_alloc(page, (bytes + page - 1) / page * page);
  if (!*p) return out_of_memory;
  state.host_allocations[*p] = &current();
  return success;
}
STUB_API CUresult cuMemAllocHost_v2(void **p, size_t bytes) {
  STUB_ENTER(context);
  return allocate_host(p, bytes);
}
STUB_API CUresult cuMemHostAlloc(void **p, size_t bytes, unsigned) {
  STUB_ENTER(context);
  return allocate_host(p, bytes);
}
STUB_API CUresult cuMemFreeHost(void *p) {
  STUB_RELEASE(context);
  if (!state.host_allocations.erase(p)) return misuse(invalid_value, "cuMemFreeHost of memory that is not pinned");
  const CUresult r = drain_all(current(), false);
  free(p);
  return entry.injected ? entry.injected : r;
}

// ---- copies

STUB_API CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  STUB_ENTER(context);
  if (CUresult r = check_range(__func__, to, bytes)) return r;
  if (CUresult r = check_host(__func__, from, bytes)) return r;
  return copy_now(__func__, copying(host(to), from, bytes));
}
STUB_API CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  STUB_ENTER(context);
  if (CUresult r = check_range(__func__, from, bytes)) return r;
  if (CUresult r = check_host(__func__, to, bytes)) return r;
  return copy_now(__func__, copying(to, host(from), bytes));
}
STUB_API CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  STUB_ENTER(context);
  if (CUresult r = check_range(__func__, to, bytes)) return r;
  if (CUresult r = check_range(__func__, from, bytes)) return r;
  return copy_now(__func__, copying(host(to), host(from), bytes));
}
STUB_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, void *stream) {
  STUB_ENTER(context);
  if (CUresult r = check_range(__func__, to, bytes)) return r;
  if (CUresult r = check_host(__func__, from, bytes)) return r;
  return copy_later(stream, copying(host(to), from, bytes));
}
STUB_API CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, void *stream) {
  STUB_ENTER(context);
  if (CUresult r = check_range(__func__, from, bytes)) return r;
  if (CUresult r = check_host(__func__, to, bytes)) return r;
  return copy_later(stream, copying(to, host(from), bytes));
}
STUB_API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, void *stream) {
  STUB_ENTER(context);
  if (CUresult r = check_range(__func__, to, bytes)) return r;
  if (CUresult r = check_range(__func__, from, bytes)) return r;
  return copy_later(stream, copying(host(to), host(from), bytes));
}

#define STUB_MEMSET(name, later, T, width)                                      \
  STUB_API CUresult name(CUdeviceptr p, T value, size_t count) {                \
    STUB_ENTER(context);                                                        \
    if (CUresult r = check_fill(__func__, p, width, count)) return r;           \
    return copy_now(__func__, filling(p, &value, width, count));                \
  }                                                                             \
  STUB_API CUresult later(CUdeviceptr p, T value, size_t count, void *stream) { \
    STUB_ENTER(context);                                                        \
    if (CUresult r = check_fill(__func__, p, width, count)) return r;           \
    return copy_later(stream, filling(p, &value, width, count));                \
  }
STUB_MEMSET(cuMemsetD8_v2, cuMemsetD8Async, unsigned char, 1)
STUB_MEMSET(cuMemsetD16_v2, cuMemsetD16Async, unsigned short, 2)
STUB_MEMSET(cuMemsetD32_v2, cuMemsetD32Async, unsigned, 4)

// ---- pointer attributes

static CUresult pointer_attribute(void *data, int attribute, CUdeviceptr p) {
  const auto *a = containing(p);
  Context *pinned = nullptr;
  for (const auto &h : state.host_allocations)
    if (h.first == host(p)) pinned = h.second;
  if (!a && !pinned) return invalid_value;
  Context *c = a ? a->second.context : pinned;
  switch (attribute) {
    case 1:
      *(void **)data = c;
      return success;
    case 2:
      *(unsigned *)data = a ? 2 : 1;
      return success;
    case 3:
      if (!a) return misuse(not_supported, "pinned memory is not mapped in the stub");
      *(CUdeviceptr *)data = p;
      return success;
    case 4:
      if (a) return invalid_value;
      *(void **)data = host(p);
      return success;
    case 8:
      *(unsigned *)data = 0;
      return success;
    case 9:
      *(int *)data = c->device;
      return success;
    case 11:
      *(CUdeviceptr *)data = a ? a->first : p;
      return success;
    case 12:
      *(size_t *)data = a ? a->second.bytes : 0;
      return success;
    case 13:
      *(unsigned *)data = a != nullptr;
      return success;
    default:
      return misuse(invalid_value, "cuPointerGetAttribute: attribute %d is not in the stub", attribute);
  }
}
STUB_API CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr p) {
  STUB_ENTER(init);
  return pointer_attribute(data, attribute, p);
}
// Of a pointer that is not the driver's, every attribute is zero and that is no error.
STUB_API CUresult cuPointerGetAttributes(unsigned count, int *attributes, void **data, CUdeviceptr p) {
  STUB_ENTER(init);
  for (unsigned k = 0; k < count; ++k) {
    const int a = attributes[k];
    memset(data[k], 0, a == 2 || a == 8 || a == 9 || a == 13 ? 4 : 8);
    pointer_attribute(data[k], a, p);
  }
  return success;
}
