// Devices and contexts.
#include "state.h"

#include <cstdio>
#include <cstring>

using namespace sattn_stub;

namespace {

bool device_ok(int d) {
  return d >= 0 && d < state.config.devices;
}

int shared_optin(int capability) {
  switch (capability) {
    case 75:
      return 64 << 10;
    case 80:
      return 163 << 10;
    case 86:
    case 89:
      return 99 << 10;
    default:
      return 227 << 10;
  }
}

bool attribute_value(int attribute, int device, int &value) {
  const int cc = state.config.capability;
  const struct {
    int attribute, value;
  } table[] = {{attribute_max_threads, 1024},
               {attribute_block_x, 1024},
               {attribute_block_y, 1024},
               {attribute_block_z, 64},
               {attribute_grid_x, 0x7fffffff},
               {attribute_grid_y, 65535},
               {attribute_grid_z, 65535},
               {attribute_shared_per_block, 48 << 10},
               {attribute_constant_memory, 64 << 10},
               {attribute_warp_size, 32},
               {attribute_registers_per_block, 65536},
               {attribute_clock_khz, 1410000},
               {attribute_multiprocessors, state.config.multiprocessors ? state.config.multiprocessors
                                           : cc >= 90                   ? 132
                                           : cc >= 80                   ? 108
                                                                        : 40},
               {attribute_integrated, 0},
               {attribute_compute_mode, 0},
               {attribute_concurrent_kernels, 1},
               {attribute_pci_bus, 1 + device},
               {attribute_pci_device, 0},
               {attribute_memory_clock_khz, 1215000},
               {attribute_bus_width, 5120},
               {attribute_l2_bytes, 40 << 20},
               {attribute_threads_per_multiprocessor, cc == 75               ? 1024
                                                      : cc == 80 || cc == 90 ? 2048
                                                                             : 1536},
               {attribute_async_engines, 3},
               {attribute_unified_addressing, 1},
               {attribute_pci_domain, 0},
               {attribute_capability_major, cc / 10},
               {attribute_capability_minor, cc % 10},
               {attribute_shared_per_multiprocessor, shared_optin(cc) + (cc >= 80 ? 1 << 10 : 0)},
               {attribute_registers_per_multiprocessor, 65536},
               {attribute_managed_memory, 0},
               {attribute_cooperative_launch, 0},
               {attribute_shared_optin, shared_optin(cc)},
               {attribute_blocks_per_multiprocessor, cc == 75 ? 16 : 32},
               {attribute_reserved_shared, cc >= 80 ? 1 << 10 : 0},
               {attribute_memory_pools, 1}};
  for (const auto &x : table)
    if (x.attribute == attribute) {
      value = x.value;
      return true;
    }
  return false;
}

// A handle to a context that is alive, or null with the misuse reported.
Context *checked(void *handle, const char *call) {
  Context *c = (Context *)handle;
  if (state.contexts.count(c)) return c;
  misuse(invalid_context, "%s: not a live context", call);
  return nullptr;
}

Context *new_context(int device, bool primary) {
  Context *c = new Context{device, primary, 0, 0, {}, {}, {}, {}, {}, {}};
  c->null_stream.context = c;
  c->null_stream.null = true;
  state.contexts.insert(c);
  return c;
}

}  // namespace

// What is left in a context goes with it and is counted as orphaned.
void sattn_stub::close_context(Context &c) {
  int orphans = (int)(c.modules.size() + c.streams.size() + c.events.size() + c.graphs.size() + c.execs.size());
  for (auto *x : c.modules) delete x;
  for (auto *x : c.streams) delete x;
  for (auto *x : c.events) delete x;
  for (auto *x : c.graphs) delete x;
  for (auto *x : c.execs) delete x;
  std::vector<CUdeviceptr> left;
  for (const auto &a : state.allocations)
    if (a.second.context == &c) left.push_back(a.first);
  for (CUdeviceptr p : left) release_allocation(p);
  state.stats.orphans += orphans + (int)left.size();
  state.contexts.erase(&c);
}

STUB_API CUresult cuDeviceGetCount(int *count) {
  STUB_ENTER(init);
  if (!count) return invalid_value;
  *count = state.config.devices;
  return success;
}
STUB_API CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  STUB_ENTER(init);
  if (!device_ok(ordinal)) return invalid_device;
  *device = ordinal;
  return success;
}
STUB_API CUresult cuDeviceGetName(char *name, int bytes, CUdevice device) {
  STUB_ENTER(init);
  if (!device_ok(device)) return invalid_device;
  snprintf(name, (size_t)bytes, "Simulated sm_%d", state.config.capability);
  return success;
}
STUB_API CUresult cuDeviceGetUuid_v2(unsigned char *uuid, CUdevice device) {
  STUB_ENTER(init);
  if (!device_ok(device)) return invalid_device;
  memset(uuid, 0x5a, 16);
  uuid[15] = (unsigned char)device;
  return success;
}
STUB_API CUresult cuDeviceGetPCIBusId(char *id, int bytes, CUdevice device) {
  STUB_ENTER(init);
  if (!device_ok(device)) return invalid_device;
  snprintf(id, (size_t)bytes, "0000:%02x:00.0", 1 + device);
  return success;
}
STUB_API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  STUB_ENTER(init);
  if (!device_ok(device)) return invalid_device;
  *bytes = state.config.memory;
  return success;
}
STUB_API CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
  STUB_ENTER(init);
  if (!device_ok(device)) return invalid_device;
  int v;
  if (!value || !attribute_value(attribute, device, v))
    return misuse(invalid_value, "cuDeviceGetAttribute: attribute %d is not in the stub", attribute);
  *value = v;
  return success;
}
STUB_API CUresult cuDeviceCanAccessPeer(int *can, CUdevice, CUdevice) {
  STUB_ENTER(init);
  *can = 0;
  return success;
}

