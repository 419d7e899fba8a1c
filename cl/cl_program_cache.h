/* Compiled programs on disk, one file each.
 *
 *     magic and format | key bytes | binary bytes | checksum of both | key | binary
 *
 * The file is named by a hash of the key, but the whole key is stored and compared, so a collision is a miss and nothing worse. A file is
 * written under a temporary name and renamed: readers see all of it or nothing, and any number of processes may write the same one. Folders
 * are made with mode 0700. Whatever is wrong (no folder, read-only, somebody else's, damaged, cut, foreign) is a miss, never an error.
 */
#ifndef SATTN_CL_PROGRAM_CACHE_H
#define SATTN_CL_PROGRAM_CACHE_H

#include <stdbool.h>
#include <stddef.h>

/* True: *out_binary is the caller's, to be freed. */
bool sattn_cl_cache_load(const char *directory, const void *key, size_t key_bytes, unsigned char **out_binary, size_t *out_bytes);

/* False if it could not be stored. */
bool sattn_cl_cache_store(const char *directory, const void *key, size_t key_bytes, const unsigned char *binary, size_t bytes);

#endif
