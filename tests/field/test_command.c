/* The two subcommands as a user meets them: exit statuses, tables, JSON, images. Runs in a folder of its own: argv[1]. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "case.h"
#include "field.h"

enum { WORDS = 24, TEXT = 65536 };

static char out[TEXT], err[TEXT];

static void take_over(int stream, const char *file, int *saved) {
  fflush(stdout);
  fflush(stderr);
  const int to = open(file, O_RDWR | O_CREAT | O_TRUNC, 0666);
  assert_true(to >= 0);
  *saved = dup(stream);
  assert_true(*saved >= 0 && dup2(to, stream) == stream);
  close(to);
}

static void give_back(int stream, int saved, const char *file, char *text) {
  fflush(stdout);
  fflush(stderr);
  assert_true(dup2(saved, stream) == stream);
  close(saved);
  FILE *from = fopen(file, "rb");
  assert_non_null(from);
  text[fread(text, 1, TEXT - 1, from)] = '\0';
  fclose(from);
}

/* Runs a command line, split at blanks (`plot`, if any, is one more word), and keeps what it printed in out and err. */
static int run(const char *line, const char *plot) {
  char copy[512], *words[WORDS];
  int count = 0, saved[2];
  assert_true(strlen(line) < sizeof copy);
  strcpy(copy, line);
  for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) words[count++] = word;
  char option[] = "--plot", file[256];
  if (plot) {
    snprintf(file, sizeof file, "%s", plot);
    words[count++] = option;
    words[count++] = file;
  }
  take_over(STDOUT_FILENO, "out.txt", &saved[0]);
  take_over(STDERR_FILENO, "err.txt", &saved[1]);
  const int status = strcmp(words[0], "picture") == 0 ? sattn_tool_picture(count, words) : sattn_tool_field(count, words);
  give_back(STDERR_FILENO, saved[1], "err.txt", err);
  give_back(STDOUT_FILENO, saved[0], "out.txt", out);
  return status;
}

/* One JSON value, by a parser that builds nothing. Returns what follows it, or NULL. */
static const char *json_value(const char *at);

static const char *blanks(const char *at) {
  return at ? at + strspn(at, " \n") : NULL;
}

static const char *json_list(const char *at, char end) {
  at = blanks(at + 1);
  if (at && *at == end) return at + 1;
  for (;;) {
    if (end == '}') {
      if (!at || *at != '"') return NULL;
      at = blanks(json_value(at));
      if (!at || *at != ':') return NULL;
      at = blanks(at + 1);
    }
    at = at ? blanks(json_value(at)) : NULL;
    if (!at || (*at != ',' && *at != end)) return NULL;
    if (*at == end) return at + 1;
    at = blanks(at + 1);
  }
}

static const char *json_value(const char *at) {
  if (*at == '{') return json_list(at, '}');
  if (*at == '[') return json_list(at, ']');
  if (*at == '"') {
    at = strpbrk(at + 1, "\"\\");
    return at && *at == '"' ? at + 1 : NULL;
  }
  static const char *const words[] = {"true", "false", "null"};
  for (int w = 0; w < 3; w++) {
    if (strncmp(at, words[w], strlen(words[w])) == 0) return at + strlen(words[w]);
  }
  char *end = NULL;
  (void)strtod(at, &end);
  return end != at ? end : NULL;
}

static void assert_json(void) {
  const char *end = *out == '{' ? blanks(json_value(out)) : NULL;
  if (!end || *end) fail_msg("not JSON: %.200s", out);
}

static void tables_and_json(void **state) {
  (void)state;
  static const char *const lines[] = {"field --n 200 --window 8 --layers 3 --seeds 2",
                                      "field --n 200 --window 8 --mode swa --no-causal",
                                      "field --n 200 --window 8 --mode union --wrap --window-sa 4",
                                      "field --n 70000 --window 400 --layers 2 --seeds 1 --tokens 5 --no-causal",
                                      "field --measure pairs --n 100 --window 6 --seeds 50 --pairs 20",
                                      "field --measure spectrum --n 64 --window 5 --layers 2 --seeds 1",
                                      "field --measure approximation --n 24 --window 8 --seeds 3 --head-dim 4"};
  for (size_t k = 0; k < sizeof lines / sizeof lines[0]; k++) {
    char with_json[256];
    assert_int_equal(run(lines[k], NULL), 0);
    assert_true(strlen(out) > 200);
    assert_string_equal(err, ""); /* no progress bar where no terminal is */
    snprintf(with_json, sizeof with_json, "%s --json", lines[k]);
    assert_int_equal(run(with_json, NULL), 0);
    assert_json();
  }
  assert_int_equal(run("field --n 200 --window 8 --mode swa --json", NULL), 0);
  assert_non_null(strstr(out, "\"window_depth\": 29"));
  assert_non_null(strstr(out, "\"method\": \"formula\""));
}