STUB_API CUresult cuDevicePrimaryCtxRetain(void **context, CUdevice device) {
  STUB_ENTER(init);
  if (!device_ok(device)) return invalid_device;
  auto &p = state.primary[(size_t)device];
  if (!p) p.reset(new_context(device, true));
  ++p->retains;
  *context = p.get();
  return success;
}
STUB_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  STUB_RELEASE(init);
  if (!device_ok(device)) return invalid_device;
  auto &p = state.primary[(size_t)device];
  if (!p || !p->retains) return misuse(invalid_context, "the primary context of device %d is released too often", device);
  if (!--p->retains) {
    close_context(*p);
    p.reset();
  }
  return entry.injected;
}
STUB_API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
  STUB_ENTER(init);
  if (!device_ok(device)) return invalid_device;
  *flags = 0;
  *active = state.primary[(size_t)device] != nullptr;
  return success;
}
STUB_API CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned) {
  STUB_ENTER(init);
  return device_ok(device) ? success : invalid_device;
}

static CUresult create_context(void **context, CUdevice device) {
  if (!device_ok(device)) return invalid_device;
  Context *c = new_context(device, false);
  context_stack.push_back(c);  // a new context is current at once
  *context = c;
  return success;
}
STUB_API CUresult cuCtxCreate_v2(void **context, unsigned, CUdevice device) {
  STUB_ENTER(init);
  return create_context(context, device);
}
STUB_API CUresult cuCtxCreate_v4(void **context, void *parameters, unsigned, CUdevice device) {
  STUB_ENTER(init);
  if (parameters) return misuse(not_supported, "cuCtxCreate: parameters are not in the stub");
  return create_context(context, device);
}
STUB_API CUresult cuCtxDestroy_v2(void *context) {
  STUB_RELEASE(init);
  Context *c = checked(context, "cuCtxDestroy");
  if (!c) return invalid_context;
  if (c->primary) return misuse(invalid_context, "cuCtxDestroy of a primary context");
  if (!context_stack.empty() && context_stack.back() == c) context_stack.pop_back();
  close_context(*c);
  delete c;
  return entry.injected;
}
STUB_API CUresult cuCtxPushCurrent_v2(void *context) {
  STUB_ENTER(init);
  Context *c = checked(context, "cuCtxPushCurrent");
  if (!c) return invalid_context;
  context_stack.push_back(c);
  return success;
}
STUB_API CUresult cuCtxPopCurrent_v2(void **context) {
  STUB_RELEASE(init);
  if (context_stack.empty()) return misuse(invalid_context, "cuCtxPopCurrent: no context is current");
  if (context) *context = context_stack.back();
  context_stack.pop_back();
  return entry.injected;
}
STUB_API CUresult cuCtxGetCurrent(void **context) {
  STUB_ENTER(init);
  *context = context_stack.empty() ? nullptr : context_stack.back();
  return success;
}
STUB_API CUresult cuCtxSetCurrent(void *context) {
  STUB_ENTER(init);
  if (context && !checked(context, "cuCtxSetCurrent")) return invalid_context;
  if (!context_stack.empty()) context_stack.pop_back();
  if (context) context_stack.push_back((Context *)context);
  return success;
}
STUB_API CUresult cuCtxGetDevice(CUdevice *device) {
  STUB_ENTER(context);
  *device = current().device;
  return success;
}
STUB_API CUresult cuCtxGetApiVersion(void *context, unsigned *version) {
  STUB_ENTER(init);
  if (context && !checked(context, "cuCtxGetApiVersion")) return invalid_context;
  *version = 3020;
  return success;
}
STUB_API CUresult cuCtxGetFlags(unsigned *flags) {
  STUB_ENTER(context);
  *flags = 0;
  return success;
}
STUB_API CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  STUB_ENTER(context);
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return success;
}
STUB_API CUresult cuCtxSynchronize(void) {
  STUB_ENTER(context);
  if (CUresult r = forbid_in_capture("cuCtxSynchronize")) return r;
  return drain_all(current(), false);
}
