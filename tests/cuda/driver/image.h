// Reading what nvcc packs: fat binaries and the ELF files in them.
#ifndef SATTN_STUB_IMAGE_H
#define SATTN_STUB_IMAGE_H

#include <string>

namespace sattn_stub {

// What a driver would take out of the image for a device and its own version.
struct Choice {
  const unsigned char *cubin = nullptr;
  size_t cubin_bytes = 0;
  int cubin_arch = 0;
  std::string ptx;       // the newest not above the device
  bool too_new = false;  // something fitted the device but not the driver
};

enum class Image_kind { fatbin, cubin, ptx, host_kernels, unknown };
Image_kind kind_of(const unsigned char *image);
size_t image_bytes(const unsigned char *image, Image_kind kind);
// Unwraps the runtime's wrapper structure, if that is what `image` points to.
const unsigned char *unwrapped(const unsigned char *image);

bool choose(const unsigned char *image, size_t bytes, int capability, int driver, Choice &out, std::string &error);

// The oldest driver, as 12020, that takes PTX of this version.
int driver_for_ptx(double version);

struct Kernel_facts {
  int parameter_bytes = -1, registers = 0, static_shared = 0, local_bytes = 0;
};
// False if the kernel is not in the ELF file.
bool kernel_facts(const unsigned char *elf, size_t bytes, const std::string &name, Kernel_facts &out);

}  // namespace sattn_stub
#endif
