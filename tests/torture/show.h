/* A failure for people: the description, files, and the command lines that show it. */
#ifndef TORTURE_SHOW_H
#define TORTURE_SHOW_H

#include <stdio.h>

#include "judge.h"

/* One line: every field that is not at its simplest. */
void torture_describe(const torture_problem *problem, FILE *stream);

/* Writes the arrays and the expected outputs to `folder` (made if need be) and prints the line of `sattn attend` that runs them on the
 * target. Returns 0, or -1 when the files could not be written. */
int torture_show(torture_problem *problem, const torture_target *target, const char *folder, FILE *stream);

#endif
