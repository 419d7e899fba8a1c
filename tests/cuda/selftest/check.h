// Counting checks, and running a kernel from either engine by the same name.
#ifndef SATTN_SELFTEST_CHECK_H
#define SATTN_SELFTEST_CHECK_H

#include "launch.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace selftest {

extern int passed, failed;
void check(bool ok, const std::string &what);
int finish();  // prints the totals; the process's exit status

// From SATTN_SELFTEST_PTX (files, ':' between them) if set, else host-compiled.
bool interprets_ptx();
const sattn_sim::Kernel &kernel(const std::string &name);

sattn_sim::Report run(const std::string &name, unsigned grid, unsigned block, size_t shared, std::vector<void *> arguments,
                      const sattn_sim::Options &options = {});

// Device memory of a test: registered with the engine, filled with bytes of `fill`.
template <class T>
class Buffer {
 public:
  explicit Buffer(size_t count, unsigned char fill = 0) : count_(count) {
    const size_t bytes = (count * sizeof(T) + 63) / 64 * 64;
    data_ = (T *)aligned_alloc(64, bytes);
    memset((void *)data_, fill, bytes);
    sattn_sim::global_register(data_, count * sizeof(T));
  }
  ~Buffer() {
    sattn_sim::global_unregister(data_);
    free(data_);
  }
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;
  T &operator[](size_t i) { return data_[i]; }
  T *data() { return data_; }
  size_t size() const { return count_; }
  void *argument() { return &data_; }

 private:
  T *data_;
  size_t count_;
};

}  // namespace selftest
#endif
