/* A program of somebody else, in C and in C++: the installed headers and library alone must do. Prints the version and one sum of attention
 * over equal values, which must be that value. */
#include <sattn/sattn.h>
#ifdef CONSUMER_OPENCL
#include <sattn/opencl.h>
#endif
#include <stdio.h>
#include <string.h>

enum { TOKENS = 32, HEAD_DIM = 8 };

int main(int count, char **arguments) {
  static float query[TOKENS * HEAD_DIM], key[TOKENS * HEAD_DIM], value[TOKENS * HEAD_DIM], out[TOKENS * HEAD_DIM];
  sattn_host_call call;
  sattn_error error;
  int i;
  for (i = 0; i < TOKENS * HEAD_DIM; i++) {
    query[i] = (float)(i % 7);
    key[i] = (float)(i % 5);
    value[i] = 3;
  }
  sattn_host_call_init(&call);
  call.device_id = count > 1 ? arguments[1] : "reference";
  call.attention.mode = SATTN_STOCHASTIC;
  call.attention.heads = 1;
  call.attention.head_dim = HEAD_DIM;
  call.attention.window_sa = sattn_window_width(4);
  call.batch = 1;
  call.queries = call.keys = TOKENS;
  call.query.data = query;
  call.key.data = key;
  call.value.data = value;
  call.out.data = out;
  if (sattn_attention_host(&call, &error) != SATTN_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  for (i = 0; i < TOKENS * HEAD_DIM; i++) {
    if (!(out[i] > 2.999f && out[i] < 3.001f)) {
      fprintf(stderr, "out[%d] is %g\n", i, (double)out[i]);
      return 1;
    }
  }
#ifdef CONSUMER_OPENCL
  if (sattn_context_opencl(NULL) != NULL) return 1;
#endif
  if (sattn_version() != SATTN_VERSION || strlen(sattn_version_string()) < 5) return 1;
  printf("sattn %s works\n", sattn_version_string());
  return 0;
}
