#include "models/load/mapped_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "load/builders.h"

using namespace tandem;
using namespace tandem::test;

TEST_CASE("a mapped file outlives its name and the first handle on it") {
  FileBytes kept;
  {
    TemporaryFolder folder;
    FileBytes file = map_file(folder.write("a.bin", "hello"));
    kept = file;
  }
  CHECK(std::string(reinterpret_cast<const char*>(kept.bytes.data()), kept.bytes.size()) ==
        "hello");
}

TEST_CASE("a file that is missing, empty, a folder or unreadable has an error of its own") {
  TemporaryFolder folder;
  std::string missing = (folder.path() / "none").string();
  CHECK(error_of([&] { map_file(missing); }) == missing + ": no such file");
  CHECK_THROWS_AS(map_file(missing), Error);
  std::string empty = folder.write("empty", "");
  CHECK(error_of([&] { map_file(empty); }) == empty + ": is empty");
  CHECK(error_of([&] { map_file(folder.path().string()); }).find("is a directory") !=
        std::string::npos);
  std::string locked = folder.write("locked", "x");
  std::filesystem::permissions(locked, std::filesystem::perms::none);
  if (::geteuid() != 0) {
    CHECK(error_of([&] { map_file(locked); }).find("cannot be opened: Permission denied") !=
          std::string::npos);
  }
  std::string pipe = (folder.path() / "pipe").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(error_of([&] { map_file(pipe); }) == pipe + ": is not a regular file");
  CHECK(error_of([&] { map_file("/dev/null"); }).find("not a regular file") != std::string::npos);
}

TEST_CASE("a text file over its limit is refused with both sizes") {
  TemporaryFolder folder;
  std::string path = folder.write("a.txt", "hello");
  CHECK(read_text_file(path, 5) == "hello");
  CHECK(error_of([&] { read_text_file(path, 4); }) == path + ": is 5 bytes, the limit is 4");
}
