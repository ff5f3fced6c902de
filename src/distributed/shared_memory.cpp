// SPDX-License-Identifier: Apache-2.0
#include "src/distributed/shared_memory.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "src/base/align.h"
#include "src/base/error.h"

namespace bascule {
namespace {

constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, Linux 5.14

[[noreturn]] void refuse(const char* what, std::size_t bytes) {
  throw Error(ErrorKind::kMemory, "shared memory",
              std::string("cannot ") + what + " " + std::to_string(bytes >> 20) + " MiB: " + std::strerror(errno),
              "see `bascule plan`");
}

// A message of one byte with room for one descriptor beside it.
struct DescriptorMessage {
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};

  DescriptorMessage() {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
  }
};

}  // namespace

SharedMemory::SharedMemory(std::size_t bytes) : bytes_(align_up(std::max(bytes, kPage), kPage)) {
  file_ = Descriptor(memfd_create("bascule", MFD_CLOEXEC));
  if (!file_.is_open() || ftruncate(file_.number(), static_cast<off_t>(bytes_)) != 0) refuse("make", bytes_);
  map();
}

SharedMemory::SharedMemory(Descriptor file) : file_(std::move(file)) {
  struct stat status = {};
  if (fstat(file_.number(), &status) != 0) refuse("map", 0);
  bytes_ = static_cast<std::size_t>(status.st_size);
  map();
}

void SharedMemory::map() {
  void* const memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_.number(), 0);
  if (memory == MAP_FAILED) refuse("map", bytes_);
  data_ = static_cast<std::byte*>(memory);
}

void SharedMemory::advise_huge_pages() const noexcept { madvise(data_, bytes_, MADV_HUGEPAGE); }

void SharedMemory::lock() const {
  if (mlock(data_, bytes_) == 0) return;
  throw Error(ErrorKind::kMemory, "machine.lock_memory",
              "cannot lock " + std::to_string(bytes_ >> 20) + " MiB: " + std::strerror(errno),
              "raise the limit (ulimit -l)");
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : file_(std::move(other.file_)), data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  if (this != &other) {
    if (data_ != nullptr) munmap(data_, bytes_);
    file_ = std::move(other.file_);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = other.bytes_;
  }
  return *this;
}

void SharedMemory::populate(std::size_t offset, std::size_t bytes) const {
  const std::size_t begin = offset / kPage * kPage, end = align_up(offset + bytes, kPage);
  if (end == begin || madvise(data_ + begin, end - begin, kPopulateWrite) == 0) return;
  if (errno != EINVAL) refuse("fill", bytes);
  // An older kernel: a write of nothing to every page, which does not disturb what another process has put there.
  for (std::size_t page = begin; page < end; page += kPage) {
    __atomic_fetch_or(static_cast<unsigned char*>(static_cast<void*>(data_ + page)), static_cast<unsigned char>(0),
                      __ATOMIC_RELAXED);
  }
}

bool send_descriptor(int socket, int descriptor) noexcept {
  DescriptorMessage message;
  cmsghdr* const part = CMSG_FIRSTHDR(&message.header);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(part), &descriptor, sizeof descriptor);
  return sendmsg(socket, &message.header, MSG_NOSIGNAL) == 1;
}

Descriptor receive_descriptor(int socket, int timeout_ms) noexcept {
  pollfd ready{socket, POLLIN, 0};
  int polled = 0;
  do {
    polled = poll(&ready, 1, timeout_ms);
  } while (polled < 0 && errno == EINTR);
  if (polled != 1) return Descriptor();
  DescriptorMessage message;
  if (recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC) != 1) return Descriptor();
  const cmsghdr* const part = CMSG_FIRSTHDR(&message.header);
  if (part == nullptr || part->cmsg_type != SCM_RIGHTS || part->cmsg_len != CMSG_LEN(sizeof(int))) return Descriptor();
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(part), sizeof descriptor);
  return Descriptor(descriptor);
}

}  // namespace bascule
