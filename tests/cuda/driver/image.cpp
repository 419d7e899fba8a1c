#include "image.h"

#include <elf.h>
#include <cstdlib>
#include <cstring>

namespace sattn_stub {

namespace {

constexpr uint32_t fatbin_magic = 0xba55ed50u, wrapper_magic = 0x466243b1u;

struct Fatbin_header {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes;
};
struct Fatbin_entry {
  uint16_t kind, unknown1;  // kind 1: PTX, 2: ELF
  uint32_t header_bytes;
  uint64_t bytes;
  uint32_t compressed_bytes, unknown2;
  uint16_t minor, major;
  uint32_t arch, name_offset, name_bytes;
  uint64_t flags, zero, plain_bytes;
};

// nvcc 13 writes ELF files that only its own generation of drivers loads.
int driver_for_cubin(const unsigned char *elf) {
  return elf[EI_ABIVERSION] >= 8 ? 13000 : 11000;
}

double ptx_version(const std::string &text) {
  const size_t p = text.find(".version");
  return p == std::string::npos ? 0 : strtod(text.c_str() + p + 8, nullptr);
}

}  // namespace

// The driver that first understood a PTX version: 7.x came with CUDA 11.x, 8.x with 12.x.
int driver_for_ptx(double version) {
  const int v = (int)(version * 10 + 0.5);
  if (v >= 90) return 13000 + (v - 90) * 10;
  if (v >= 80) return 12000 + (v - 80) * 10;
  if (v >= 70) return 11000 + (v - 70) * 10;
  return 10000;
}

Image_kind kind_of(const unsigned char *image) {
  uint32_t magic;
  memcpy(&magic, image, sizeof magic);
  if (magic == fatbin_magic) return Image_kind::fatbin;
  if (!memcmp(image, ELFMAG, SELFMAG)) return Image_kind::cubin;
  if (!strncmp((const char *)image, "SATTN-HOST-KERNELS", 18)) return Image_kind::host_kernels;
  if (!strncmp((const char *)image, "//", 2) || !strncmp((const char *)image, ".version", 8) || image[0] == '\n') return Image_kind::ptx;
  return Image_kind::unknown;
}

const unsigned char *unwrapped(const unsigned char *image) {
  uint32_t magic;
  memcpy(&magic, image, sizeof magic);
  if (magic != wrapper_magic) return image;
  const unsigned char *data;
  memcpy(&data, image + 8, sizeof data);
  return data;
}

size_t image_bytes(const unsigned char *image, Image_kind kind) {
  if (kind == Image_kind::fatbin) {
    Fatbin_header h;
    memcpy(&h, image, sizeof h);
    return h.header_bytes + h.bytes;
  }
  if (kind == Image_kind::cubin) {
    Elf64_Ehdr h;
    memcpy(&h, image, sizeof h);
    const size_t sections = h.e_shoff + (size_t)h.e_shnum * h.e_shentsize, segments = h.e_phoff + (size_t)h.e_phnum * h.e_phentsize;
    return sections > segments ? sections : segments;
  }
  return strlen((const char *)image) + 1;
}

bool choose(const unsigned char *image, size_t bytes, int capability, int driver, Choice &out, std::string &error) {
  Fatbin_header h;
  memcpy(&h, image, sizeof h);
  unsigned best_ptx = 0;
  for (size_t at = h.header_bytes; at + sizeof(Fatbin_entry) <= bytes;) {
    Fatbin_entry e;
    memcpy(&e, image + at, sizeof e);
    const unsigned char *data = image + at + e.header_bytes;
    if (e.bytes > bytes - at - e.header_bytes) {
      error = "the fat binary is cut short";
      return false;
    }
    at += e.header_bytes + e.bytes;
    const bool compressed =
        e.kind == 2 ? memcmp(data, ELFMAG, SELFMAG) != 0 : e.kind == 1 && !memchr(data, '.', e.bytes < 400 ? e.bytes : 400);
    if (e.compressed_bytes || compressed) {
      error = "the fat binary is compressed: build with -no-compress";
      return false;
    }
    const unsigned cc = (unsigned)capability;
    if (e.kind == 2 && e.arch / 10 == cc / 10 && e.arch <= cc && (int)e.arch > out.cubin_arch) {
      if (driver_for_cubin(data) > driver) {
        out.too_new = true;
        continue;
      }
      out.cubin = data;
      out.cubin_bytes = e.bytes;
      out.cubin_arch = (int)e.arch;
    }
    if (e.kind == 1 && e.arch <= cc && e.arch > best_ptx) {
      const std::string text((const char *)data, strnlen((const char *)data, e.bytes));
      if (driver_for_ptx(ptx_version(text)) > driver) {
        out.too_new = true;
        continue;
      }
      out.ptx = text;
      best_ptx = e.arch;
    }
  }
  return true;
}

namespace {

constexpr unsigned info_registers = 0x2f, info_frame_bytes = 0x11, info_parameter_bytes = 0x19;

struct Elf {
  const unsigned char *data;
  const Elf64_Ehdr *header;
  const Elf64_Shdr *section;
  explicit Elf(const unsigned char *d) : data(d), header((const Elf64_Ehdr *)d), section((const Elf64_Shdr *)(d + header->e_shoff)) {}
  std::string name(int i) const { return (const char *)data + section[header->e_shstrndx].sh_offset + section[i].sh_name; }
  std::string symbol(uint32_t k) const {
    for (int i = 0; i < header->e_shnum; ++i)
      if (section[i].sh_type == SHT_SYMTAB && k < section[i].sh_size / sizeof(Elf64_Sym)) {
        const Elf64_Sym *s = (const Elf64_Sym *)(data + section[i].sh_offset);
        return (const char *)data + section[section[i].sh_link].sh_offset + s[k].st_name;
      }
    return "";
  }
};

// Attributes: a byte of format, one of kind, then a 16-bit value or the length of what follows.
template <class F>
void each_attribute(const Elf &e, int i, F f) {
  const unsigned char *p = e.data + e.section[i].sh_offset, *end = p + e.section[i].sh_size;
  while (p + 4 <= end) {
    const unsigned value = p[2] | (unsigned)p[3] << 8;
    f(p[1], value, p + 4);
    p += 4 + (p[0] == 4 ? value : 0);
  }
}

}  // namespace

bool kernel_facts(const unsigned char *elf, size_t bytes, const std::string &name, Kernel_facts &out) {
  if (bytes < sizeof(Elf64_Ehdr)) return false;
  const Elf e(elf);
  bool found = false;
  for (int i = 0; i < e.header->e_shnum; ++i) {
    const std::string s = e.name(i);
    if (s == ".text." + name) found = true;
    if (s == ".nv.shared." + name) out.static_shared = (int)e.section[i].sh_size;
    if (s == ".nv.info." + name)
      each_attribute(e, i, [&](unsigned kind, unsigned value, const unsigned char *) {
        if (kind == info_parameter_bytes) out.parameter_bytes = (int)value;
      });
    if (s != ".nv.info") continue;
    each_attribute(e, i, [&](unsigned kind, unsigned, const unsigned char *data) {
      if (kind != info_registers && kind != info_frame_bytes) return;
      uint32_t v[2];  // symbol, value
      memcpy(v, data, sizeof v);
      if (e.symbol(v[0]) == name) (kind == info_registers ? out.registers : out.local_bytes) = (int)v[1];
    });
  }
  return found;
}

}  // namespace sattn_stub
