/* Devices and kernels that problems run on, and the verdict. */
#ifndef TORTURE_JUDGE_H
#define TORTURE_JUDGE_H

#include "oracle.h"
#include "problem.h"

#define TORTURE_TARGETS 16

/* A context: one device, one family of kernels. */
typedef struct torture_target {
  sattn_context *context;
  const char *family; /* "auto", "cpu", "gpu", "general" */
  long problems;
} torture_target;

typedef struct torture_judge {
  double tolerance; /* factor on what the contract allows; 1 */
  int fault;        /* 1: results are falsified where a problem has grouped heads and five keys or more, to see that it is found */
  torture_target targets[TORTURE_TARGETS];
  int count;
} torture_judge;

/* Opens every device of the backends with each of the families; both lists are comma-separated. The reference comes first and has one
 * family. Returns 0, or -1 after a message. */
int torture_judge_open(torture_judge *judge, const char *backends, const char *families);
void torture_judge_close(torture_judge *judge);

/* Runs the problem on one target against the oracle. Returns 1 and a sentence in `report` when it is wrong. Releases test_memory. */
int torture_judge_run(torture_judge *judge, int target, torture_problem *problem, char *report, size_t capacity);

/* The answer, with NaN where none is defined: rows that see garbage, and what they add to. */
void torture_expected(const torture_problem *problem, const test_call *tame, test_oracle_result *exact, double tolerance[TEST_OUTPUTS]);

#endif
