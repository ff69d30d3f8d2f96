// What a row owns besides its pages, such as a grammar's matcher.
#pragma once

#include <memory>
#include <utility>

namespace tandem {

class RowResource {
 public:
  virtual ~RowResource() = default;
  // The row is over: finished, failed, cancelled or refused. Called exactly once.
  virtual void dispose() noexcept = 0;
};

// Owns a resource and disposes of it once, on whatever path the row ends.
class ResourceOwner {
 public:
  ResourceOwner() = default;
  explicit ResourceOwner(std::unique_ptr<RowResource> resource) : resource_(std::move(resource)) {}
  ~ResourceOwner() { dispose(); }
  ResourceOwner(ResourceOwner&& other) noexcept : resource_(std::move(other.resource_)) {}
  ResourceOwner& operator=(ResourceOwner&& other) noexcept {
    dispose();
    resource_ = std::move(other.resource_);
    return *this;
  }

  RowResource* get() const { return resource_.get(); }
  void dispose() noexcept {
    if (const auto done = std::move(resource_)) done->dispose();
  }

 private:
  std::unique_ptr<RowResource> resource_;
};

}  // namespace tandem
