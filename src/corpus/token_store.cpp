// SPDX-License-Identifier: Apache-2.0
#include "src/corpus/token_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>

#include "src/base/check.h"
#include "src/base/descriptor.h"
#include "src/base/digest.h"
#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/files/durable_write.h"
#include "src/files/input_file.h"

namespace bascule {
namespace {

constexpr std::int64_t kNarrowIds = 65536;

// A file that is missing is the reader's to name.
std::uint64_t state_of(const DataFiles& files) {
  Digest digest;
  for (const DataFile& file : files.manifests) {
    struct stat facts = {};
    (void)::stat(file.path.c_str(), &facts);
    for (const auto number :
         {static_cast<std::uint64_t>(facts.st_size), static_cast<std::uint64_t>(facts.st_mtim.tv_sec),
          static_cast<std::uint64_t>(facts.st_mtim.tv_nsec), static_cast<std::uint64_t>(facts.st_ino)}) {
      digest.add_number(number);
    }
  }
  return digest.value();
}

// The file of a token store: ids, then the tables of ends and lines, then a trailer that says what it is. All of it is
// appended, as the text is read.

// Raised whenever the layout changes, or what is made of the same text.
constexpr std::uint64_t kTokenStoreFormat = 4;

// The text and the tokenizer that a store was made from.
struct TokenSource {
  std::uint64_t state = 0;  // size, time of change and inode of every file
  std::uint64_t tokenizer = 0;
  bool operator==(const TokenSource& other) const { return state == other.state && tokenizer == other.tokenizer; }
};

struct TokenStoreTrailer {
  char magic[8] = {'B', 'A', 'S', 'C', 'T', 'O', 'K', '\n'};
  std::uint64_t format = kTokenStoreFormat;
  TokenSource source;
  std::uint64_t text_digest = 0;
  std::uint64_t id_bytes = 0;
  std::uint64_t tokens = 0, sentences = 0, documents = 0, files = 0;
  std::uint64_t longest_sentence = 0;
  std::uint64_t others = 0;           // TokenStore::others()
  std::uint64_t contents_digest = 0;  // XXH3 of everything before the trailer
  std::uint64_t own_digest = 0;       // of everything before this
};

// Throws Error (kDisk).
class TokenStoreWriter {
 public:
  // shown: the file's path for messages.
  TokenStoreWriter(OutputFile& file, bool is_wide, std::string shown) : file_(file), shown_(std::move(shown)) {
    trailer_.id_bytes = is_wide ? sizeof(std::uint32_t) : sizeof(std::uint16_t);
  }

  // Nothing may be added to a document after its end. Empty sentences and documents leave nothing.
  void add_sentence(Span<const std::int32_t> ids, std::int64_t line) {
    if (ids.empty()) return;
    for (const std::int32_t id : ids) {
      if (trailer_.id_bytes == sizeof(std::uint16_t)) {
        narrow_.push_back(static_cast<std::uint16_t>(id));
      } else {
        wide_.push_back(static_cast<std::uint32_t>(id));
      }
    }
    trailer_.tokens += ids.size();
    trailer_.longest_sentence = std::max<std::uint64_t>(trailer_.longest_sentence, ids.size());
    sentence_end_.push_back(trailer_.tokens);
    line_.push_back(static_cast<std::uint32_t>(line));
    if (std::max(narrow_.size(), wide_.size()) >= kBlockIds) write_ids();
  }
  void end_document() {
    const std::uint64_t before = document_end_.empty() ? 0 : document_end_.back();
    if (sentence_end_.size() > before) document_end_.push_back(sentence_end_.size());
  }
  void end_file() { file_end_.push_back(sentence_end_.size()); }

  // Completes and syncs the file. Returns its trailer.
  TokenStoreTrailer finish(const TokenSource& source, std::uint64_t text_digest, std::int64_t others) {
    write_ids();
    fill_up(trailer_.tokens * trailer_.id_bytes);
    write_table(sentence_end_);
    write_table(document_end_);
    write_table(file_end_);
    write_table(line_);
    trailer_.source = source;
    trailer_.text_digest = text_digest;
    trailer_.sentences = sentence_end_.size();
    trailer_.documents = document_end_.size();
    trailer_.files = file_end_.size();
    trailer_.others = static_cast<std::uint64_t>(others);
    trailer_.contents_digest = file_.digest();
    trailer_.own_digest = digest_of(&trailer_, offsetof(TokenStoreTrailer, own_digest));
    write(&trailer_, sizeof trailer_);
    throw_if_failed(file_.sync_and_close(), shown_, "syncing the tokens of the corpus");
    return trailer_;
  }

