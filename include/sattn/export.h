/* Linkage macros used by every public header. Nothing here is meant to be used by applications. */
#ifndef SATTN_EXPORT_H
#define SATTN_EXPORT_H

#if defined(SATTN_STATIC)
#define SATTN_API
#elif defined(_WIN32)
#if defined(SATTN_BUILDING)
#define SATTN_API __declspec(dllexport)
#else
#define SATTN_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define SATTN_API __attribute__((visibility("default")))
#else
#define SATTN_API
#endif

#ifdef __cplusplus
#define SATTN_BEGIN_DECLS extern "C" {
#define SATTN_END_DECLS   }
#else
#define SATTN_BEGIN_DECLS
#define SATTN_END_DECLS
#endif

#endif
