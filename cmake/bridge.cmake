# The Rust static library behind bridge/tandem_bridge.h, built by cargo when
# one of its sources is newer. Every build folder, those of the sanitizers too,
# shares cargo's target folder: CARGO_TARGET_DIR, or else bridge/target.
find_program(TANDEM_CARGO cargo REQUIRED
  PATHS ${CMAKE_SOURCE_DIR}/.venv/bin $ENV{CARGO_HOME}/bin $ENV{HOME}/.cargo/bin)

set(TANDEM_BRIDGE_DIR ${CMAKE_SOURCE_DIR}/bridge)
set(TANDEM_CARGO_TARGET ${TANDEM_BRIDGE_DIR}/target CACHE PATH "Target folder of cargo")
if(DEFINED ENV{CARGO_TARGET_DIR})
  set(TANDEM_CARGO_TARGET $ENV{CARGO_TARGET_DIR} CACHE PATH "Target folder of cargo" FORCE)
endif()

set(TANDEM_BRIDGE_LIB ${CMAKE_BINARY_DIR}/bridge/libtandem_bridge.a)
file(GLOB TANDEM_BRIDGE_SOURCES CONFIGURE_DEPENDS ${TANDEM_BRIDGE_DIR}/src/*.rs)
add_custom_command(
  OUTPUT ${TANDEM_BRIDGE_LIB}
  COMMAND ${CMAKE_COMMAND} -DCARGO=${TANDEM_CARGO} -DSTRIP=${CMAKE_STRIP}
    -DSOURCE_DIR=${TANDEM_BRIDGE_DIR} -DTARGET_DIR=${TANDEM_CARGO_TARGET}
    -DLIB=${TANDEM_BRIDGE_LIB} -P ${CMAKE_SOURCE_DIR}/cmake/build_bridge.cmake
  DEPENDS ${TANDEM_BRIDGE_SOURCES} ${TANDEM_BRIDGE_DIR}/Cargo.toml ${TANDEM_BRIDGE_DIR}/Cargo.lock
    ${CMAKE_SOURCE_DIR}/cmake/build_bridge.cmake
  COMMENT "Building the Rust bridge"
  USES_TERMINAL VERBATIM)
add_custom_target(tandem_bridge_build DEPENDS ${TANDEM_BRIDGE_LIB})
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/bridge)

add_library(tandem_bridge STATIC IMPORTED GLOBAL)
set_target_properties(tandem_bridge PROPERTIES IMPORTED_LOCATION ${TANDEM_BRIDGE_LIB})
target_include_directories(tandem_bridge INTERFACE ${TANDEM_BRIDGE_DIR})
target_link_libraries(tandem_bridge INTERFACE Threads::Threads ${CMAKE_DL_LIBS} m)
add_dependencies(tandem_bridge tandem_bridge_build)
