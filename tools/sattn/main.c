/* sattn: Stochastic Attention from the command line. Dispatches to one function per subcommand and prints the one error there may be. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"

static const struct {
  const char *name;
  bool (*run)(int argc, char **argv, sattn_report *report);
  const char *summary;
} COMMANDS[] = {
    {"info", sattn_command_info, "versions, backends, devices, and the programs in the cache"},
    {"selftest", sattn_command_selftest, "known answers on every device present, with a verdict for bug reports"},
    {"attend", sattn_command_attend, "one attention call on .npy files, forward and backward"},
    {"compare", sattn_command_compare, "stochastic, sliding-window and full attention side by side on .npy files"},
    {"permute", sattn_command_permute, "draws the order of tokens and writes it as .npy"},
    {"bench", sattn_command_bench, "times modes against each other on one device"},
    {"field", sattn_command_field, "receptive field over layers, coverage depth, small-world figures"},
    {"picture", sattn_command_picture, "who sees whom, as an image"},
};
enum { COMMAND_COUNT = sizeof COMMANDS / sizeof COMMANDS[0] };

static void print_help(void) {
  printf(
      "usage: sattn SUBCOMMAND [OPTION]...\n       sattn SUBCOMMAND --help\n       sattn --version\n\nStochastic Attention, version "
      "%s.\n\n",
      sattn_version_string());
  for (int i = 0; i < COMMAND_COUNT; i++) printf("  %-10s %s\n", COMMANDS[i].name, COMMANDS[i].summary);
  printf(
      "\nExit status: 0 done, 1 the library or a device refused or failed, 2 wrong usage.\n"
      "Environment: SATTN_DEVICE names the default device, SATTN_TRACE=all tells what is chosen and why,\n"
      "SATTN_CACHE_DIR is the folder of compiled programs.\n");
}

/* A full disk or a closed pipe shows only when standard output is flushed. */
static bool finish_output(sattn_report *report) {
  if (fflush(stdout) == 0 && !ferror(stdout)) return true;
  return sattn_tool_refuse(report, "standard output cannot be written");
}

static bool run(int argc, char **argv, sattn_report *report) {
  if (argc < 2) return sattn_tool_misuse(report, "a subcommand is needed; sattn --help shows what there is");
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
    print_help();
    return true;
  }
  if (strcmp(argv[1], "--version") == 0) {
    printf("sattn %s\n", sattn_version_string());
    return true;
  }
  for (int i = 0; i < COMMAND_COUNT; i++)
    if (strcmp(argv[1], COMMANDS[i].name) == 0) return COMMANDS[i].run(argc - 2, argv + 2, report);
  return sattn_tool_misuse(report, "%s: unknown subcommand; sattn --help shows what there is", argv[1]);
}

int main(int argc, char **argv) {
  sattn_report report = {SATTN_EXIT_DONE, ""};
  /* A limit on the size of files is a full disk like any other: the write fails, and what was begun is removed. */
  signal(SIGXFSZ, SIG_IGN);
  if (run(argc, argv, &report) && finish_output(&report)) return SATTN_EXIT_DONE;
  fflush(stdout);
  if (report.message[0]) fprintf(stderr, "sattn: %s\n", report.message);
  return report.exit_status;
}
