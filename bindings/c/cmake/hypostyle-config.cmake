# find_package(hypostyle) gives the target hypostyle::hypostyle, for C and C++.
get_filename_component(_hypostyle_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET hypostyle::hypostyle)
  add_library(hypostyle::hypostyle SHARED IMPORTED)
  set_target_properties(hypostyle::hypostyle PROPERTIES
    IMPORTED_LOCATION "${_hypostyle_prefix}/lib/libhypostyle.so.1"
    IMPORTED_SONAME "libhypostyle.so.1"
    INTERFACE_INCLUDE_DIRECTORIES "${_hypostyle_prefix}/include")
endif()
unset(_hypostyle_prefix)
