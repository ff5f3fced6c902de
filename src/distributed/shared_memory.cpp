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

#include "src/base/error.h"

namespace bascule {
namespace {

[[noreturn]] void refuse(const char* what, std::size_t bytes) {
  const int reason = errno;
  const bool is_small = bytes < std::size_t{1} << 20;
  const std::string size = is_small ? std::to_string(bytes >> 10) + " KiB" : std::to_string(bytes >> 20) + " MiB";
  // It is a file in memory, to which the limit of files applies.
  throw Error(ErrorKind::kMemory, "shared memory",
              std::string("cannot ") + what + " " + size + ": " + std::strerror(reason),
              reason == EFBIG ? "raise the limit of file sizes (ulimit -f)" : "see `bascule plan`");
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

SharedMemory::SharedMemory(std::size_t bytes, HugePages pages) {
  bool is_mapped = false;
  for (const HugePages kind : {pages, HugePages::kTransparent}) {
    const bool from_pool = kind == HugePages::kReserved;
    bytes_ = align_up(std::max(bytes, kPage), from_pool ? kHugePage : kPage);
    file_ = Descriptor(memfd_create("bascule", MFD_CLOEXEC | (from_pool ? MFD_HUGETLB : 0u)));
    is_mapped = file_.is_open() && ftruncate(file_.number(), static_cast<off_t>(bytes_)) == 0 && map(kind);
    if (is_mapped || !from_pool) break;
  }
  if (!is_mapped) refuse("make", bytes_);
}

SharedMemory::SharedMemory(Descriptor file, HugePages pages) : file_(std::move(file)) {
  struct stat status = {};
  if (fstat(file_.number(), &status) != 0) refuse("map", 0);
  bytes_ = static_cast<std::size_t>(status.st_size);
  if (!map(pages)) refuse("map", bytes_);
}

bool SharedMemory::map(HugePages pages) noexcept {
  data_ = map_memory(bytes_, pages, file_.number());
  return data_ != nullptr;
}

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

namespace {

// The pictures of two batches: a rank never waits for one that looks once a batch.
std::uint64_t capacity_for(std::int64_t batch) { return 2 * static_cast<std::uint64_t>(batch); }

}  // namespace

DrawnQueue::DrawnQueue(std::byte* memory, std::int64_t batch, std::int64_t digests) noexcept
    : memory_(memory), capacity_(capacity_for(batch)), digests_(digests) {}

std::size_t DrawnQueue::bytes(int ranks, std::int64_t batch, std::int64_t digests) noexcept {
  const std::uint64_t entries = capacity_for(batch) * (3 + static_cast<std::uint64_t>(digests)) * sizeof(std::uint64_t);
  return static_cast<std::size_t>(ranks) * (sizeof(Ring) + align_up<std::size_t>(entries, kCacheLine));
}

DrawnQueue::Ring& DrawnQueue::ring(int rank) const noexcept {
  const std::size_t stride =
      sizeof(Ring) + align_up<std::size_t>(capacity_ * words_of_entry() * sizeof(std::uint64_t), kCacheLine);
  return *static_cast<Ring*>(static_cast<void*>(memory_ + static_cast<std::size_t>(rank) * stride));
}

std::uint64_t* DrawnQueue::words(int rank, std::uint64_t place) const noexcept {
  std::uint64_t* const first = static_cast<std::uint64_t*>(static_cast<void*>(&ring(rank) + 1));
  return first + place % capacity_ * words_of_entry();
}

bool DrawnQueue::push(int rank, const DrawnPicture& picture, Span<const std::uint64_t> latents) noexcept {
  Ring& own = ring(rank);
  const std::uint64_t place = own.written.load(std::memory_order_relaxed);
  if (place - own.read.load(std::memory_order_acquire) == capacity_) return false;
  std::uint64_t* const word = words(rank, place);
  word[0] = picture.number;
  std::memcpy(word + 1, &picture.seconds, sizeof picture.seconds);
  word[2] = picture.digest;
  std::copy_n(latents.data(), digests_, word + 3);
  own.written.store(place + 1, std::memory_order_release);
  return true;
}

bool DrawnQueue::front(int rank, Entry* entry) const noexcept {
  const Ring& own = ring(rank);
  const std::uint64_t place = own.read.load(std::memory_order_relaxed);
  if (place == own.written.load(std::memory_order_acquire)) return false;
  const std::uint64_t* const word = words(rank, place);
  entry->picture.number = static_cast<std::size_t>(word[0]);
  std::memcpy(&entry->picture.seconds, word + 1, sizeof entry->picture.seconds);
  entry->picture.digest = word[2];
  entry->latents = {word + 3, static_cast<std::size_t>(digests_)};
  return true;
}

bool DrawnQueue::is_done(int rank) const noexcept {
  const Ring& own = ring(rank);
  // In this order: what was pushed before the end is seen.
  return own.has_ended.load(std::memory_order_acquire) != 0 &&
         own.read.load(std::memory_order_relaxed) == own.written.load(std::memory_order_relaxed);
}

}  // namespace bascule
