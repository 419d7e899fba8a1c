/* The stub of cuBLAS: products in all four orientations, lazy, and its traps. */
#include "cuda_calls.h"
#include "stub.h"

#include <stdint.h>
#include <stdio.h>

int cublasCreate_v2(void **handle);
int cublasDestroy_v2(void *handle);
int cublasSetStream_v2(void *handle, void *stream);
int cublasSetWorkspace_v2(void *handle, void *workspace, size_t bytes);
int cublasSgemm_v2(void *handle, int ta, int tb, int m, int n, int k, const float *alpha, const float *a, int lda, const float *b, int ldb,
                   const float *beta, float *c, int ldc);

static int passed, failed;
static void check(int ok, const char *what) {
  if (ok) {
    ++passed;
    return;
  }
  ++failed;
  printf("FAIL %s\n", what);
}

enum { m = 3, n = 4, k = 5, bytes = 64 * 4 };

static void products(void *blas, CUstream stream, CUdeviceptr *p) {
  const float alpha = 2, beta = 1;
  float a[64], b[64], c[64], got[64];
  for (int i = 0; i < 64; ++i) a[i] = (float)(i % 7 - 3), b[i] = (float)(i % 5 - 2), c[i] = (float)i;
  for (int t = 0; t < 4; ++t) {
    const int ta = t & 1, tb = t >> 1, lda = ta ? k : m, ldb = tb ? n : k;
    int ok = !cuMemcpyHtoD(p[0], a, bytes) && !cuMemcpyHtoD(p[1], b, bytes) && !cuMemcpyHtoD(p[2], c, bytes);
    ok &= !cublasSgemm_v2(blas, ta, tb, m, n, k, &alpha, (float *)(uintptr_t)p[0], lda, (float *)(uintptr_t)p[1], ldb, &beta,
                          (float *)(uintptr_t)p[2], m);
    ok &= !cuMemcpyDtoH(got, p[2], bytes) && got[0] == c[0] && got[5] == c[5]; /* not yet */
    ok &= !cuStreamSynchronize(stream) && !cuMemcpyDtoH(got, p[2], bytes);
    for (int j = 0; j < n; ++j)
      for (int i = 0; i < m; ++i) {
        float sum = 0;
        for (int l = 0; l < k; ++l) sum += (ta ? a[l + i * lda] : a[i + l * lda]) * (tb ? b[j + l * ldb] : b[l + j * ldb]);
        ok &= got[i + j * m] == alpha * sum + c[i + j * m];
      }
    check(ok, "product");
  }
}

int main(void) {
  CUcontext context;
  CUstream stream;
  CUdeviceptr p[4];
  void *blas;
  const float one = 1;
  sattn_stub_stats s;
  check(cuInit(0) == 0 && cublasCreate_v2(&blas) != 0, "no context");
  check(!cuDevicePrimaryCtxRetain(&context, 0) && !cuCtxPushCurrent(context) && !cuStreamCreate(&stream, 1), "context");
  for (int i = 0; i < 4; ++i) check(!cuMemAlloc(&p[i], bytes), "memory");
  check(!cublasCreate_v2(&blas) && !cublasSetWorkspace_v2(blas, (void *)(uintptr_t)p[3], bytes), "handle");
  check(!cublasSetStream_v2(blas, stream), "stream");
  check(cublasSgemm_v2(blas, 0, 0, 1, 1, 1, &one, (float *)(uintptr_t)p[0], 1, (float *)(uintptr_t)p[1], 1, &one, (float *)(uintptr_t)p[2],
                       1) != 0,
        "the workspace went with the stream");
  check(!cublasSetWorkspace_v2(blas, (void *)(uintptr_t)p[3], bytes), "workspace");
  check(cublasSetWorkspace_v2(blas, (void *)(uintptr_t)p[3], bytes + 4) != 0, "workspace too large");
  check(cublasSgemm_v2(blas, 0, 0, 65, 1, 1, &one, (float *)(uintptr_t)p[0], 65, (float *)(uintptr_t)p[1], 1, &one,
                       (float *)(uintptr_t)p[2], 65) != 0,
        "a matrix over its end");
  products(blas, stream, p);
  check(!cublasDestroy_v2(blas), "destroy");
  for (int i = 0; i < 4; ++i) check(!cuMemFree(p[i]), "free");
  check(!cuStreamDestroy(stream) && !cuCtxPopCurrent(NULL) && !cuDevicePrimaryCtxRelease(0), "release");
  sattn_stub_get_stats(&s);
  check(!s.allocations && !s.orphans, "nothing left");
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
