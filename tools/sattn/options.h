/* Command-line options from a table: one line of the table is one option, its type, where its value goes, and its help. */
#ifndef SATTN_TOOL_OPTIONS_H
#define SATTN_TOOL_OPTIONS_H

#include "report.h"

typedef enum sattn_option_kind {
  SATTN_OPTION_END = 0,
  SATTN_OPTION_HEADING, /* a line of the help only: `help` is the text */
  SATTN_OPTION_FLAG,    /* bool, becomes true */
  SATTN_OPTION_CLEAR,   /* bool, becomes false */
  SATTN_OPTION_TEXT,    /* const char *, borrowed from argv */
  SATTN_OPTION_INT64,   /* int64_t; negative values pass, the library refuses them by name */
  SATTN_OPTION_SIDE,    /* int64_t: a count, or the word `unbounded` */
  SATTN_OPTION_UINT64,
  SATTN_OPTION_UINT32,
  SATTN_OPTION_REAL,       /* double */
  SATTN_OPTION_CHOICE,     /* int: position in the NULL-ended list `choices` */
  SATTN_OPTION_INT64_LIST, /* sattn_int64_list, comma-separated */
  SATTN_OPTION_CHOICE_LIST /* sattn_choice_list, comma-separated words of `choices`; no word twice */
} sattn_option_kind;

enum { SATTN_LIST_CAPACITY = 32 };

typedef struct sattn_int64_list {
  int count;
  int64_t values[SATTN_LIST_CAPACITY];
} sattn_int64_list;

typedef struct sattn_choice_list {
  int count;
  int values[SATTN_LIST_CAPACITY];
} sattn_choice_list;

typedef struct sattn_option {
  sattn_option_kind kind;
  const char *name;     /* with the dashes: "--window-sa" */
  const char *argument; /* how the help calls the value: "W" */
  void *value;          /* target of the kind's type */
  bool *given;          /* becomes true when the option appears; may be NULL */
  const char *const *choices;
  const char *help;
} sattn_option;

typedef struct sattn_command {
  const char *usage;   /* first line of the help, after "usage: sattn " */
  const char *summary; /* a paragraph */
  const sattn_option *options;
} sattn_command;

/* Reads argv[0..argc) (without program and subcommand names). An option may stand as `--name value` or `--name=value`, once.
 * Returns false with a misuse in report. Sets *out_help and stops when it meets --help. */
bool sattn_options_read(const sattn_option *options, int argc, char **argv, bool *out_help, sattn_report *report);

/* The help of a subcommand, on standard output. */
void sattn_options_print_help(const sattn_command *command);

#endif
