#include "child.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int test_child_main(int argc, char **argv, const test_child *children) {
  if (argc != 4 || strcmp(argv[1], "--child") != 0) return -1;
  for (const test_child *child = children; child->name; ++child) {
    if (strcmp(child->name, argv[2]) == 0) return child->run(argv[3]);
  }
  return 2;
}

static void become_child(const char *name, const char *device, const char *const *environment, int output) {
  char self[] = "/proc/self/exe";
  char flag[] = "--child";
  char name_copy[64];
  char device_copy[64];
  char *const arguments[] = {self, flag, name_copy, device_copy, NULL};
  snprintf(name_copy, sizeof name_copy, "%s", name);
  snprintf(device_copy, sizeof device_copy, "%s", device);
  for (; environment && *environment; ++environment) {
    char entry[512];
    snprintf(entry, sizeof entry, "%s", *environment);
    char *value = strchr(entry, '=');
    if (value) *value = '\0';
    if (value) {
      setenv(entry, value + 1, 1);
    } else {
      unsetenv(entry);
    }
  }
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  execv(self, arguments);
  _exit(126);
}

static void read_output(int pipe_end, char *text, size_t capacity) {
  size_t length = 0;
  char more[4096];
  ssize_t got;
  while ((got = read(pipe_end, more, sizeof more)) > 0) {
    size_t room = capacity - 1 - length;
    size_t kept = (size_t)got < room ? (size_t)got : room;
    memcpy(text + length, more, kept);
    length += kept;
  }
  text[length] = '\0';
}

void test_child_run(const char *name, const char *device, const char *const *environment, test_child_result *out_result) {
  int ends[2];
  int status = 0;
  memset(out_result, 0, sizeof *out_result);
  out_result->status = -1;
  if (pipe(ends)) return;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    become_child(name, device, environment, ends[1]);
  }
  close(ends[1]);
  read_output(ends[0], out_result->output, sizeof out_result->output);
  close(ends[0]);
  if (child < 0 || waitpid(child, &status, 0) != child) return;
  if (WIFEXITED(status)) out_result->status = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) out_result->signal = WTERMSIG(status);
}

pid_t test_child_start(const char *name, const char *device, const char *const *environment) {
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) become_child(name, device, environment, open("/dev/null", O_WRONLY));
  return child;
}

int test_child_wait(pid_t child) {
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}
