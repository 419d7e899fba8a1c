/* What the tests of failing drivers and failing memory share. */
#ifndef FAULTS_H
#define FAULTS_H

#include <sattn/sattn.h>

#include "memory.h"
#include "run.h"

extern int faults_failures;

void faults_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A call that uses many options, forward and backward. */
void faults_call(test_call *call, sattn_mode mode, int64_t head_dim);

/* Makes a context (unless given), runs the call, gives everything back. After a failure of a forward call nothing may have been written:
 * *out_written is then NULL or a sentence, and out_result what was written once the queue was finished. */
sattn_status faults_run(sattn_context *context, const char *device, const test_call *call, test_result *out_result,
                        const char **out_written, sattn_error *error);

/* Records a failure unless both have the same bits. */
void faults_same(const test_call *call, const test_result *expected, const test_result *got, const char *what);

int faults_report(const char *program);

#endif
