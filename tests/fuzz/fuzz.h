/* What every fuzzing program has: one entry, fed by libFuzzer (-DSATTN_FUZZ=ON, clang) or by standalone.c, which runs the files of a corpus
 * in any build.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the process with a sentence: what was found. */
void fuzz_found(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
