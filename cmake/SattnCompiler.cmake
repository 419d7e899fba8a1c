# Compiler settings shared by everything that is built here.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_library(sattn_warnings INTERFACE)
target_compile_options(sattn_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith
                                                -Wwrite-strings -Wvla -Wundef $<$<BOOL:${SATTN_WERROR}>:-Werror>)

# Infinities and NaN carry meaning (contract, section 1): no option may assume finite numbers.
add_compile_options(-fno-fast-math -ffp-contract=off)
# POSIX for clocks, threads and directories; no GNU extensions of the language.
add_compile_definitions(_POSIX_C_SOURCE=200809L)
if(CMAKE_BUILD_TYPE STREQUAL "Release" OR CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo")
  add_compile_options(-fstack-protector-strong)
  add_compile_definitions(_FORTIFY_SOURCE=2)
  add_link_options(-Wl,-z,relro,-z,now)
endif()
if(SATTN_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "sattn: SATTN_FUZZ needs clang: configure with -DCMAKE_C_COMPILER=clang")
  endif()
  if(NOT SATTN_SANITIZE)
    set(SATTN_SANITIZE address,undefined)
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(SATTN_SANITIZE)
  add_compile_options(-fsanitize=${SATTN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${SATTN_SANITIZE})
endif()

find_package(Threads REQUIRED)

# The system libraries that the library needs: mathematics, threads, dlopen.
function(sattn_link_system target scope)
  target_link_libraries(${target} ${scope} Threads::Threads ${CMAKE_DL_LIBS} m)
endfunction()

# A shared library shows what sattn.map names, and nothing else. No effect on a static one.
function(sattn_version_script target)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "SHARED_LIBRARY")
    target_link_options(${target} PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/sattn.map)
    set_target_properties(${target} PROPERTIES LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/sattn.map)
  endif()
endfunction()

# An object library of one layer with hidden visibility.
function(sattn_add_layer target)
  add_library(${target} OBJECT ${ARGN})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/lib)
  target_compile_definitions(${target} PRIVATE SATTN_BUILDING)
  target_link_libraries(${target} PRIVATE sattn_warnings)
  set_target_properties(${target} PROPERTIES C_VISIBILITY_PRESET hidden)
endfunction()
