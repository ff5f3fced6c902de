// SPDX-License-Identifier: Apache-2.0
// GuardedBuffer<T>: `size` elements whose last byte is followed directly by an unreadable page, so that a kernel that
// reads or writes past the end dies at once. The page before is unreadable as well, but only touched when the start is
// page-aligned.
//
//   GuardedBuffer<float> row(33);                    // starts at whatever alignment 33 floats before a page give
//   GuardedBuffer<float> loose(33, AlignAt::kStart); // starts on a page (64-byte aligned); guarded exactly in front
//
// With BASCULE_GUARD_PAGES=0 in the environment these pages can be read and written: QEMU 7.2 touches the lanes too
// that a masked load or store of AVX2 leaves out.
//
// Elements start as zero. Move-only; `T` is trivially copyable.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <utility>

#include "src/base/span.h"

namespace bascule::test {

enum class AlignAt { kEnd, kStart };

template <typename T>
class GuardedBuffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit GuardedBuffer(std::size_t size, AlignAt align = AlignAt::kEnd) : size_(size) {
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t inner_bytes = align_up(size * sizeof(T), page);
    mapped_bytes_ = inner_bytes + 2 * page;
    base_ = mmap(nullptr, mapped_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base_ == MAP_FAILED) fail("mmap");
    auto* const first = static_cast<unsigned char*>(base_) + page;
    if (!has_guards() && mprotect(base_, mapped_bytes_, PROT_READ | PROT_WRITE) != 0) fail("mprotect");
    if (inner_bytes > 0 && mprotect(first, inner_bytes, PROT_READ | PROT_WRITE) != 0) fail("mprotect");
    const std::size_t slack_bytes = align == AlignAt::kEnd ? inner_bytes - size * sizeof(T) : 0;
    data_ = static_cast<T*>(static_cast<void*>(first + slack_bytes));
  }
  ~GuardedBuffer() {
    if (base_ != nullptr) munmap(base_, mapped_bytes_);
  }
  GuardedBuffer(GuardedBuffer&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)),
        mapped_bytes_(other.mapped_bytes_),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  GuardedBuffer& operator=(GuardedBuffer&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(mapped_bytes_, other.mapped_bytes_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  Span<T> span() { return Span<T>(data_, size_); }
  Span<const T> span() const { return Span<const T>(data_, size_); }

 private:
  static bool has_guards() {
    const char* const setting = std::getenv("BASCULE_GUARD_PAGES");
    return setting == nullptr || setting[0] != '0';
  }
  [[noreturn]] static void fail(const char* call) {
    std::perror(call);
    std::abort();
  }

  void* base_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace bascule::test
