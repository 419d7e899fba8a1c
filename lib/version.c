#include <sattn/version.h>

#define TEXT_OF(number) #number
#define TEXT(number)    TEXT_OF(number)

int sattn_version(void) {
  return SATTN_VERSION;
}

const char *sattn_version_string(void) {
  return TEXT(SATTN_VERSION_MAJOR) "." TEXT(SATTN_VERSION_MINOR) "." TEXT(SATTN_VERSION_PATCH);
}
