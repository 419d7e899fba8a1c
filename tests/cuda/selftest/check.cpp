#include "check.h"
#include "ptx.h"

#include <fstream>
#include <memory>
#include <sstream>

namespace selftest {

int passed, failed;

void check(bool ok, const std::string &what) {
  if (ok) {
    ++passed;
    return;
  }
  ++failed;
  printf("FAIL %s\n", what.c_str());
}

int finish() {
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0 || passed == 0;
}

bool interprets_ptx() {
  const char *files = getenv("SATTN_SELFTEST_PTX");
  return files && *files;
}

static std::vector<std::unique_ptr<sattn_sim::Ptx_module>> load_modules() {
  std::vector<std::unique_ptr<sattn_sim::Ptx_module>> modules;
  std::stringstream files(getenv("SATTN_SELFTEST_PTX"));
  for (std::string file; std::getline(files, file, ':');) {
    std::ifstream in(file);
    std::stringstream text;
    text << in.rdbuf();
    std::string error;
    modules.push_back(sattn_sim::Ptx_module::load(text.str(), error));
    if (!modules.back()) {
      printf("FAIL %s: %s\n", file.c_str(), error.c_str());
      exit(1);
    }
  }
  return modules;
}

const sattn_sim::Kernel &kernel(const std::string &name) {
  const sattn_sim::Kernel *k = nullptr;
  if (interprets_ptx()) {
    static const auto modules = load_modules();
    for (const auto &m : modules)
      if (!k) k = m->find(name.c_str());
  } else {
    k = sattn_sim::find_host_kernel(name.c_str());
  }
  if (!k) {
    printf("FAIL there is no kernel %s\n", name.c_str());
    exit(1);
  }
  return *k;
}

sattn_sim::Report run(const std::string &name, unsigned grid, unsigned block, size_t shared, std::vector<void *> arguments,
                      const sattn_sim::Options &options) {
  return sattn_sim::launch(kernel(name), {grid, 1, 1}, {block, 1, 1}, shared, arguments.data(), options);
}

}  // namespace selftest
