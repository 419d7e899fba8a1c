/* Formulas against complete enumeration. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bounds.h"
#include "case.h"
#include "moments.h"
#include "pairs.h"
#include "spectrum.h"

static uint64_t seed;

/* NaN never passes. */
static int near(double a, double b, double tolerance) {
  return fabs(a - b) <= tolerance;
}

/* The next order in lexicographic sequence; 0 after the last. */
static int next_order(uint32_t *order, int n) {
  int k = n - 2;
  while (k >= 0 && order[k] > order[k + 1]) k--;
  if (k < 0) return 0;
  int m = n - 1;
  while (order[m] < order[k]) m--;
  uint32_t swap = order[k];
  order[k] = order[m];
  order[m] = swap;
  for (int a = k + 1, b = n - 1; a < b; a++, b--) {
    swap = order[a];
    order[a] = order[b];
    order[b] = swap;
  }
  return 1;
}

static void pair_law_over_all_orders(void **state) {
  (void)state;
  for (int n = 2; n <= 6; n++) {
    for (uint32_t left = 0; left < (uint32_t)n; left++) {
      for (uint32_t right = 0; right < (uint32_t)n; right++) {
        for (int wrap = 0; wrap < 2; wrap++) {
          const sattn_field_pattern pattern = {.n = (uint32_t)n, .wrap = wrap, .sa = {true, left, right}};
          uint32_t order[6], slot[6];
          int orders = 0, visible = 0;
          for (int s = 0; s < n; s++) order[s] = (uint32_t)s;
          do {
            for (int s = 0; s < n; s++) slot[order[s]] = (uint32_t)s;
            visible += sattn_field_sees_sa(&pattern, slot, 0, (uint32_t)n - 1);
            orders++;
          } while (next_order(order, n));
          assert_true(near(sattn_field_pair_probability((uint32_t)n, left, right, wrap), (double)visible / orders, 1e-12));
        }
      }
    }
  }
}

static void measured_pairs_follow_the_law(void **state) {
  (void)state;
  for (int wrap = 0; wrap < 2; wrap++) {
    const sattn_field_settings settings = {.n = 200, .window_sa = 12, .seeds = 1500, .seed = seed, .pairs = 60, .wrap = wrap};
    sattn_field_pairs_result result;
    assert_int_equal(sattn_field_pairs_compute(&settings, &result, NULL), SATTN_OK);
    const sattn_field_pair_account *const accounts[2] = {&result.two_way, &result.causal};
    for (int a = 0; a < 2; a++) {
      /* six standard errors; a law that is off by its own boundary term (1/n) is off by more */
      assert_true(near(accounts[a]->frequency, accounts[a]->probability, 6 * accounts[a]->sampling_error));
      assert_true(near(accounts[a]->chi_square, 60, 6 * sqrt(2 * 60.0)));
      assert_int_equal(accounts[a]->total_min, accounts[a]->total_max);
    }
    if (!wrap) assert_int_equal(result.causal.total_min, result.causal_swa_total);
    sattn_field_pairs_free(&result);
  }
}

static void depths_and_bounds(void **state) {
  (void)state;
  for (uint32_t degree = 2; degree < 9; degree++) {
    for (uint32_t n = 2; n < 1000; n++) {
      const uint32_t depth = sattn_field_tree_depth(degree, n);
      assert_true(sattn_field_tree_bound(degree, depth, n) == n);
      assert_true(depth == 1 || sattn_field_tree_bound(degree, depth - 1, n) < n);
    }
  }
  assert_int_equal(sattn_field_tree_depth(1, 2), 0);
  assert_int_equal(sattn_field_tree_depth(1, 1), 1);
}

