// SPDX-License-Identifier: Apache-2.0
#include "src/index/index_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <type_traits>

#include "src/base/digest.h"
#include "src/base/error.h"
#include "src/base/span.h"
#include "src/files/durable_write.h"
#include "src/files/input_file.h"

namespace bascule {
namespace {

constexpr char kIndexMagic[8] = {'B', 'A', 'S', 'C', 'I', 'D', 'X', '\n'};
// Raised whenever the layout changes, or what readers make of the same file.
constexpr std::uint64_t kIndexFormat = 6;
constexpr std::size_t kSections = 13;

struct Section {
  std::uint64_t offset = 0;  // from the front of the file
  std::uint64_t bytes = 0;
};

struct Header {
  char magic[8] = {};
  std::uint64_t format = 0;
  IndexSource source;
  ManifestFigures figures;
  std::uint64_t files = 0;  // manifests or shards
  std::array<Section, kSections> sections = {};
  std::uint64_t file_bytes = 0;
  std::uint64_t tables_digest = 0;  // XXH3 of everything behind the header
  std::uint64_t header_digest = 0;  // XXH3 of everything before this
};
static_assert(std::is_trivially_copyable_v<Header>);
static_assert(sizeof(PicturePlace) == 16 && sizeof(ManifestFigures) == 7 * sizeof(std::uint64_t));

constexpr std::size_t kTablesBegin = align_up(sizeof(Header), kCacheLine);

std::uint64_t digest_of_header(const Header& header) { return XXH3_64bits(&header, offsetof(Header, header_digest)); }

template <typename T>
Span<const unsigned char> bytes_of(Span<const T> table) {
  return {static_cast<const unsigned char*>(static_cast<const void*>(table.data())), table.size_bytes()};
}

std::array<Span<const unsigned char>, kSections> sections_of(const ManifestTables& tables) {
  return std::apply([](const auto&... table) { return std::array{bytes_of(table)...}; }, tables.all());
}

// A table as the header places it. False: it does not lie within the file.
template <typename T>
bool take_section(const IndexMapping& mapping, const Section& section, Span<const T>* table) {
  if (section.offset % kCacheLine != 0 || section.bytes % sizeof(T) != 0 || section.offset > mapping.bytes() ||
      section.bytes > mapping.bytes() - section.offset) {
    return false;
  }
  *table = Span<const T>(static_cast<const T*>(static_cast<const void*>(mapping.data() + section.offset)),
                         section.bytes / sizeof(T));
  return true;
}

bool take_sections(const IndexMapping& mapping, const std::array<Section, kSections>& s, ManifestTables* t) {
  std::size_t number = 0;
  return std::apply([&](auto&... table) { return (take_section(mapping, s[number++], &table) && ...); }, t->all());
}

std::size_t files_in(const DataFiles& files) { return files.shards.size() + files.manifests.size(); }

// Whether counts fit each other, and text tables end where their ends say.
bool counts_fit(const ManifestTables& t, const ManifestFigures& f, const DataFiles& files) {
  const bool in_shards = !files.shards.empty();
  const auto is = [](std::size_t size, std::uint64_t count) { return size == count; };
  if (f.rows == 0 || f.pictures > f.rows || (in_shards && f.pictures == 0)) return false;
  if (t.text_end.empty() || t.text_end.size() % f.rows != 0) return false;
  if (!is(t.name_end.size(), f.pictures)) return false;
  if (!is(t.image_of_row.size(), in_shards || f.pictures == 0 ? 0 : f.rows)) return false;
  if (!is(t.line.size(), in_shards ? 0 : f.rows)) return false;
  const bool labels_fit = t.labels.empty() || is(t.labels.size(), f.rows) || is(t.labels.size(), 2 * f.rows) ||
                          is(t.labels.size(), 4 * f.rows);
  const bool tags_fit = t.tag_end.empty()
                            ? t.tags.empty()
                            : is(t.tag_end.size(), f.rows) && t.tag_end[t.tag_end.size() - 1] == t.tags.size();
  if (!labels_fit || !tags_fit) return false;
  if (!is(t.places.size(), in_shards ? f.pictures : 0)) return false;
  if (!is(t.picture_bytes.size(), in_shards ? 0 : f.pictures)) return false;
  if (in_shards && f.pictures != f.rows) return false;
  if (!is(t.file_end.size(), files.manifests.size()) || (!in_shards && t.file_end[t.file_end.size() - 1] != f.rows))
    return false;
  const bool names_fit = f.pictures == 0 ? t.names.empty()
                                         : !t.names.empty() && t.names[t.names.size() - 1] == 0 &&
                                               t.name_end[f.pictures - 1] == t.names.size();
  return names_fit && t.text_end[t.text_end.size() - 1] == t.texts.size() && f.longest_text_bytes <= t.texts.size();
}

// The contents in the order of the file: every section, then zeros up to the next bound.
template <typename Put>
Status put_sections(const ManifestTables& tables, const Put& put) {
  static constexpr char kZeros[kCacheLine] = {};
  for (const Span<const unsigned char> section : sections_of(tables)) {
    BASCULE_TRY(put(section.data(), section.size()));
    BASCULE_TRY(put(kZeros, align_up(section.size(), kCacheLine) - section.size()));
  }
  return ok_status();
}

Header header_of(const IndexSource& source, const ManifestTables& tables, const ManifestFigures& figures,
                 std::size_t files) {
  Header header;
  std::memcpy(header.magic, kIndexMagic, sizeof kIndexMagic);
  header.format = kIndexFormat;
  header.source = source;
  header.figures = figures;
  header.files = files;
  std::uint64_t place = kTablesBegin;
  const auto sections = sections_of(tables);
  for (std::size_t i = 0; i < kSections; ++i) {
    header.sections[i] = {place, sections[i].size()};
    place += align_up(sections[i].size(), kCacheLine);
  }
  header.file_bytes = place;
  Digest digest;
  (void)put_sections(tables, [&](const void* data, std::size_t bytes) {
    digest.add(data, bytes);
    return ok_status();
  });
  header.tables_digest = digest.value();
  header.header_digest = digest_of_header(header);
  return header;
}

Status write_contents(OutputFile& file, const Header& header, const ManifestTables& tables) {
  char front[kTablesBegin] = {};
  std::memcpy(front, &header, sizeof header);
  BASCULE_TRY(file.write(front, sizeof front));
  BASCULE_TRY(put_sections(tables, [&](const void* data, std::size_t bytes) { return file.write(data, bytes); }));
  return file.sync_and_close();
}

Header read_header(const IndexMapping& mapping) {
  Header header;
  std::memcpy(&header, mapping.data(), sizeof header);
  return header;
}

// Whether an index is of that source and sound as far as its header tells; then its tables, and what is true of them.
bool take_tables(const IndexMapping& index, const DataFiles& files, ManifestTables* tables, ManifestFigures* figures) {
  const Header header = read_header(index);
  if (std::memcmp(header.magic, kIndexMagic, sizeof kIndexMagic) != 0 || header.format != kIndexFormat ||
      header.header_digest != digest_of_header(header) || !(header.source == index.source()) ||
      header.file_bytes != index.bytes() || header.files != files_in(files)) {
    return false;
  }
  *figures = header.figures;
  return take_sections(index, header.sections, tables) && counts_fit(*tables, *figures, files);
}

// 0 or errno; ENODATA: the file is shorter.
int read_all(int file, void* data, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    const ::ssize_t got = ::pread(file, static_cast<char*>(data) + done, bytes - done, static_cast<::off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 ? errno : ENODATA;
    done += static_cast<std::size_t>(got);
  }
  return 0;
}

}  // namespace

IndexMapping::~IndexMapping() { ::munmap(data_, bytes_); }

std::unique_ptr<IndexMapping> IndexMapping::read() const {
  void* const data = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    throw Error{ErrorKind::kMemory, path_, "out of memory for an index of " + std::to_string(bytes_) + " bytes"};
  }
  auto own = std::make_unique<IndexMapping>(path_, source_, Descriptor(), data, bytes_);
  if (read_all(file_.number(), data, bytes_) != 0) return nullptr;
  (void)::mprotect(data, bytes_, PROT_READ);
  return own;
}