 private:
  static constexpr std::size_t kBlockIds = std::size_t{1} << 19;

  void write(const void* data, std::size_t bytes) {
    throw_if_failed(file_.write(data, bytes), shown_, "writing the tokens of the corpus");
  }
  // Each table begins on a bound of eight bytes.
  void fill_up(std::size_t written) {
    static constexpr char kZeros[sizeof(std::uint64_t)] = {};
    write(kZeros, align_up(written, sizeof kZeros) - written);
  }
  template <typename T>
  void write_table(const std::vector<T>& table) {
    write(table.data(), table.size() * sizeof(T));
    fill_up(table.size() * sizeof(T));
  }
  void write_ids() {
    write(narrow_.data(), narrow_.size() * sizeof narrow_[0]);
    write(wide_.data(), wide_.size() * sizeof wide_[0]);
    narrow_.clear();
    wide_.clear();
  }

  OutputFile& file_;
  const std::string shown_;
  TokenStoreTrailer trailer_;
  std::vector<std::uint16_t> narrow_;  // ids that are not written yet: here or in wide_
  std::vector<std::uint32_t> wide_;
  std::vector<std::uint64_t> sentence_end_, document_end_, file_end_;
  std::vector<std::uint32_t> line_;
};

struct TokenText {
  const DataFiles& files;
  const std::optional<TextPart>& part;
  TokenSource source;
};

std::string name_of(const TokenStoreTrailer& trailer) {
  Digest digest;
  for (const std::uint64_t number : {trailer.text_digest, trailer.source.tokenizer, trailer.format})
    digest.add_number(number);
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(digest.value()));
  return std::string(kTokenStorePrefix) + text;
}

// Tokenises the text, or a part of it. Returns the trailer of what was written.
TokenStoreTrailer write_tokens(OutputFile& file, const std::string& shown, const TokenText& text,
                               const Tokenizer& tokenizer) {
  TokenStoreWriter writer(file, tokenizer.vocabulary_size() > kNarrowIds, shown);
  const std::size_t before = tokenizer.before().size(), special = before + tokenizer.after().size();
  std::vector<std::byte> scratch;
  std::vector<std::int32_t> ids;
  TextVisitor visitor;
  visitor.sentence = [&](std::string_view sentence, std::int64_t line) {
    scratch.resize(std::max(scratch.size(), tokenizer.scratch_bytes(sentence.size())));
    ids.resize(std::max(ids.size(), sentence.size() + special + 1));
    Encoded encoded;
    // Few texts have more tokens than bytes. A sequence that fills all of ids may have been cut there.
    for (;; ids.resize(2 * ids.size())) {
      BASCULE_CHECK(tokenizer.encode_into({sentence}, ids, &encoded, scratch).ok());  // the reader takes UTF-8 alone
      if (static_cast<std::size_t>(encoded.tokens) < ids.size()) break;
    }
    const std::size_t count = static_cast<std::size_t>(encoded.tokens) - special;
    writer.add_sentence(Span<const std::int32_t>(ids.data() + before, count), line);
  };
  visitor.end_document = [&] { writer.end_document(); };
  visitor.end_file = [&] { writer.end_file(); };
  if (!text.part) return writer.finish(text.source, read_text(text.files, visitor), 0);
  std::int64_t others = 0;
  const std::uint64_t digest = read_part(text.files, *text.part, visitor, &others);
  return writer.finish(text.source, digest, others);
}

}  // namespace