/* The first layer of the prediction is exact, whatever the order. test_reach.c holds the later ones against measurements. */
static void expected_growth(void **state) {
  (void)state;
  for (int causal = 0; causal < 2; causal++) {
    const sattn_field_pattern pattern = field_pattern(SATTN_STOCHASTIC, 50, 6, causal, false);
    double mean[40];
    assert_int_equal(sattn_field_expected_growth(&pattern, 40, mean, NULL), SATTN_OK);
    uint32_t order[50];
    for (uint32_t s = 0; s < 50; s++) order[s] = s;
    assert_true(near(mean[0], (double)sattn_field_count_visible(&pattern, order) / 50, 1e-9));
    for (int l = 1; l < 40; l++) assert_true(mean[l] >= mean[l - 1] && mean[l] <= (causal ? 25.5 : 50) + 1e-9);
  }
}

static void constants_survive_and_layers_are_stochastic(void **state) {
  (void)state;
  enum { N = 30 };
  sattn_field_orders orders;
  assert_int_equal(sattn_field_orders_make(N, 3, seed, &orders, NULL), SATTN_OK);
  for (int kind = 0; kind < SATTN_FIELD_STACKS; kind++) {
    for (uint32_t width = 1; width <= N; width++) {
      const sattn_field_stack stack = {(sattn_field_stack_kind)kind, N, width, 3, &orders};
      double one[N], image[N], back[N], a[N], b[N], scratch[2 * N + 1];
      for (int i = 0; i < N; i++) one[i] = 1.0;
      sattn_field_stack_apply(&stack, 0, one, image, scratch);
      sattn_field_stack_apply(&stack, 1, one, back, scratch);
      double left = 0.0, right = 0.0;
      for (int i = 0; i < N; i++) {
        assert_true(near(image[i], 1.0, 1e-12) && near(back[i], 1.0, 1e-12));
        a[i] = sattn_field_uniform(seed, 1, (uint64_t)i);
        b[i] = sattn_field_uniform(seed, 2, (uint64_t)i);
      }
      /* <a, M b> = <M^T a, b> */
      sattn_field_stack_apply(&stack, 0, b, image, scratch);
      sattn_field_stack_apply(&stack, 1, a, back, scratch);
      for (int i = 0; i < N; i++) {
        left += a[i] * image[i];
        right += back[i] * b[i];
      }
      assert_true(near(left, right, 1e-12));
    }
  }
  sattn_field_orders_free(&orders);
}

/* One SA layer as a matrix, by the definition of who sees whom. */
static void a_layer_is_the_average_of_what_is_seen(void **state) {
  (void)state;
  enum { N = 17 };
  sattn_field_orders orders;
  assert_int_equal(sattn_field_orders_make(N, 1, seed, &orders, NULL), SATTN_OK);
  for (int64_t width = 1; width <= N; width++) {
    const sattn_field_pattern pattern = field_pattern(SATTN_STOCHASTIC, N, width, false, true);
    const sattn_field_stack stack = {SATTN_FIELD_STACK_SA, N, (uint32_t)width, 1, &orders};
    double x[N], image[N], scratch[2 * N + 1];
    for (int i = 0; i < N; i++) x[i] = sattn_field_uniform(seed, 3, (uint64_t)i);
    sattn_field_stack_apply(&stack, 0, x, image, scratch);
    for (uint32_t i = 0; i < N; i++) {
      double sum = 0.0;
      for (uint32_t j = 0; j < N; j++) sum += sattn_field_sees_sa(&pattern, orders.slot, i, j) ? x[j] : 0.0;
      assert_true(near(image[i], sum / (double)width, 1e-12));
    }
  }
  sattn_field_orders_free(&orders);
}

/* sigma of a product by brute force: power iteration on the dense matrix, long enough for so few tokens. */
static double dense_sigma(const sattn_field_stack *stack) {
  enum { N = 24, ROUNDS = 20000 };
  double x[N], y[N], scratch[2 * N + 1], square = 0.0;
  for (int i = 0; i < N; i++) x[i] = sattn_field_uniform(seed, 4, (uint64_t)i);
  for (int round = 0; round < ROUNDS; round++) {
    double mean = 0.0, norm = 0.0;
    for (int i = 0; i < N; i++) mean += x[i] / N;
    for (int i = 0; i < N; i++) x[i] -= mean;
    for (int i = 0; i < N; i++) norm += x[i] * x[i];
    for (int i = 0; i < N; i++) x[i] /= sqrt(norm);
    square = sqrt(norm);
    sattn_field_stack_apply(stack, 0, x, y, scratch);
    sattn_field_stack_apply(stack, 1, y, x, scratch);
  }
  return sqrt(square);
}

