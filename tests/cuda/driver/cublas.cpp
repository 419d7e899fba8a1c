// A stub of cuBLAS beside the stub driver: single precision products, in stream order,
// with the library's traps: setting a stream drops the workspace, and a product
// without one would allocate.
#include "abi.h"
#include "stub.h"

#include <atomic>
#include <cstdio>
#include <new>

extern "C" {
CUresult cuCtxGetCurrent(void **context);
CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t bytes);
CUresult cuMemFree_v2(CUdeviceptr p);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr p);
}

namespace {

enum Status { ok = 0, not_initialized_ = 1, alloc_failed = 3, invalid_value_ = 7, execution_failed = 13, internal_error = 14 };

struct Handle {
  void *context;
  void *stream = nullptr;
  CUdeviceptr own = 0;  // a real handle has device memory too: one that leaks shows
  bool workspace = false;
  std::atomic<bool> busy{false};
};

int refuse(int status, const char *why) {
  fprintf(stderr, "stub cuBLAS: %s\n", why);
  return status;
}

bool usable(Handle *h) {
  void *context = nullptr;
  return h && !cuCtxGetCurrent(&context) && context == h->context;
}

// columns x leading, all inside one allocation?
bool inside(const float *p, size_t rows, size_t columns, size_t leading) {
  CUdeviceptr base;
  size_t bytes;
  const CUdeviceptr a = (CUdeviceptr)(uintptr_t)p;
  if (!rows || !columns) return true;
  if (leading < rows || cuMemGetAddressRange_v2(&base, &bytes, a)) return false;
  return ((columns - 1) * leading + rows) * sizeof(float) <= bytes - (size_t)(a - base);
}

struct Product {
  bool ta, tb;
  int m, n, k, lda, ldb, ldc;
  float alpha, beta;
  const float *a, *b;
  float *c;
};

int multiply(void *data) {
  const Product &p = *(const Product *)data;
  for (int j = 0; j < p.n; ++j)
    for (int i = 0; i < p.m; ++i) {
      float sum = 0;
      for (int l = 0; l < p.k; ++l) {
        const float a = p.ta ? p.a[l + (size_t)i * (size_t)p.lda] : p.a[i + (size_t)l * (size_t)p.lda];
        const float b = p.tb ? p.b[j + (size_t)l * (size_t)p.ldb] : p.b[l + (size_t)j * (size_t)p.ldb];
        sum += a * b;
      }
      float &c = p.c[i + (size_t)j * (size_t)p.ldc];
      c = p.beta == 0 ? p.alpha * sum : p.alpha * sum + p.beta * c;  // with beta 0, C is not read
    }
  return 0;
}

}  // namespace

STUB_API int cublasCreate_v2(void **handle) {
  void *context = nullptr;
  if (cuCtxGetCurrent(&context) || !context) return refuse(not_initialized_, "cublasCreate without a current context");
  Handle *h = new (std::nothrow) Handle;
  if (!h) return alloc_failed;
  h->context = context;
  if (cuMemAlloc_v2(&h->own, 256)) {
    delete h;
    return alloc_failed;
  }
  *handle = h;
  return ok;
}
STUB_API int cublasDestroy_v2(void *handle) {
  Handle *h = (Handle *)handle;
  if (!usable(h)) return refuse(not_initialized_, "cublasDestroy: not a handle of the current context");
  const int r = cuMemFree_v2(h->own);
  delete h;
  return r ? (int)internal_error : (int)ok;
}
STUB_API int cublasGetVersion_v2(void *, int *version) {
  *version = 130000;
  return ok;
}
STUB_API int cublasSetStream_v2(void *handle, void *stream) {
  Handle *h = (Handle *)handle;
  if (!usable(h)) return refuse(not_initialized_, "cublasSetStream: not a handle of the current context");
  h->stream = stream;
  h->workspace = false;
  return ok;
}
STUB_API int cublasSetWorkspace_v2(void *handle, void *workspace, size_t bytes) {
  Handle *h = (Handle *)handle;
  if (!usable(h)) return refuse(not_initialized_, "cublasSetWorkspace: not a handle of the current context");
  if (bytes && ((uintptr_t)workspace % 256 || !inside((const float *)workspace, bytes / 4, 1, bytes / 4)))
    return refuse(invalid_value_, "cublasSetWorkspace: not 256-aligned device memory of that size");
  h->workspace = true;
  return ok;
}
STUB_API int cublasSgemm_v2(void *handle, int ta, int tb, int m, int n, int k, const float *alpha, const float *a, int lda, const float *b,
                            int ldb, const float *beta, float *c, int ldc) {
  Handle *h = (Handle *)handle;
  if (!usable(h)) return refuse(not_initialized_, "cublasSgemm: not a handle of the current context");
  if (h->busy.exchange(true)) return refuse(internal_error, "cublasSgemm: two threads use one handle at once");
  int status = ok;
  if (!h->workspace)
    status = refuse(internal_error, "cublasSgemm after cublasSetStream without cublasSetWorkspace: it would allocate");
  else if (m < 0 || n < 0 || k < 0 || !inside(a, (size_t)(ta ? k : m), (size_t)(ta ? m : k), (size_t)lda) ||
           !inside(b, (size_t)(tb ? n : k), (size_t)(tb ? k : n), (size_t)ldb) || !inside(c, (size_t)m, (size_t)n, (size_t)ldc))
    status = refuse(invalid_value_, "cublasSgemm: a matrix is not inside its allocation");
  else {
    Product *p = new Product{ta != 0, tb != 0, m, n, k, lda, ldb, ldc, *alpha, *beta, a, b, c};
    if (sattn_stub_enqueue(h->stream, multiply, p, [](void *x) { delete (Product *)x; })) status = execution_failed;
  }
  h->busy = false;
  return status;
}
