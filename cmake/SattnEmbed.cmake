# sattn_embed(TARGET NAME FILE...): builds the files into TARGET as a table of bytes
#
#     const sattn_embedded_file NAME[] = {{"attend.cl", bytes, length}, ..., {0, 0, 0}};
#
# (lib/embedded.h). The assembler includes each file as it is (.incbin), because compilers need gigabytes for large array initialisers. Kernel
# files stay ordinary source files, and nothing but CMake and the compiler is needed. ELF only, as the rest of the build.
function(sattn_embed target name)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${name}.c)
  set(text "#include \"embedded.h\"\n\nextern const sattn_embedded_file ${name}[];\n\n")
  set(table "")
  set(index 0)
  foreach(file IN LISTS ARGN)
    get_filename_component(base "${file}" NAME)
    set(symbol ${name}_${index})
    string(APPEND text
           "extern const unsigned char ${symbol}[], ${symbol}_end[];\n"
           "__asm__(\".pushsection .rodata\\n.balign 64\\n.hidden ${symbol}\\n.globl ${symbol}\\n${symbol}:\\n.incbin \\\"${file}\\\"\\n\"\n"
           "        \".hidden ${symbol}_end\\n.globl ${symbol}_end\\n${symbol}_end:\\n.byte 0\\n.popsection\");\n")
    string(APPEND table "    {\"${base}\", ${symbol}, ${symbol}_end},\n")
    math(EXPR index "${index} + 1")
  endforeach()
  file(CONFIGURE OUTPUT ${out} CONTENT "${text}\nconst sattn_embedded_file ${name}[] = {\n${table}    {0, 0, 0}};\n" @ONLY)
  set_source_files_properties(${out} PROPERTIES OBJECT_DEPENDS "${ARGN}")
  # The files are listed as sources too (nothing compiles them), so that makefiles know how to make those that are generated.
  set_source_files_properties(${ARGN} PROPERTIES HEADER_FILE_ONLY ON)
  target_sources(${target} PRIVATE ${out} ${ARGN})
endfunction()