// Maps what a descriptor holds, if it is the store of that source and whole.
struct TokenStoreFile {
  static std::unique_ptr<const TokenStore> map(int descriptor, const TokenSource& source) {
    struct stat facts = {};
    TokenStoreTrailer trailer;
    if (::fstat(descriptor, &facts) != 0 || facts.st_size < static_cast<::off_t>(sizeof trailer)) return nullptr;
    const std::size_t bytes = static_cast<std::size_t>(facts.st_size), contents = bytes - sizeof trailer;
    // The trailer first: a store of another text is not read.
    if (::pread(descriptor, &trailer, sizeof trailer, static_cast<::off_t>(contents)) != sizeof trailer) return nullptr;
    const TokenStoreTrailer expected;
    if (std::memcmp(trailer.magic, expected.magic, sizeof expected.magic) != 0 || trailer.format != expected.format ||
        trailer.own_digest != digest_of(&trailer, offsetof(TokenStoreTrailer, own_digest)) ||
        !(trailer.source == source)) {
      return nullptr;
    }
    void* const data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, descriptor, 0);
    if (data == MAP_FAILED) return nullptr;
    std::unique_ptr<TokenStore> store(new TokenStore);
    store->data_ = data;
    store->bytes_ = bytes;
    if (digest_of(data, contents) != trailer.contents_digest) return nullptr;
    place(store.get(), trailer);
    return store;
  }

 private:
  // The digests are right, so the tables are those that were written.
  static void place(TokenStore* store, const TokenStoreTrailer& trailer) {
    const auto* at = static_cast<const std::byte*>(store->data_);
    at += align_up(trailer.tokens * trailer.id_bytes, sizeof(std::uint64_t));
    const auto take = [&at](auto* table, std::uint64_t count) {
      using Element = std::remove_reference_t<decltype((*table)[0])>;
      *table = {static_cast<Element*>(static_cast<const void*>(at)), count};
      at += align_up(count * sizeof(Element), sizeof(std::uint64_t));
    };
    take(&store->sentence_end_, trailer.sentences);
    take(&store->document_end_, trailer.documents);
    take(&store->file_end_, trailer.files);
    take(&store->line_, trailer.sentences);
    store->tokens_ = static_cast<std::int64_t>(trailer.tokens);
    store->longest_sentence_ = static_cast<std::int64_t>(trailer.longest_sentence);
    store->is_wide_ = trailer.id_bytes == sizeof(std::uint32_t);
    store->text_digest_ = trailer.text_digest;
    store->others_ = static_cast<std::int64_t>(trailer.others);
  }
};

