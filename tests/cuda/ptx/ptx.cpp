#include "ptx.h"
#include "decoder.h"
#include "execute.h"
#include "parser.h"

#include <cmath>

namespace sattn_sim {

namespace {

class Ptx_kernel : public Kernel {
 public:
  Ptx_kernel(const Module &m, const Function &f) : module_(m), function_(f) {
    name = f.name;
    max_threads = f.max_threads;
    for (const Parameter &p : f.parameters) argument_sizes.push_back(p.bytes);
  }
  void run_block(void **arguments) const override { execute_block(module_, function_, arguments, argument_sizes); }

 private:
  const Module &module_;
  const Function &function_;
};

}  // namespace

std::unique_ptr<Ptx_module> Ptx_module::load(const std::string &text, std::string &error) {
  std::unique_ptr<Ptx_module> m(new Ptx_module);
  try {
    m->module_ = parse_module(text);
  } catch (const Ptx_error &e) {
    error = e.what();
    return nullptr;
  }
  for (const auto &f : m->module_->functions)
    if (f.second->entry) m->kernels_[f.first].reset(new Ptx_kernel(*m->module_, *f.second));
  return m;
}

Ptx_module::~Ptx_module() = default;

const Kernel *Ptx_module::find(const char *entry) const {
  const auto it = kernels_.find(entry);
  return it == kernels_.end() ? nullptr : it->second.get();
}

std::vector<std::string> Ptx_module::entries() const {
  std::vector<std::string> v;
  for (const auto &k : kernels_) v.push_back(k.first);
  return v;
}

unsigned Ptx_module::version() const {
  return (unsigned)std::lround(module_->version * 10);
}
unsigned Ptx_module::target() const {
  return module_->target;
}

}  // namespace sattn_sim
