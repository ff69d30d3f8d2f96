# libmlx as the Python wheels ship it, found in the project's virtual
# environment. The binary looks for the library there at run time, so that a
# CUDA wheel's libmlx may take the CPU wheel's place.
file(GLOB TANDEM_MLX_ROOTS ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/mlx)
if(NOT TANDEM_MLX_ROOTS)
  message(FATAL_ERROR "libmlx not found in .venv: run `make setup` first")
endif()
list(GET TANDEM_MLX_ROOTS 0 TANDEM_MLX_ROOT)

add_library(mlx_wheel SHARED IMPORTED GLOBAL)
set_target_properties(mlx_wheel PROPERTIES
  IMPORTED_LOCATION ${TANDEM_MLX_ROOT}/lib/libmlx.so
  IMPORTED_NO_SONAME OFF)
target_include_directories(mlx_wheel SYSTEM INTERFACE ${TANDEM_MLX_ROOT}/include)
