/* The smallest problem that still fails. */
#ifndef TORTURE_SHRINK_H
#define TORTURE_SHRINK_H

#include "judge.h"

/* Makes the failing problem smaller until nothing more can be taken away, or `seconds` are over. `report` is that of the smallest. Returns
 * how many smaller problems failed as well. */
int torture_shrink(torture_judge *judge, int target, torture_problem *problem, double seconds, char *report, size_t capacity);

#endif
