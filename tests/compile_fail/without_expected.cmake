# SPDX-License-Identifier: Apache-2.0
# cmake -D CXX=<compiler> -D INCLUDE=<folder> -D FOLDER=<where to write> -P without_expected.cmake
# Where tl/expected.hpp is not found, one sentence says what to install, and nothing follows it. The
# compiler sees the folders of the system but for that header: links to all else that they have.

set(ENV{LC_ALL} C)
execute_process(COMMAND ${CXX} -x c++ -E -v /dev/null OUTPUT_QUIET ERROR_VARIABLE said)
string(REGEX REPLACE ".*search starts here:\n(.*)\nEnd of search.*" "\\1" said "${said}")
string(REGEX MATCHALL "[^\n ]+" searched "${said}")
file(MAKE_DIRECTORY ${FOLDER})
set(folders "")
foreach(folder IN LISTS searched)
  if(EXISTS ${folder}/tl/expected.hpp)
    file(GLOB entries ${folder}/*)
    list(REMOVE_ITEM entries ${folder}/tl)
    foreach(entry IN LISTS entries)
      cmake_path(GET entry FILENAME name)
      file(CREATE_LINK ${entry} ${FOLDER}/${name} SYMBOLIC)
    endforeach()
    set(folder ${FOLDER})
  endif()
  list(APPEND folders -isystem ${folder})
endforeach()
file(WRITE ${FOLDER}/user.cpp "#include <ballast/ballast.hpp>\n")
execute_process(
  COMMAND ${CXX} -std=c++20 -fsyntax-only -nostdinc -I${INCLUDE} ${folders} ${FOLDER}/user.cpp
  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
string(REGEX MATCHALL "error:" errors "${output}")
list(LENGTH errors count)
if(status EQUAL 0 OR NOT output MATCHES "^[^']*error: [^\n]*ballast needs tl/expected.hpp[^\n]*libexpected-dev"
    OR count GREATER 2)
  message(FATAL_ERROR "without tl/expected.hpp the compiler says:\n${output}")
endif()