static void sigma_is_the_second_singular_value(void **state) {
  (void)state;
  sattn_field_orders orders;
  assert_int_equal(sattn_field_orders_make(24, 3, seed, &orders, NULL), SATTN_OK);
  for (int kind = 0; kind < SATTN_FIELD_STACKS; kind++) {
    for (uint32_t layers = 1; layers <= 3; layers++) {
      const sattn_field_stack stack = {(sattn_field_stack_kind)kind, 24, 5, layers, &orders};
      double sigma = 0.0, typical = 0.0;
      assert_int_equal(sattn_field_stack_sigma(&stack, seed, &sigma, &typical, NULL), SATTN_OK);
      assert_true(near(sigma, dense_sigma(&stack), 1e-7));
      assert_true(typical <= sigma * (1 + 1e-9));
      if (kind == SATTN_FIELD_STACK_SWA || layers == 1) {
        const double one = sattn_field_circle_eigenvalue(24, 5);
        if (kind != SATTN_FIELD_STACK_GATED) assert_true(near(sigma, pow(one, layers), 1e-9));
      }
    }
  }
  sattn_field_orders_free(&orders);
}

/* E |P x|^2 / |x|^2 = (n/w - 1) / (n - 1) over all orders, for any x without constant part. */
static void typical_shrinking_over_all_orders(void **state) {
  (void)state;
  enum { N = 6 };
  static const double x[N] = {3, -1, 2, -5, 0.5, 0.5};
  uint32_t order[N] = {0, 1, 2, 3, 4, 5}, slot[N];
  for (uint32_t width = 1; width <= N; width++) {
    double sum = 0.0, norm = 0.0;
    int count = 0;
    for (uint32_t s = 0; s < N; s++) order[s] = s;
    for (int i = 0; i < N; i++) norm += x[i] * x[i];
    do {
      const sattn_field_orders orders = {N, 1, order, slot};
      const sattn_field_stack stack = {SATTN_FIELD_STACK_SA, N, width, 1, &orders};
      double image[N], scratch[2 * N + 1];
      sattn_field_stack_apply(&stack, 0, x, image, scratch);
      for (int i = 0; i < N; i++) sum += image[i] * image[i];
      count++;
    } while (next_order(order, N));
    assert_true(near(sum / count / norm, ((double)N / width - 1) / (N - 1.0), 1e-12));
  }
}

static void moments_are_mean_and_spread(void **state) {
  (void)state;
  sattn_field_moments moments = {0};
  static const double values[] = {1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16};
  for (int k = 0; k < 4; k++) sattn_field_moments_add(&moments, values[k]);
  assert_true(near(moments.mean, 1e9 + 10, 1e-6));
  assert_true(near(sattn_field_deviation(&moments), sqrt(30.0), 1e-6));
  assert_true(moments.min == 1e9 + 4 && moments.max == 1e9 + 16);
}

int main(int argc, char **argv) {
  (void)argc;
  seed = field_test_seed(argv[0]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(pair_law_over_all_orders),
                                     cmocka_unit_test(measured_pairs_follow_the_law),
                                     cmocka_unit_test(depths_and_bounds),
                                     cmocka_unit_test(expected_growth),
                                     cmocka_unit_test(constants_survive_and_layers_are_stochastic),
                                     cmocka_unit_test(a_layer_is_the_average_of_what_is_seen),
                                     cmocka_unit_test(sigma_is_the_second_singular_value),
                                     cmocka_unit_test(typical_shrinking_over_all_orders),
                                     cmocka_unit_test(moments_are_mean_and_spread)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
