/* The table-driven option parser: every kind, every misuse. */
#include <options.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

typedef struct values {
  bool on, off, seen;
  const char *text;
  int64_t whole, side;
  uint64_t big;
  uint32_t small;
  double real;
  int choice;
  sattn_int64_list numbers;
  sattn_choice_list choices;
} values;

static bool read_words(values *v, int count, const char *const *words, bool *help, sattn_report *report) {
  static const char *const colours[] = {"red", "green", "blue", NULL};
  const sattn_option options[] = {{SATTN_OPTION_FLAG, "--on", NULL, &v->on, NULL, NULL, ""},
                                  {SATTN_OPTION_CLEAR, "--off", NULL, &v->off, NULL, NULL, ""},
                                  {SATTN_OPTION_TEXT, "--text", "F", &v->text, &v->seen, NULL, ""},
                                  {SATTN_OPTION_INT64, "--whole", "N", &v->whole, NULL, NULL, ""},
                                  {SATTN_OPTION_SIDE, "--side", "N", &v->side, NULL, NULL, ""},
                                  {SATTN_OPTION_UINT64, "--big", "N", &v->big, NULL, NULL, ""},
                                  {SATTN_OPTION_UINT32, "--small", "N", &v->small, NULL, NULL, ""},
                                  {SATTN_OPTION_REAL, "--real", "X", &v->real, NULL, NULL, ""},
                                  {SATTN_OPTION_CHOICE, "--choice", "C", &v->choice, NULL, colours, ""},
                                  {SATTN_OPTION_HEADING, NULL, NULL, NULL, NULL, NULL, "heading"},
                                  {SATTN_OPTION_INT64_LIST, "--numbers", "L", &v->numbers, NULL, NULL, ""},
                                  {SATTN_OPTION_CHOICE_LIST, "--choices", "L", &v->choices, NULL, colours, ""},
                                  {SATTN_OPTION_END, NULL, NULL, NULL, NULL, NULL, NULL}};
  char copies[16][64];
  char *argv[16];
  memset(v, 0, sizeof *v);
  v->off = true;
  for (int i = 0; i < count; i++) {
    strncpy(copies[i], words[i], sizeof copies[i] - 1);
    copies[i][sizeof copies[i] - 1] = '\0';
    argv[i] = copies[i];
  }
  bool fine = sattn_options_read(options, count, argv, help, report);
  if (v->text) v->text = strcmp(v->text, "a=b") == 0 ? "a=b" : "else"; /* the copies end here */
  return fine;
}

static void test_reads_every_kind(void **state) {
  static const char *const words[] = {
      "--on",    "--off",      "--text=a=b", "--whole", "-12",      "--side", "unbounded", "--big=18446744073709551615",
      "--small", "4294967295", "--real",     "-0.5e1",  "--choice", "blue"};
  static const char *const lists[] = {"--numbers", "3,-4,5", "--choices=green,red"};
  values v;
  bool help = true;
  sattn_report report = {0, ""};
  (void)state;
  assert_true(read_words(&v, 14, words, &help, &report));
  assert_false(help);
  assert_true(v.on);
  assert_false(v.off);
  assert_true(v.seen);
  assert_string_equal(v.text, "a=b");
  assert_int_equal(v.whole, -12);
  assert_true(v.side == SATTN_UNBOUNDED);
  assert_true(v.big == UINT64_MAX);
  assert_int_equal(v.small, UINT32_MAX);
  assert_true(v.real == -5.0);
  assert_int_equal(v.choice, 2);
  assert_true(read_words(&v, 3, lists, &help, &report));
  assert_int_equal(v.numbers.count, 3);
  assert_int_equal(v.numbers.values[1], -4);
  assert_int_equal(v.choices.count, 2);
  assert_int_equal(v.choices.values[0], 1);
  assert_int_equal(v.choices.values[1], 0);
}

static void test_refuses_misuse(void **state) {
  static const struct {
    const char *words[3];
    int count;
    const char *word;
  } misuses[] = {{{"--nothing"}, 1, "unknown option"},
                 {{"file.npy"}, 1, "unknown argument"},
                 {{"--on=yes"}, 1, "takes no value"},
                 {{"--text"}, 1, "needs a value"},
                 {{"--text", ""}, 2, "empty"},
                 {{"--on", "--on"}, 2, "twice"},
                 {{"--whole", "1.5"}, 2, "whole number"},
                 {{"--whole", " 1"}, 2, "whole number"},
                 {{"--whole", "1x"}, 2, "whole number"},
                 {{"--whole", "9223372036854775808"}, 2, "64 bits"},
                 {{"--side", "none"}, 2, "whole number"},
                 {{"--big", "-1"}, 2, "from 0"},
                 {{"--big", "18446744073709551616"}, 2, "from 0"},
                 {{"--small", "4294967296"}, 2, "from 0"},
                 {{"--real", "fast"}, 2, "number is needed"},
                 {{"--choice", "pink"}, 2, "red, green, blue"},
                 {{"--choice", "re"}, 2, "red, green, blue"},
                 {{"--numbers", "1,,2"}, 2, "whole number"},
                 {{"--choices", "red,red"}, 2, "twice"},
                 {{"--numbers", "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"}, 2, NULL}};
  (void)state;
  for (size_t i = 0; i < sizeof misuses / sizeof misuses[0]; i++) {
    values v;
    bool help = false;
    sattn_report report = {0, ""};
    bool fine = read_words(&v, misuses[i].count, misuses[i].words, &help, &report);
    if (!misuses[i].word) { /* a long list that still fits */
      assert_true(fine);
      continue;
    }
    assert_false(fine);
    assert_int_equal(report.exit_status, SATTN_EXIT_USAGE);
    if (!strstr(report.message, misuses[i].word)) fail_msg("'%s' lacks '%s'", report.message, misuses[i].word);
  }
}

static void test_help_stops_reading(void **state) {
  static const char *const words[] = {"--on", "--help", "--nonsense"};
  values v;
  bool help = false;
  sattn_report report = {0, ""};
  (void)state;
  assert_true(read_words(&v, 3, words, &help, &report));
  assert_true(help);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_reads_every_kind), cmocka_unit_test(test_refuses_misuse),
                                     cmocka_unit_test(test_help_stops_reading)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
