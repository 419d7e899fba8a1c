/* The parts of `sattn selftest`. */
#ifndef SATTN_TOOL_SELFTEST_H
#define SATTN_TOOL_SELFTEST_H

#include "report.h"

/* ---- known answers, written down beforehand ---- */

/* Draws known permutations; returns how many of *out_count come out right. */
int sattn_selftest_permutations(int *out_count, sattn_report *report);

typedef enum sattn_selftest_result {
  SATTN_SELFTEST_RIGHT,
  SATTN_SELFTEST_WRONG,
  SATTN_SELFTEST_UNSUPPORTED,
  SATTN_SELFTEST_FAILED
} sattn_selftest_result;

/* The worked example of the contract: six tokens, Q = 0, V[j] = j, so that each output is the mean of the visible tokens. */
int sattn_selftest_example_count(void);
const char *sattn_selftest_example_name(int index);
/* *out_error is the largest error; a failed or unsupported call leaves its message in report. */
sattn_selftest_result sattn_selftest_example(int index, sattn_context *context, double *out_error, sattn_report *report);

/* ---- random problems, compared with the reference ---- */

typedef struct sattn_selftest_answer {
  float *values[8]; /* outputs, then gradients; NULL where the problem has none */
  uint64_t counts[8];
} sattn_selftest_answer;

int sattn_selftest_problem_count(void);
const char *sattn_selftest_problem_name(int index);
sattn_selftest_result sattn_selftest_problem(int index, sattn_context *context, sattn_selftest_answer *out_answer, sattn_report *report);
/* Largest difference of two answers, as a share of what is allowed for the problem: up to 1 is right. */
double sattn_selftest_compare(int index, const sattn_selftest_answer *a, const sattn_selftest_answer *b);
void sattn_selftest_answer_free(sattn_selftest_answer *answer);

#endif
