/* Storage formats, written from their definitions and apart from the library's own conversions, so that the two check each other. */
#ifndef TEST_HALF_H
#define TEST_HALF_H

#include <sattn/attention.h>

/* Bits of the storage value nearest to `value`, ties to even; fp32 in all 32 bits, the half types in the low 16. */
uint32_t test_encode(sattn_dtype dtype, double value);
double test_decode(sattn_dtype dtype, uint32_t bits);

/* The value after storage. */
double test_round(sattn_dtype dtype, double value);

/* Half a unit in the last place, relative: 2^-24, 2^-11, 2^-8. */
double test_epsilon(sattn_dtype dtype);

/* Arrays: `count` values to and from storage. */
void test_store(sattn_dtype dtype, const float *values, size_t count, void *storage);
void test_load(sattn_dtype dtype, const void *storage, size_t count, float *values);

#endif
