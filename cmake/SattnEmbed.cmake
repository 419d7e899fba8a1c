# sattn_embed(TARGET NAME FILE...): makes a C file that holds the files as bytes, as a table
#
#     const sattn_embedded_file NAME[] = {{"attend.cl", bytes, length}, ..., {0, 0, 0}};
#
# (lib/embedded.h), and adds it to TARGET. Plain CMake, so that nothing else is needed to build. Kernel files stay ordinary source files.
if(CMAKE_SCRIPT_MODE_FILE)
  set(text "#include \"embedded.h\"\n\nextern const sattn_embedded_file ${NAME}[];\n\n")
  set(table "")
  set(index 0)
  string(REPLACE "|" ";" FILES "${FILES}")
  foreach(file IN LISTS FILES)
    file(READ "${file}" hex HEX)
    string(LENGTH "${hex}" digits)
    math(EXPR length "${digits} / 2")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(REGEX REPLACE "(0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],)" "\\1\n" bytes "${bytes}")
    get_filename_component(base "${file}" NAME)
    string(APPEND text "static const unsigned char file_${index}[] = {\n${bytes}0};\n")
    string(APPEND table "    {\"${base}\", file_${index}, ${length}},\n")
    math(EXPR index "${index} + 1")
  endforeach()
  file(WRITE "${OUT}" "${text}\nconst sattn_embedded_file ${NAME}[] = {\n${table}    {0, 0, 0}};\n")
  return()
endif()

set(SATTN_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})
function(sattn_embed target name)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${name}.c)
  string(REPLACE ";" "|" files "${ARGN}")
  add_custom_command(OUTPUT ${out} COMMAND ${CMAKE_COMMAND} "-DNAME=${name}" "-DOUT=${out}" "-DFILES=${files}" -P ${SATTN_EMBED_SCRIPT}
                     DEPENDS ${ARGN} ${SATTN_EMBED_SCRIPT} VERBATIM)
  target_sources(${target} PRIVATE ${out})
endfunction()
