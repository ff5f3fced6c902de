// SPDX-License-Identifier: Apache-2.0
#include "tests/checkpoint/recorded_calls.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

namespace {

std::string recorded_folder;  // "" while nothing is recorded
std::vector<std::string> recorded;
bool is_disturbed = false;
bool was_interrupted = false;
constexpr size_t kFewBytes = 1000;

// "" for what lies elsewhere.
std::string relative(const std::string& path) {
  if (recorded_folder.empty()) return "";
  if (path == recorded_folder) return ".";
  const std::string start = recorded_folder + "/";
  return path.compare(0, start.size(), start) == 0 ? path.substr(start.size()) : "";
}

std::string path_of(int descriptor) {
  char path[PATH_MAX];
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t length = readlink(link.c_str(), path, sizeof path);
  return length > 0 ? std::string(path, static_cast<std::size_t>(length)) : "";
}

void note(const std::string& call, const std::string& path) {
  if (recorded_folder.empty() || path.empty()) return;
  const std::string line = call + " " + path;
  if (recorded.empty() || recorded.back() != line) recorded.push_back(line);
}

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t write(int descriptor, const void* data, size_t bytes) {
  static const auto real = next<ssize_t (*)(int, const void*, size_t)>("write");
  if (recorded_folder.empty()) return real(descriptor, data, bytes);
  const std::string path = relative(path_of(descriptor));
  note("write", path);
  if (!is_disturbed || path.empty()) return real(descriptor, data, bytes);
  was_interrupted = !was_interrupted;
  if (!was_interrupted) return real(descriptor, data, bytes < kFewBytes ? bytes : kFewBytes);
  errno = EINTR;
  return -1;
}

int fsync(int descriptor) {
  static const auto real = next<int (*)(int)>("fsync");
  if (!recorded_folder.empty()) note("sync", relative(path_of(descriptor)));
  return real(descriptor);
}

int rename(const char* from, const char* to) noexcept {
  static const auto real = next<int (*)(const char*, const char*)>("rename");
  const int result = real(from, to);
  if (result == 0 && !recorded_folder.empty()) note("rename", relative(from) + " " + relative(to));
  return result;
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  static const auto real = next<int (*)(int, const char*, int, const char*, unsigned)>("renameat2");
  const int result = real(from_folder, from, to_folder, to, flags);
  if (result == 0 && !recorded_folder.empty()) note("exchange", relative(from) + " " + relative(to));
  return result;
}

int unlinkat(int folder, const char* name, int flags) noexcept {
  static const auto real = next<int (*)(int, const char*, int)>("unlinkat");
  if (recorded_folder.empty()) return real(folder, name, flags);
  const std::string path = name[0] == '/' ? std::string(name) : path_of(folder) + "/" + name;
  const int result = real(folder, name, flags);
  if (result == 0) note("remove", relative(path));
  return result;
}

}  // extern "C"

namespace bascule::test {

RecordedCalls::RecordedCalls(std::string folder) {
  recorded.clear();
  is_disturbed = was_interrupted = false;
  recorded_folder = std::move(folder);
}
RecordedCalls::~RecordedCalls() { recorded_folder.clear(); }

void RecordedCalls::disturb_writes() { is_disturbed = true; }

std::vector<std::string> RecordedCalls::calls() const { return recorded; }

}  // namespace bascule::test
