// The driver API's binary interface, as far as the stub has it: no CUDA header is
// needed to build or to test.
#ifndef SATTN_STUB_ABI_H
#define SATTN_STUB_ABI_H

#include <cstddef>
#include <cstdint>

#define STUB_API extern "C" __attribute__((visibility("default")))

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;

enum Result : int {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  no_device = 100,
  invalid_device = 101,
  invalid_image = 200,
  invalid_context = 201,
  no_binary_for_gpu = 209,
  invalid_ptx = 218,
  unsupported_ptx_version = 222,
  invalid_handle = 400,
  illegal_state = 401,
  not_found = 500,
  not_ready = 600,
  illegal_address = 700,
  out_of_resources = 701,
  launch_failed = 719,
  misaligned_address = 716,
  not_supported = 801,
  capture_unsupported = 900,
  capture_invalidated = 901,
  capture_unmatched = 903,
  capture_unjoined = 904,
  capture_implicit = 906,
  captured_event = 907,
};

enum Device_attribute : int {
  attribute_max_threads = 1,
  attribute_block_x = 2,
  attribute_block_y = 3,
  attribute_block_z = 4,
  attribute_grid_x = 5,
  attribute_grid_y = 6,
  attribute_grid_z = 7,
  attribute_shared_per_block = 8,
  attribute_constant_memory = 9,
  attribute_warp_size = 10,
  attribute_registers_per_block = 12,
  attribute_clock_khz = 13,
  attribute_multiprocessors = 16,
  attribute_integrated = 18,
  attribute_compute_mode = 20,
  attribute_concurrent_kernels = 31,
  attribute_pci_bus = 33,
  attribute_pci_device = 34,
  attribute_memory_clock_khz = 36,
  attribute_bus_width = 37,
  attribute_l2_bytes = 38,
  attribute_threads_per_multiprocessor = 39,
  attribute_async_engines = 40,
  attribute_unified_addressing = 41,
  attribute_pci_domain = 50,
  attribute_capability_major = 75,
  attribute_capability_minor = 76,
  attribute_shared_per_multiprocessor = 81,
  attribute_registers_per_multiprocessor = 82,
  attribute_managed_memory = 83,
  attribute_cooperative_launch = 95,
  attribute_shared_optin = 97,
  attribute_blocks_per_multiprocessor = 106,
  attribute_reserved_shared = 111,
  attribute_memory_pools = 115,
};

#endif