static void small_world(void **state) {
  (void)state;
  const int status = run("field --measure small-world --n 200 --degree 8 --sources 10 --json", NULL);
  if (status == 0) {
    assert_json();
    assert_non_null(strstr(out, "\"sigma\""));
  } else {
    assert_int_equal(status, 1);
    assert_non_null(strstr(err, "igraph"));
    assert_string_equal(out, "");
  }
}

/* 2^27 tokens and 2^31 - 1 layers want 2^60 bytes, which no machine has. */
static void too_much_memory_is_a_refusal(void **state) {
  (void)state;
  assert_int_equal(run("field --n 134217728 --layers 2147483647 --tokens 1", NULL), 1);
  assert_non_null(strstr(err, "memory"));
}

static void wrong_usage(void **state) {
  (void)state;
  static const char *const lines[][2] = {{"field --n", "--n"},
                                         {"field --nn 4", "--nn"},
                                         {"field --n 1", "--n"},
                                         {"field --n 9999999999", "--n"},
                                         {"field --n 134217729", "--n"},
                                         {"field --layers 0", "--layers"},
                                         {"field --window -3", "--window"},
                                         {"field --mode moba", "--mode"},
                                         {"field --measure pairs --layers 2", "--layers"},
                                         {"field --measure small-world --degree 7", "--degree"},
                                         {"field --measure approximation --q a.npy", "--q"},
                                         {"picture", "--plot"},
                                         {"picture --n 300 --plot x.svg", "--n"},
                                         {"picture --json", "--json"}};
  for (size_t k = 0; k < sizeof lines / sizeof lines[0]; k++) {
    assert_int_equal(run(lines[k][0], NULL), 2);
    assert_int_equal(strncmp(err, "sattn: ", 7), 0);
    assert_non_null(strstr(err, lines[k][1]));
    assert_string_equal(out, "");
  }
  assert_int_equal(run("field --help", NULL), 0);
  assert_non_null(strstr(out, "--measure"));
  assert_int_equal(run("picture --help", NULL), 0);
  assert_null(strstr(out, "--measure"));
}

static int exists(const char *file) {
  return access(file, F_OK) == 0;
}

/* 1 where gnuplot drew the file, 0 where the tool said that it is not there. */
static int drawn(const char *line, const char *file) {
  remove(file);
  const int status = run(line, file);
  if (status == 0) return exists(file);
  assert_int_equal(status, 1);
  assert_non_null(strstr(err, "gnuplot"));
  assert_false(exists(file));
  return 0;
}

static void images(void **state) {
  (void)state;
  /* names that a shell, or gnuplot's own strings, would take apart */
  static const char *const names[] = {"picture.svg", "it's \"$HOME\" `id` %d.svg", "picture.png"};
  for (int k = 0; k < 3; k++) {
    if (!drawn("picture --n 12 --window 3", names[k])) continue;
    char head[8] = "";
    FILE *image = fopen(names[k], "rb");
    assert_non_null(image);
    assert_int_equal(fread(head, 1, 7, image), 7);
    fclose(image);
    assert_string_equal(head, k < 2 ? "<?xml v" : "\x89PNG\r\n\x1a");
  }
  drawn("field --n 100 --window 6 --layers 3 --seeds 1", "growth.svg");
  drawn("field --n 100 --window 6 --layers 20 --mode swa", "window.svg");
  drawn("field --measure pairs --n 60 --window 6 --seeds 20", "pairs.svg");
  drawn("field --measure spectrum --n 60 --window 6 --layers 2 --seeds 1", "spectrum.svg");
  drawn("field --measure approximation --n 40 --window 16 --seeds 3 --head-dim 4", "approximation.svg");
}

static void images_that_cannot_be(void **state) {
  (void)state;
  assert_int_equal(run("picture", "picture.txt"), 1);
  assert_non_null(strstr(err, ".svg"));
  assert_int_equal(run("picture", "no/such/folder/picture.svg"), 1);
  const char *path = getenv("PATH");
  char *kept = strdup(path ? path : "");
  assert_non_null(kept);
  remove("absent.svg");
  setenv("PATH", "/nonexistent", 1);
  assert_int_equal(run("picture", "absent.svg"), 1);
  setenv("PATH", kept, 1);
  free(kept);
  assert_non_null(strstr(err, "gnuplot"));
  assert_non_null(strstr(err, "not installed"));
  assert_false(exists("absent.svg"));
}

int main(int argc, char **argv) {
  if (argc != 2 || (mkdir(argv[1], 0777) != 0 && !exists(argv[1])) || chdir(argv[1]) != 0) {
    fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tables_and_json), cmocka_unit_test(small_world), cmocka_unit_test(too_much_memory_is_a_refusal),
      cmocka_unit_test(wrong_usage),     cmocka_unit_test(images),      cmocka_unit_test(images_that_cannot_be)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
