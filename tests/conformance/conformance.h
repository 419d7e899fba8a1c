/* The conformance suite: what the contract promises, asked of every backend and device through the public headers alone.
 *
 * A case is a function; its name says which promise it checks. Names such as P-S1 in comments number the faults of the field that the case
 * is made against.
 */
#ifndef CONFORMANCE_H
#define CONFORMANCE_H

#include <math.h>
#include <string.h>

#include "child.h"
#include "half.h"
#include "memory.h"
#include "oracle.h"
#include "run.h"
#include "suite.h"

typedef struct test_env {
  test_suite *suite;
  sattn_context *context;
  sattn_mode mode; /* of a case that runs once for every mode */
  test_random random;
} test_env;

typedef void (*test_case)(test_env *env);

#define MODE(mode) (1u << (mode))
#define MODES_ALL \
  (MODE(SATTN_FULL) | MODE(SATTN_SLIDING_WINDOW) | MODE(SATTN_STOCHASTIC) | MODE(SATTN_UNION) | MODE(SATTN_GATED) | MODE(SATTN_MOBA))
#define MODES_SA     (MODE(SATTN_STOCHASTIC) | MODE(SATTN_UNION) | MODE(SATTN_GATED))
#define MODES_WINDOW (MODE(SATTN_SLIDING_WINDOW) | MODES_SA)

/* Runs a case once, as `name`. */
void test_case_run(test_suite *suite, const char *name, test_case function);
/* Runs a case once for every mode of the set, as `name/mode`. */
void test_case_modes(test_suite *suite, const char *name, unsigned modes, test_case function);

/* fp32, and with `other` fp16 in the odd modes and bf16 in the even ones: programs of tuned kernels take seconds to compile on some
 * drivers, and across modes every kernel meets both. */
sattn_dtype test_case_dtype(const test_env *env, int other);

/* Runs the call; records a failure and returns 0 unless it succeeds with all guards in order. `label` tells calls of one case apart. */
int test_call_ok(test_env *env, const test_call *call, const char *label, test_result *out_result);

/* Runs the call and compares every output with the oracle. Returns 1 when all is right. */
int test_check_oracle(test_env *env, const test_call *call, const char *label);
/* Compares a result that is there already. */
int test_check_result(test_env *env, const test_call *call, const char *label, const test_result *result);

/* Every output of both, bit for bit. */
int test_check_same(test_env *env, const test_call *call, const char *label, const test_result *expected, const test_result *got);

/* Q = 0 and V = the identity (head_dim = keys): output rows hold 1/m on the m visible keys and exactly 0 elsewhere. Makes such a call. */
void test_probe_sets(test_call *call, sattn_mode mode, int64_t heads, int64_t n);
/* Runs a probe and compares what is read off with the oracle's sets. */
void test_check_sets(test_env *env, const test_call *call, const char *label);

/* Records a failure unless the status is `status` and the error names `argument` (a part of the name; "" matches any). */
void test_check_refusal(test_env *env, const char *label, sattn_status status, sattn_status expected, const sattn_error *error,
                        const char *argument);

/* One function a file. */
void cases_visible(test_suite *suite);
void cases_properties(test_suite *suite);
void cases_numerics(test_suite *suite);
void cases_decode(test_suite *suite);
void cases_shapes(test_suite *suite);
void cases_layouts(test_suite *suite);
void cases_far(test_suite *suite);
void cases_options(test_suite *suite);
void cases_repeat(test_suite *suite);
void cases_refusals(test_suite *suite);
void cases_support(test_suite *suite);
void cases_gradients(test_suite *suite);
void cases_gradients_field(test_suite *suite);
void cases_runtime(test_suite *suite);
void cases_rows(test_suite *suite);
void cases_host(test_suite *suite);
void cases_field(test_suite *suite);

extern const test_child runtime_children[];
extern const test_exception conformance_exceptions[];

#endif
