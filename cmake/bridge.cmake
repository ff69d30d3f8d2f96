# The Rust static library behind bridge/tandem_bridge.h.
add_library(tandem_bridge INTERFACE)
