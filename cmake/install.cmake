# SPDX-License-Identifier: Apache-2.0
# Headers, one target file per component (so that a component's dependency is looked for only when
# it is asked for), package files for CMake and pkg-config, pages and examples; the program and
# ballast::compiled where they are built. Each of the three is a package of its own for `cpack`.

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME headers)
set(package_dir ${CMAKE_INSTALL_DATADIR}/cmake/ballast)  # the headers are the same on every machine

set(components core cuda mpi nccl range_v3)
if(BALLAST_BUILD_COMPILED)
  list(APPEND components compiled)
endif()
foreach(component IN LISTS components)
  set(files "")
  set(package headers)
  if(component STREQUAL "core")
    set(files FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  elseif(component STREQUAL "compiled")
    set(package compiled)
    set(files ARCHIVE COMPONENT compiled)
  endif()
  install(TARGETS ballast_${component} EXPORT ballast_${component} ${files})
  install(EXPORT ballast_${component} NAMESPACE ballast:: DESTINATION ${package_dir}
    FILE ballast-${component}-targets.cmake COMPONENT ${package})
endforeach()

configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/ballast-config.cmake.in
  ${PROJECT_BINARY_DIR}/ballast-config.cmake
  INSTALL_DESTINATION ${package_dir}
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/ballast-config-version.cmake
  COMPATIBILITY SameMinorVersion
  ARCH_INDEPENDENT)
install(
  FILES
    ${PROJECT_BINARY_DIR}/ballast-config.cmake
    ${PROJECT_BINARY_DIR}/ballast-config-version.cmake
    ${PROJECT_SOURCE_DIR}/cmake/Findnccl.cmake
    ${PROJECT_SOURCE_DIR}/cmake/Findtl-expected.cmake
  DESTINATION ${package_dir})

configure_file(${PROJECT_SOURCE_DIR}/cmake/ballast.pc.in ${PROJECT_BINARY_DIR}/ballast.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ballast.pc DESTINATION ${CMAKE_INSTALL_DATADIR}/pkgconfig)
if(BALLAST_BUILD_COMPILED)
  configure_file(
    ${PROJECT_SOURCE_DIR}/cmake/ballast-compiled.pc.in ${PROJECT_BINARY_DIR}/ballast-compiled.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/ballast-compiled.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
    COMPONENT compiled)
endif()
install(
  FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs ${PROJECT_SOURCE_DIR}/examples
  DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN __pycache__ EXCLUDE)
if(TARGET ballast_cli)
  install(TARGETS ballast_cli RUNTIME COMPONENT program)
endif()

# ---- Packages: `cpack -G DEB` in the build folder ------------------------------------------------

if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()
set(CPACK_PACKAGE_NAME ballast)
set(CPACK_PACKAGE_VENDOR "the maintainers of ballast")
set(CPACK_PACKAGE_CONTACT "the maintainers of ballast")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_COMPONENTS_ALL headers)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)

set(CPACK_COMPONENT_HEADERS_DESCRIPTION "${PROJECT_DESCRIPTION}: headers, pages and examples")
set(CPACK_DEBIAN_HEADERS_PACKAGE_NAME libballast-dev)
set(CPACK_DEBIAN_HEADERS_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_HEADERS_PACKAGE_DEPENDS libexpected-dev)
if(BALLAST_BUILD_COMPILED)
  list(APPEND CPACK_COMPONENTS_ALL compiled)
  set(CPACK_COMPONENT_COMPILED_DESCRIPTION "Policies of ballast, compiled once for programs that plan")
  set(CPACK_DEBIAN_COMPILED_PACKAGE_NAME libballast-compiled-dev)
  set(CPACK_DEBIAN_COMPILED_PACKAGE_DEPENDS "libballast-dev (= ${PROJECT_VERSION})")
endif()
if(TARGET ballast_cli)
  list(APPEND CPACK_COMPONENTS_ALL program)
  set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "${PROJECT_DESCRIPTION}: plans on the command line")
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME ballast)
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION utils)
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
endif()
include(CPack)
