# Run by `cmake -P`: cargo builds the bridge, then LIB becomes a copy without
# debug information. Checkouts may share TARGET_DIR, where cargo takes the
# crate of one for that of another: they take turns, and a flag that names the
# checkout keeps them apart.
file(LOCK ${TARGET_DIR} DIRECTORY GUARD PROCESS)
string(SHA1 checkout ${SOURCE_DIR})
execute_process(
  COMMAND ${CARGO} rustc --quiet --release --locked --lib
    --manifest-path ${SOURCE_DIR}/Cargo.toml --target-dir ${TARGET_DIR}
    -- --cfg checkout_${checkout}
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(
  COMMAND ${STRIP} --strip-debug -o ${LIB} ${TARGET_DIR}/release/libtandem_bridge.a
  COMMAND_ERROR_IS_FATAL ANY)
