/* What can only be seen from outside: exit status and output of a process of its own. The program starts itself again, because a process
 * that used a driver must not be forked and used on. */
#ifndef CONFORMANCE_CHILD_H
#define CONFORMANCE_CHILD_H

#include <sys/types.h>

typedef struct test_child {
  const char *name; /* NULL ends a table */
  int (*run)(const char *device);
} test_child;

typedef struct test_child_result {
  int status;        /* exit status, -1 after a signal */
  int signal;        /* 0 for none */
  char output[8192]; /* the beginning of standard output and error */
} test_child_result;

/* In main: runs the child that the command line names and returns its exit status, or -1 when there is none. */
int test_child_main(int argc, char **argv, const test_child *children);

/* environment: "NAME=VALUE" entries that are set for the child, and "NAME" ones that are unset, NULL-terminated; may be NULL. */
void test_child_run(const char *name, const char *device, const char *const *environment, test_child_result *out_result);

/* The same in two halves, for several at once; output is dropped. The process, or -1; then its exit status, or -1. */
pid_t test_child_start(const char *name, const char *device, const char *const *environment);
int test_child_wait(pid_t child);

#endif
