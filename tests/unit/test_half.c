/* Both half types over all their 65536 patterns, against their definition in double arithmetic. */
#include <math.h>

#include "unit.h"

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

typedef struct format {
  int exponent_bits, mantissa_bits;
  float (*widen)(uint16_t);
  uint16_t (*narrow)(float);
} format;

static const format fp16 = {5, 10, sattn_fp16_to_float, sattn_fp16_from_float};
static const format bf16 = {8, 7, sattn_bf16_to_float, sattn_bf16_from_float};

/* The number that a pattern stands for, from the definition; infinities and NaN are told apart by the caller. */
static double value_of(const format *f, uint32_t pattern) {
  int bias = (1 << (f->exponent_bits - 1)) - 1;
  int exponent = (int)((pattern >> f->mantissa_bits) & ((1u << f->exponent_bits) - 1u));
  double mantissa = (double)(pattern & ((1u << f->mantissa_bits) - 1u));
  double scaled = exponent == 0 ? ldexp(mantissa, 1 - bias - f->mantissa_bits)
                                : ldexp(mantissa + (double)(1 << f->mantissa_bits), exponent - bias - f->mantissa_bits);
  return (pattern & 0x8000u) != 0 ? -scaled : scaled;
}

static uint32_t infinity_of(const format *f) {
  return ((1u << f->exponent_bits) - 1u) << f->mantissa_bits;
}

static void check_patterns(const format *f) {
  for (uint32_t pattern = 0; pattern <= 0xffffu; ++pattern) {
    float wide = f->widen((uint16_t)pattern);
    uint32_t magnitude = pattern & 0x7fffu;
    if (magnitude > infinity_of(f)) {
      assert_true(isnan(wide));
      uint16_t back = f->narrow(wide);
      assert_true((back & 0x7fffu) > infinity_of(f));
      assert_int_equal(back & 0x8000u, pattern & 0x8000u);
      continue;
    }
    if (magnitude == infinity_of(f)) {
      assert_true(isinf(wide));
    } else {
      assert_true((double)wide == value_of(f, pattern));
    }
    assert_int_equal(bits_of(wide) >> 31, pattern >> 15);
    assert_int_equal(f->narrow(wide), pattern);
  }
}

/* Between two neighbours: exactly the middle goes to the even one, the floats next to the middle to the nearer one. The number above the
 * largest finite pattern is what the format would hold there with one more exponent. */
static void check_rounding(const format *f) {
  for (uint32_t low = 0; low < infinity_of(f); ++low) {
    uint32_t high = low + 1;
    double above = high == infinity_of(f) ? value_of(f, low) * 2 - value_of(f, low - 1) : value_of(f, high);
    double middle = (value_of(f, low) + above) / 2;
    float at = (float)middle;
    if (isinf(at) || (double)at != middle)
      continue; /* the middle of the smallest bf16 subnormals is a float as well: never skipped there */
    uint32_t even = (low & 1u) == 0 ? low : high;
    for (uint32_t sign = 0; sign <= 0x8000u; sign += 0x8000u) {
      float signed_at = sign != 0 ? -at : at;
      assert_int_equal(f->narrow(signed_at), sign | even);
      assert_int_equal(f->narrow(float_of(bits_of(signed_at) + 1)), sign | high);
      assert_int_equal(f->narrow(float_of(bits_of(signed_at) - 1)), sign | low);
    }
  }
}

static void fp16_patterns(void **state) {
  (void)state;
  check_patterns(&fp16);
}
static void bf16_patterns(void **state) {
  (void)state;
  check_patterns(&bf16);
}
static void fp16_rounding(void **state) {
  (void)state;
  check_rounding(&fp16);
}
static void bf16_rounding(void **state) {
  (void)state;
  check_rounding(&bf16);
}

static void known_values(void **state) {
  (void)state;
  assert_int_equal(sattn_fp16_from_float(1.0f), 0x3c00);
  assert_int_equal(sattn_fp16_from_float(-2.0f), 0xc000);
  assert_int_equal(sattn_fp16_from_float(65504.0f), 0x7bff);
  assert_int_equal(sattn_fp16_from_float(65519.996f), 0x7bff);
  assert_int_equal(sattn_fp16_from_float(65520.0f), 0x7c00);
  assert_int_equal(sattn_fp16_from_float(INFINITY), 0x7c00);
  assert_int_equal(sattn_fp16_from_float(-INFINITY), 0xfc00);
  assert_int_equal(sattn_fp16_from_float(0x1p-24f), 0x0001);
  assert_int_equal(sattn_fp16_from_float(0x1p-25f), 0x0000);
  assert_int_equal(sattn_fp16_from_float(0x1.000002p-25f), 0x0001);
  assert_int_equal(sattn_fp16_from_float(-0x1p-149f), 0x8000);
  assert_int_equal(sattn_fp16_from_float(0.1f), 0x2e66);
  assert_int_equal(sattn_bf16_from_float(1.0f), 0x3f80);
  assert_int_equal(sattn_bf16_from_float(3.4028235e38f), 0x7f80);
  assert_int_equal(sattn_bf16_from_float(0.1f), 0x3dcd);
  assert_true(isnan(sattn_fp16_to_float(sattn_fp16_from_float(NAN))));
  assert_true(isnan(sattn_bf16_to_float(sattn_bf16_from_float(NAN))));
  /* NaN whose payload sits only in bits that are dropped must not become infinity. */
  assert_int_equal(sattn_fp16_from_float(float_of(0x7f800001u)) & 0x7fff, 0x7e00);
  assert_int_equal(sattn_bf16_from_float(float_of(0xff800001u)), 0xffc0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(fp16_patterns), cmocka_unit_test(bf16_patterns), cmocka_unit_test(fp16_rounding),
    cmocka_unit_test(bf16_rounding), cmocka_unit_test(known_values),
};
UNIT_MAIN(tests)
