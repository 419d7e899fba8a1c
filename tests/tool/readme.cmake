# The C program of README.md must compile and run as it stands there.
#
#   cmake -DREADME=... -DFOLDER=... -DCOMPILER=... -DFLAGS=a|b -DLIBRARIES=a|b -P readme.cmake
file(READ "${README}" text)
string(REGEX MATCH "```c\n([^`]*)```" block "${text}")
if(NOT block)
  message(FATAL_ERROR "${README} has no C program")
endif()
set(program "${CMAKE_MATCH_1}")
file(MAKE_DIRECTORY ${FOLDER})
file(WRITE ${FOLDER}/readme.c "${program}")
string(REPLACE "|" ";" flags "${FLAGS}")
string(REPLACE "|" ";" libraries "${LIBRARIES}")
execute_process(COMMAND ${COMPILER} -std=c11 -Wall -Wextra -Wpedantic -Werror ${flags} ${FOLDER}/readme.c -o ${FOLDER}/readme ${libraries}
                RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "the program of ${README} does not compile; it lies in ${FOLDER}/readme.c")
endif()
execute_process(COMMAND ${FOLDER}/readme RESULT_VARIABLE status OUTPUT_VARIABLE output)
if(NOT status EQUAL 0 OR NOT output MATCHES "1.000")
  message(FATAL_ERROR "the program of ${README} ended with ${status} and said: ${output}")
endif()
message(STATUS "${output}")