bool IndexMapping::is_whole() const {
  const Header header = read_header(*this);
  return XXH3_64bits(data() + kTablesBegin, bytes_ - kTablesBegin) == header.tables_digest;
}

std::optional<Manifest> IndexFile::open(const std::string& path, const IndexSource& source, const DataFiles& files) {
  Descriptor index(open_regular_file(AT_FDCWD, path.c_str()));
  struct stat facts = {};
  if (!index.is_open() || ::fstat(index.number(), &facts) != 0) return std::nullopt;
  const std::size_t bytes = static_cast<std::size_t>(facts.st_size);
  if (bytes < kTablesBegin) return std::nullopt;
  void* const data = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, index.number(), 0);
  if (data == MAP_FAILED) return std::nullopt;
  auto mapping = std::make_unique<IndexMapping>(path, source, std::move(index), data, bytes);
  Manifest manifest;
  if (!take_tables(*mapping, files, &manifest.tables_, &manifest.figures_)) return std::nullopt;
  manifest.files_ = files;
  manifest.find_class_names();
  manifest.mapping_ = std::move(mapping);
  return manifest;
}

// A plan made from the figures that were read first holds only if the file still has them.
bool IndexFile::read_into_memory(Manifest* manifest) {
  std::unique_ptr<IndexMapping> own = manifest->mapping_->read();
  ManifestTables tables;
  ManifestFigures figures;
  if (!own || !take_tables(*own, manifest->files_, &tables, &figures) || !own->is_whole() ||
      std::memcmp(&figures, &manifest->figures_, sizeof figures) != 0) {
    return false;
  }
  manifest->tables_ = tables;
  manifest->mapping_ = std::move(own);
  return true;
}

// One name for all processes, and a lock on it: what a killed process left is taken over.
std::string IndexFile::write(const std::string& path, const IndexSource& source, const Manifest& manifest) {
  const std::size_t slash = path.rfind('/') + 1;
  const std::string folder = path.substr(0, slash), name = path.substr(slash),
                    beside = folder + kTemporaryPrefix + name;
  const auto say = [](int reason) { return std::string(std::strerror(reason)); };
  const Descriptor lock(::open(beside.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.is_open()) return say(errno);
  if (::flock(lock.number(), LOCK_EX | LOCK_NB) != 0) return "another process is writing it";
  // Between open and lock the file may have been given its name by the process that wrote it.
  struct stat ours = {}, named = {};
  if (::fstat(lock.number(), &ours) != 0 || ::stat(beside.c_str(), &named) != 0 || ours.st_ino != named.st_ino) {
    return "another process has just written it";
  }
  OutputFile file(Descriptor(::fcntl(lock.number(), F_DUPFD_CLOEXEC, 0)));  // `lock` holds until the file has its name
  const Header header = header_of(source, manifest.tables_, manifest.figures_, files_in(manifest.files_));
  if (::ftruncate(lock.number(), 0) != 0) return say(errno);
  Status status = write_contents(file, header, manifest.tables_);
  if (status.ok()) status = publish_file(folder.c_str(), name);
  if (status.ok()) return "";
  ::unlink(beside.c_str());
  return say(static_cast<int>(status.detail[0]));
}

}  // namespace bascule
