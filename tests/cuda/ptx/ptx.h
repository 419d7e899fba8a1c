// Runs the PTX that nvcc wrote, 32 lanes at a time, under the checks of the engine.
// What a kernel does on the device is decided by this text and by ptxas alone, so
// this covers the device half of gpu.h and nvcc's own code generation.
#ifndef SATTN_SIM_PTX_H
#define SATTN_SIM_PTX_H

#include "launch.h"

#include <map>
#include <memory>

namespace sattn_sim {

struct Module;

class Ptx_module {
 public:
  // Null, and a sentence that names the line and the thing, if any of it is not understood.
  static std::unique_ptr<Ptx_module> load(const std::string &text, std::string &error);
  ~Ptx_module();
  const Kernel *find(const char *entry) const;
  std::vector<std::string> entries() const;
  // .version as 7.0 is 70, .target as 80
  unsigned version() const;
  unsigned target() const;

 private:
  Ptx_module() = default;
  std::unique_ptr<Module> module_;
  std::map<std::string, std::unique_ptr<Kernel>> kernels_;
};

}  // namespace sattn_sim
#endif
