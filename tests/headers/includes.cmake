# SPDX-License-Identifier: Apache-2.0
# cmake -DTIDY=... -DCONFIG=... -DSTAMPS=... "-DHEADERS=..." "-DFOLDERS=..." -P includes.cmake
# Reads each of HEADERS as a main file, since include-cleaner looks at no other: a second per header.
# A header that passed is left out until it or CONFIG changes: when a name moves from one header to
# another, a fresh build tells who has to follow.

file(SHA256 ${CONFIG} config)
set(changed "")
set(stamps "")
foreach(header IN LISTS HEADERS)
  file(SHA256 ${header} content)
  if(NOT EXISTS ${STAMPS}/${config}/${content})
    list(APPEND changed ${header})
    list(APPEND stamps ${STAMPS}/${config}/${content})
  endif()
endforeach()
if(NOT changed)
  return()
endif()
list(TRANSFORM FOLDERS PREPEND -I)
execute_process(
  COMMAND ${TIDY} --quiet --config-file=${CONFIG} ${changed} -- -x c++ -std=c++20 ${FOLDERS}
  RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "an include is missing or not used")
endif()
file(MAKE_DIRECTORY ${STAMPS}/${config})
file(TOUCH ${stamps})
