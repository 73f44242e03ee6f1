# bochner_folder(NAME folders it uses ... [PARTS subfolder ...]): the library bochner_NAME (alias bochner::NAME), as bochner_library
# makes it, whose headers are public: they are installed.
function(bochner_folder name)
  bochner_library(${name} ${ARGN})
  set_property(GLOBAL APPEND PROPERTY bochner_folders ${name})
endfunction()

# bochner_library(NAME libraries it uses ... [PARTS subfolder ...]): the static library bochner_NAME of all sources below the calling
# folder. Subfolders that are named as PARTS are static libraries of their own, bochner_NAME_PART, which use the parts before them;
# what remains is bochner_NAME_common, which all of them use, and bochner_NAME means all together. So a program that names the parts
# it needs waits for no others. The global property bochner_NAME_libraries has the static ones, users before those that they use.
function(bochner_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" PARTS)
  list(TRANSFORM arg_UNPARSED_ARGUMENTS PREPEND bochner_ OUTPUT_VARIABLE used)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cpp)
  list(FILTER sources EXCLUDE REGEX "^${CMAKE_CURRENT_SOURCE_DIR}/cuda/")  # see CMake/Cuda.cmake
  set(whole bochner_${name})
  if(NOT arg_PARTS)
    bochner_static_library(${name} "${sources}" ${used})
    set(libraries ${whole})
  else()
    set(rest ${sources})
    list(JOIN arg_PARTS "|" any_part)
    list(FILTER rest EXCLUDE REGEX "^${CMAKE_CURRENT_SOURCE_DIR}/(${any_part})/")
    bochner_static_library(${name}_common "${rest}" ${used})
    set(libraries ${whole}_common)
    foreach(part ${arg_PARTS})
      set(of_part ${sources})
      list(FILTER of_part INCLUDE REGEX "^${CMAKE_CURRENT_SOURCE_DIR}/${part}/")
      bochner_static_library(${name}_${part} "${of_part}" ${libraries})
      list(PREPEND libraries ${whole}_${part})
    endforeach()
    add_library(${whole} INTERFACE)
    set_target_properties(${whole} PROPERTIES EXPORT_NAME ${name})
    target_link_libraries(${whole} INTERFACE ${libraries})
  endif()
  add_library(bochner::${name} ALIAS ${whole})
  set_property(GLOBAL PROPERTY bochner_${name}_libraries ${libraries})
endfunction()

function(bochner_static_library name sources)
  set(target bochner_${name})
  add_library(${target} STATIC ${sources})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/bochner>)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:bochner_flags> PUBLIC ${ARGN})
  bochner_precompile(${target})
endfunction()

# bochner_objects(LIBRARY NAME SOURCE ...): these sources of the library bochner_LIBRARY are compiled by themselves, as the objects
# bochner_LIBRARY_NAME: with the library's options, but as fast as they can be, since they have no loops over elements.
function(bochner_objects library name)
  set(target bochner_${library})
  set(objects ${target}_${name})
  get_target_property(sources ${target} SOURCES)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ REGEX "^[^/]")
  list(REMOVE_ITEM sources ${ARGN})
  set_property(TARGET ${target} PROPERTY SOURCES ${sources})
  add_library(${objects} OBJECT ${ARGN})
  target_compile_features(${objects} PRIVATE cxx_std_20)
  foreach(property INCLUDE_DIRECTORIES COMPILE_DEFINITIONS COMPILE_OPTIONS)
    set_property(TARGET ${objects} APPEND PROPERTY ${property} $<TARGET_PROPERTY:${target},${property}>)
  endforeach()
  bochner_quick_to_compile(${objects})
  bochner_precompile(${objects})
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${objects}>)
endfunction()
