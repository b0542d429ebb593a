# SPDX-License-Identifier: Apache-2.0
# WHAT=written writes the files twice, and they are the same bytes. The others read them: cxx
# all together, from the last to the first and again; cuda the main path in a .cu. tests/consumer runs a
# program with the one file.

set(files ${BINARY}/files)
string(REPLACE "," ";" warnings "${WARNINGS}")

function(must_succeed)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${BINARY} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

if(WHAT STREQUAL written)
  foreach(folder IN ITEMS files again)
    file(REMOVE_RECURSE ${BINARY}/${folder})
    must_succeed(${CMAKE_COMMAND} -D OUTPUT=${BINARY}/${folder} -D EXPECTED=${EXPECTED}
      -P ${SOURCE}/cmake/single_header.cmake)
  endforeach()
  file(GLOB umbrellas RELATIVE ${SOURCE}/include/ballast ${SOURCE}/include/ballast/*.hpp)
  list(REMOVE_ITEM umbrellas ballast.hpp version.hpp)
  list(TRANSFORM umbrellas REPLACE "(.*)[.]hpp" "ballast_\\1_single.hpp")
  list(APPEND umbrellas ballast_single.hpp)
  list(SORT umbrellas)
  file(GLOB written RELATIVE ${files} ${files}/*)
  list(SORT written)
  if(NOT written STREQUAL umbrellas)
    message(FATAL_ERROR "expected the files ${umbrellas}, got ${written}")
  endif()
  foreach(file IN LISTS written)
    must_succeed(${CMAKE_COMMAND} -E compare_files ${files}/${file} ${BINARY}/again/${file})
  endforeach()
  return()
endif()

# reads(name command file...): the compiler takes a source with these includes.
function(reads name command)
  set(text "")
  foreach(file IN LISTS ARGN)
    string(APPEND text "#include \"${file}\"\n")
  endforeach()
  file(WRITE ${BINARY}/${WHAT}_${name} "${text}")
  must_succeed(${command} ${WHAT}_${name})
endfunction()

if(WHAT STREQUAL cuda)
  reads(main.cu "${NVCC};-std=c++20;-I;${files};-c;-o;main.o" ballast_single.hpp)
  return()
endif()
file(GLOB all RELATIVE ${files} ${files}/*)
list(SORT all)
list(REVERSE all)
reads(all.cpp "${CXX};-std=c++20;-fsyntax-only;${warnings};-I;${files}" ${all} ${all})
