#ifndef VECTORS_H
#define VECTORS_H

#include "suite.h"

/* What backends are known not to do; ends with a NULL backend. */
extern const test_exception vectors_exceptions[];

#endif
