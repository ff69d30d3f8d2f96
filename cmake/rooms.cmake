# A room is one folder of src/ as one static library; DEPS are the rooms and
# libraries it may use. All of its .cpp files belong to it (not those of
# folders below, which are rooms of their own, unless RECURSE is given).
function(tandem_room name)
  cmake_parse_arguments(ROOM "RECURSE" "" "DEPS" ${ARGN})
  if(ROOM_RECURSE)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cpp)
  else()
    file(GLOB sources CONFIGURE_DEPENDS *.cpp)
  endif()
  if(NOT sources)
    add_library(tandem_${name} INTERFACE)
    target_include_directories(tandem_${name} INTERFACE ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(tandem_${name} INTERFACE ${ROOM_DEPS})
    return()
  endif()
  add_library(tandem_${name} STATIC ${sources})
  target_include_directories(tandem_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_compile_options(tandem_${name} PRIVATE ${TANDEM_WARNINGS})
  target_link_libraries(tandem_${name} PUBLIC ${ROOM_DEPS} Threads::Threads)
endfunction()

# The tests of one room: every .cpp of the calling folder in one doctest
# program, run by ctest as test_<name>.
function(tandem_test name)
  cmake_parse_arguments(TEST "" "" "DEPS;ARGS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(test_${name} ${sources} ${CMAKE_SOURCE_DIR}/tests/main.cpp)
  target_include_directories(test_${name} PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/tests)
  target_compile_options(test_${name} PRIVATE ${TANDEM_WARNINGS})
  target_compile_definitions(test_${name} PRIVATE
    TANDEM_GOLDENS="${CMAKE_SOURCE_DIR}/tests/goldens")
  target_link_libraries(test_${name} PRIVATE ${TEST_DEPS})
  add_test(NAME test_${name} COMMAND test_${name} ${TEST_ARGS})
endfunction()
