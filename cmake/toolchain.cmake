# Language level, warnings, sanitizers and the compiler cache.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(TANDEM_CCACHE ccache)
if(TANDEM_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${TANDEM_CCACHE})
endif()
find_program(TANDEM_MOLD mold)
if(TANDEM_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# Results must not depend on what the compiler chooses to fuse.
add_compile_options(-ffp-contract=off)

if(TANDEM_SANITIZE)
  # Light optimisation: the instrumented tests take half the time to build and still run fast.
  add_compile_options(-fsanitize=${TANDEM_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all -g1 -O1)
  add_link_options(-fsanitize=${TANDEM_SANITIZE})
endif()
if(TANDEM_FUZZER)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

find_package(Threads REQUIRED)

# Designated initializers leave the rest at its default on purpose.
set(TANDEM_WARNINGS -Wall -Wextra -Werror -Wno-missing-field-initializers)
