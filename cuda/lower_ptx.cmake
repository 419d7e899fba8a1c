# cmake -DIN=nvcc's.ptx -DOUT=lowered.ptx -P lower_ptx.cmake
#
# PTX of CUDA 13 in the words of PTX 7.0, which every driver since CUDA 11.0 takes: nothing that the kernels use is younger. Left out are
# hints (which bytes of a vector load are used) and where inlined code comes from; ptxas refuses, by name, what should ever be too young.
file(READ "${IN}" text)
string(REGEX REPLACE "\\.version [0-9.]+" ".version 7.0" text "${text}")
string(REGEX REPLACE "[\t ]*\\.pragma \"used_bytes_mask[^\n]*\n" "" text "${text}")
string(REGEX REPLACE ", function_name [^\n]*" "" text "${text}")
file(WRITE "${OUT}" "${text}")
