# bochner_folder(NAME folders it uses ...): the static library bochner_NAME (alias bochner::NAME) of all sources below the
# calling folder.
function(bochner_folder name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cpp)
  list(FILTER sources EXCLUDE REGEX "^${CMAKE_CURRENT_SOURCE_DIR}/cuda/")  # see CMake/Cuda.cmake
  add_library(bochner_${name} STATIC ${sources})
  add_library(bochner::${name} ALIAS bochner_${name})
  set_target_properties(bochner_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(bochner_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/bochner>)
  set_property(GLOBAL APPEND PROPERTY bochner_folders ${name})  # whose headers are public: they are installed
  target_compile_features(bochner_${name} PUBLIC cxx_std_20)
  target_link_libraries(bochner_${name} PRIVATE $<BUILD_INTERFACE:bochner_flags>)
  bochner_precompile(bochner_${name})
  foreach(used ${ARGN})
    target_link_libraries(bochner_${name} PUBLIC bochner_${used})
  endforeach()
endfunction()
