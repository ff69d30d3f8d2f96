#include "models/load/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "models/load/report.h"

namespace tandem {
namespace {

// Without O_NONBLOCK a named pipe would wait for a writer.
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

// An open descriptor and the size of its regular file.
class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : fd_(::open(path.c_str(), kOpenFlags)) {
    if (fd_ < 0) fail_errno(path, "cannot be opened");
    struct stat info{};
    if (::fstat(fd_, &info) != 0) fail_errno(path, "cannot be examined");
    if (S_ISDIR(info.st_mode)) fail_load(path, "is a directory, expected a file");
    if (!S_ISREG(info.st_mode)) fail_load(path, "is not a regular file");
    size_ = static_cast<size_t>(info.st_size);
  }
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  [[noreturn]] void fail_errno(const std::string& path, const char* what) {
    int error = errno;
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
    if (error == ENOENT) throw Error(ErrorCode::kNotFound, path + ": no such file");
    fail_load(path, std::string(what) + ": " + std::strerror(error));
  }

  int fd() const { return fd_; }
  size_t size() const { return size_; }

 private:
  int fd_ = -1;
  size_t size_ = 0;
};

}  // namespace

FileBytes map_file(const std::string& path) {
  OpenFile file(path);
  if (file.size() == 0) fail_load(path, "is empty");
  size_t size = file.size();
  void* start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd(), 0);
  if (start == MAP_FAILED) file.fail_errno(path, "cannot be mapped");
  std::shared_ptr<const void> owner(
      start, [size](const void* mapped) { ::munmap(const_cast<void*>(mapped), size); });
  return {path, {static_cast<const std::byte*>(start), size}, std::move(owner)};
}

std::string read_text_file(const std::string& path, size_t bytes_max) {
  OpenFile file(path);
  if (file.size() > bytes_max) {
    fail_load(path, "is " + std::to_string(file.size()) + " bytes, the limit is " +
                        std::to_string(bytes_max));
  }
  std::string text(file.size(), '\0');
  size_t done = 0;
  while (done < text.size()) {
    ssize_t got = ::read(file.fd(), text.data() + done, text.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) file.fail_errno(path, "cannot be read");
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  text.resize(done);
  return text;
}

}  // namespace tandem
