#include "plot.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "refuse.h"

extern char **environ;

static bool ends_in(const char *text, const char *ending) {
  const size_t length = strlen(text);
  const size_t tail = strlen(ending);
  return length > tail && strcmp(text + length - tail, ending) == 0;
}

sattn_status sattn_field_plot_begin(const char *file, int width, int height, sattn_field_plot *out_plot, sattn_error *out_error) {
  const bool svg = ends_in(file, ".svg");
  if (!svg && !ends_in(file, ".png")) {
    return sattn_field_refuse(out_error, SATTN_INVALID_ARGUMENT, "plot", "plot file is '%s', but its name must end in .svg or .png", file);
  }
  FILE *const script = tmpfile();
  if (script == NULL) {
    return sattn_field_refuse(out_error, SATTN_IO_ERROR, NULL, "no temporary file for the plot's script: %s", strerror(errno));
  }
  if (svg) {
    fprintf(script, "set terminal svg size %d,%d dynamic font 'sans-serif,13' background 'white'\n", width, height);
  } else {
    fprintf(script,
            "if (strstrt(GPVAL_TERMINALS, ' pngcairo ') > 0) {\n"
            "  set terminal pngcairo size %d,%d font 'sans,11' background 'white'\n"
            "} else {\n"
            "  set terminal png size %d,%d\n"
            "}\n",
            width, height, width, height);
  }
  fputs("set encoding utf8\n", script);
  *out_plot = (sattn_field_plot){script, file};
  return SATTN_OK;
}

/* Runs `gnuplot -d -` with the three standard streams given. Returns its exit status, -1 with errno set when it could not be started. */
static int run_gnuplot(int in, int out, int messages) {
  char program[] = "gnuplot";
  char defaults[] = "-d"; /* no start-up files of the user: the same image everywhere */
  char from_input[] = "-";
  char *const arguments[] = {program, defaults, from_input, NULL};
  posix_spawn_file_actions_t actions;
  int failed = posix_spawn_file_actions_init(&actions);
  if (failed != 0) {
    errno = failed;
    return -1;
  }
  const int streams[3] = {in, out, messages};
  for (int stream = 0; stream < 3 && failed == 0; stream++) {
    failed = posix_spawn_file_actions_adddup2(&actions, streams[stream], stream);
  }
  pid_t child = -1;
  if (failed == 0) {
    failed = posix_spawnp(&child, program, &actions, NULL, arguments, environ);
  }
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    errno = failed;
    return -1;
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* The first line that says something; gnuplot begins with an empty one and a caret under the fault. */
static void first_message(FILE *messages, char *line, int size) {
  rewind(messages);
  while (fgets(line, size, messages) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    if (strstr(line, "line ") != NULL) return;
  }
  snprintf(line, (size_t)size, "no message");
}

static sattn_status draw(FILE *script, FILE *messages, int image, const char *file, const char *partial, sattn_error *out_error) {
  if (fflush(script) != 0 || lseek(fileno(script), 0, SEEK_SET) != 0) {
    return sattn_field_refuse(out_error, SATTN_IO_ERROR, NULL, "the plot's script could not be written: %s", strerror(errno));
  }
  const int exit_status = run_gnuplot(fileno(script), image, fileno(messages));
  if (exit_status == 127 || (exit_status < 0 && errno == ENOENT)) {
    return sattn_field_refuse(out_error, SATTN_UNAVAILABLE, NULL,
                              "plots need the program gnuplot, which is not installed (Debian: gnuplot-nox)");
  }
  if (exit_status < 0) {
    return sattn_field_refuse(out_error, SATTN_UNAVAILABLE, NULL, "gnuplot could not be run: %s", strerror(errno));
  }
  struct stat facts;
  if (exit_status != 0 || fstat(image, &facts) != 0 || facts.st_size == 0) {
    char line[256];
    first_message(messages, line, (int)sizeof line);
    return sattn_field_refuse(out_error, SATTN_INTERNAL, NULL, "gnuplot ended with status %d: %s", exit_status, line);
  }
  if (rename(partial, file) != 0) {
    return sattn_field_refuse(out_error, SATTN_IO_ERROR, "plot", "'%s' could not be written: %s", file, strerror(errno));
  }
  return SATTN_OK;
}

sattn_status sattn_field_plot_finish(sattn_field_plot *plot, sattn_error *out_error) {
  const size_t size = strlen(plot->file) + 32;
  char *const partial = malloc(size);
  FILE *const messages = tmpfile();
  int image = -1;
  sattn_status status = SATTN_OK;
  if (partial == NULL || messages == NULL) {
    status = sattn_field_no_memory(out_error);
  } else {
    snprintf(partial, size, "%s.%ld.partial", plot->file, (long)getpid());
    image = open(partial, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (image < 0) {
      status = sattn_field_refuse(out_error, SATTN_IO_ERROR, "plot", "'%s' could not be written: %s", plot->file, strerror(errno));
    } else {
      status = draw(plot->script, messages, image, plot->file, partial, out_error);
      close(image);
      if (status != SATTN_OK) unlink(partial);
    }
  }
  if (messages != NULL) fclose(messages);
  free(partial);
  fclose(plot->script);
  *plot = (sattn_field_plot){0};
  return status;
}
