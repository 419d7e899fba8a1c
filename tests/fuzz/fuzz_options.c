/* The option parser, by way of `sattn attend` and `sattn bench`: any words are either taken or refused with a sentence. Input: words that
 * end in a newline or a zero byte; the first byte chooses the subcommand. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attend.h"
#include "bench.h"
#include "fuzz.h"

#define WORDS 64

static void silence(void) {
  static int done;
  if (done) return;
  done = 1;
  if (!freopen("/dev/null", "w", stdout)) fuzz_found("no /dev/null");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *words[WORDS];
  int count = 0;
  bool help = false;
  sattn_report report = {SATTN_EXIT_DONE, ""};
  if (size == 0) return 0;
  silence();
  char *text = malloc(size);
  if (!text) return 0;
  memcpy(text, data + 1, size - 1);
  text[size - 1] = '\0';
  for (char *at = text, *end = text + size - 1; at < end && count < WORDS; at += strlen(at) + 1) {
    char *line = strchr(at, '\n');
    if (line) *line = '\0';
    words[count++] = at;
  }
  bool fine;
  if (data[0] % 2) {
    sattn_bench bench;
    memset(&bench, 0, sizeof bench);
    fine = sattn_bench_read_options(&bench, count, words, &help, &report);
  } else {
    sattn_attend attend;
    memset(&attend, 0, sizeof attend);
    fine = sattn_attend_read_options(&attend, count, words, &help, &report);
  }
  if (!fine && (report.exit_status == SATTN_EXIT_DONE || !report.message[0])) fuzz_found("refused without a sentence");
  if (fine && report.message[0]) fuzz_found("taken, with a sentence: %s", report.message);
  free(text);
  return 0;
}
