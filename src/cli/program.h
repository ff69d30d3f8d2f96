// The tandem program: subcommands, help, version, and errors as one line.
#pragma once

namespace tandem::cli {

// Exit status: 0 done, 1 an error (one line "tandem: ..." on stderr), 128 + n
// ended by signal n.
int run_program(int argc, char** argv);

}  // namespace tandem::cli