namespace {

std::unique_ptr<const TokenStore> find_store(const std::string& folder, const TokenSource& source) {
  for (const std::string& name : folder_entries(folder)) {
    if (name.rfind(kTokenStorePrefix, 0) != 0) continue;
    const Descriptor file(open_regular_file(AT_FDCWD, (folder + "/" + name).c_str()));
    if (!file.is_open()) continue;
    if (std::unique_ptr<const TokenStore> store = TokenStoreFile::map(file.number(), source)) return store;
  }
  return nullptr;
}

Error cannot_be_mapped(const DataFiles& files, int reason) {
  return Error{ErrorKind::kMemory, files.name,
               std::string("its tokens cannot be mapped into memory: ") + std::strerror(reason)};
}

[[noreturn]] void refuse_disk(const std::string& path, const std::string& what) {
  throw_if_failed(Status{StatusCode::kDiskFailed, {errno, 0}}, path, what);
  std::abort();
}

// Beside, until it is whole; one process of a machine at a time writes it, and the others wait for that.
class LockedFile : NonCopyable {
 public:
  explicit LockedFile(std::string path) : path_(std::move(path)) {
    file_ = Descriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (!file_.is_open()) refuse_disk(path_, "creating the file for the tokens of the corpus");
    while (::flock(file_.number(), LOCK_EX) != 0) {
      if (errno != EINTR) refuse_disk(path_, "locking it");
    }
  }
  // A mapping of the file would keep the lock.
  ~LockedFile() { ::flock(file_.number(), LOCK_UN); }
  // The process that had the lock may have given the file its name.
  bool is_still_there() const {
    struct stat ours = {}, named = {};
    return ::fstat(file_.number(), &ours) == 0 && ::stat(path_.c_str(), &named) == 0 && ours.st_ino == named.st_ino;
  }
  int number() const { return file_.number(); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  Descriptor file_;
};

std::string made_note(const TokenText& text, const TokenStore& store, const std::string& kept) {
  const char* const part = !text.part ? "" : text.part->is_held_out ? ", held out" : ", not held out";
  return text.files.name + part + ": " + count_of(store.documents(), "document") + ", " +
         count_of(store.sentences(), "sentence") + ", " + count_of(store.tokens(), "token") +
         (kept.empty() ? "" : ", kept in " + kept);
}

OpenedTokens make_in_folder(const TokenText& text, const Tokenizer& tokenizer, const std::string& folder) {
  make_folders(folder);
  for (;;) {
    const LockedFile locked(folder + "/" + kTemporaryPrefix + kTokenStorePrefix);
    if (std::unique_ptr<const TokenStore> store = find_store(folder, text.source)) {
      if (locked.is_still_there()) ::unlink(locked.path().c_str());
      return {std::move(store), "", ""};
    }
    if (!locked.is_still_there()) continue;
    try {
      if (::ftruncate(locked.number(), 0) != 0) refuse_disk(locked.path(), "emptying it");
      OutputFile file(Descriptor(::fcntl(locked.number(), F_DUPFD_CLOEXEC, 0)));
      const std::string name = name_of(write_tokens(file, locked.path(), text, tokenizer));
      const std::string named = folder + "/" + name;
      // In one step: a process that no longer finds the locked file finds the tokens.
      if (::rename(locked.path().c_str(), named.c_str()) != 0) refuse_disk(named, "renaming");
      throw_if_failed(sync_folder(folder.c_str()), named, "renaming");
      std::unique_ptr<const TokenStore> store = TokenStoreFile::map(locked.number(), text.source);
      if (!store) throw cannot_be_mapped(text.files, errno);
      std::string note = made_note(text, *store, shown_path(named));
      return {std::move(store), std::move(note), named};
    } catch (...) {
      if (locked.is_still_there()) ::unlink(locked.path().c_str());
      throw;
    }
  }
}

OpenedTokens make_in_memory(const TokenText& text, const Tokenizer& tokenizer) {
  const Descriptor memory(::memfd_create("tokens", MFD_CLOEXEC));
  if (!memory.is_open()) throw cannot_be_mapped(text.files, errno);
  OutputFile file(Descriptor(::fcntl(memory.number(), F_DUPFD_CLOEXEC, 0)));
  write_tokens(file, text.files.name, text, tokenizer);
  std::unique_ptr<const TokenStore> store = TokenStoreFile::map(memory.number(), text.source);
  if (!store) throw cannot_be_mapped(text.files, errno);
  std::string note = made_note(text, *store, "");
  return {std::move(store), std::move(note), ""};
}

}  // namespace

TokenStore::~TokenStore() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

std::int64_t TokenStore::sentence_of(std::int64_t token) const noexcept {
  const auto* const end =
      std::upper_bound(sentence_end_.begin(), sentence_end_.end(), static_cast<std::uint64_t>(token));
  return end - sentence_end_.begin();
}

void TokenStore::copy(std::int64_t first, std::int64_t count, std::int32_t* ids) const noexcept {
  BASCULE_DCHECK(first >= 0 && first + count <= tokens_);
  if (is_wide_) {
    std::memcpy(ids, static_cast<const std::uint32_t*>(data_) + first, static_cast<std::size_t>(count) * sizeof *ids);
    return;
  }
  const auto* const narrow = static_cast<const std::uint16_t*>(data_) + first;
  std::copy(narrow, narrow + count, ids);
}

OpenedTokens open_tokens(const DataFiles& files, const Tokenizer& tokenizer, const std::string& folder, bool keeps,
                         const std::optional<TextPart>& part) {
  const std::uint64_t state = state_of(files);
  const TokenText text{files, part, {part ? digest_of_part(state, *part) : state, tokenizer.digest()}};
  if (std::unique_ptr<const TokenStore> store = find_store(folder, text.source)) return {std::move(store), "", ""};
  return keeps ? make_in_folder(text, tokenizer, folder) : make_in_memory(text, tokenizer);
}

}  // namespace bascule
