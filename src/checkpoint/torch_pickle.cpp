// SPDX-License-Identifier: Apache-2.0
// The pickle machine, cut down to what torch.save writes for a dictionary of tensors (protocol 2): a stack, a memo, and
// values that can only be data. The names of globals are compared with a list; no name leads to code. Source of the
// opcodes: Python, Lib/pickletools.py.
#include "src/checkpoint/torch_pickle.h"

#include <cstdio>
#include <deque>
#include <optional>
#include <string_view>
#include <utility>

#include "src/base/error.h"

namespace bascule {
namespace {

constexpr std::int64_t kMaxPickleBytes = std::int64_t{1} << 26;  // the largest model's is under 1 MB

struct Value {
  enum class Kind { kNone, kBool, kInt, kFloat, kString, kTuple, kList, kDict, kGlobal, kStorage, kTensor, kMark };
  Kind kind = Kind::kNone;
  std::int64_t number = 0;        // kBool, kInt; kStorage: elements
  std::string text;               // kString, kGlobal; kStorage: key
  std::vector<Value*> items;      // kTuple, kList; kDict: key, value, key, value, ...
  DType dtype = DType::kFloat32;  // kStorage
  StoredTensor tensor;            // kTensor
};

constexpr std::pair<const char*, DType> kStorages[] = {
    {"torch FloatStorage", DType::kFloat32}, {"torch BFloat16Storage", DType::kBFloat16},
    {"torch HalfStorage", DType::kFloat16},  {"torch DoubleStorage", DType::kFloat64},
    {"torch LongStorage", DType::kInt64},    {"torch IntStorage", DType::kInt32},
    {"torch ShortStorage", DType::kInt16},   {"torch CharStorage", DType::kInt8},
    {"torch ByteStorage", DType::kUInt8},    {"torch BoolStorage", DType::kBool}};
constexpr const char* kOrderedDict = "collections OrderedDict";
constexpr const char* kRebuildTensor = "torch._utils _rebuild_tensor_v2";
constexpr const char* kRebuildParameter = "torch._utils _rebuild_parameter";

std::optional<DType> storage_type(const std::string& global) {
  for (const auto& [name, type] : kStorages) {
    if (global == name) return type;
  }
  return std::nullopt;
}

class Unpickler {
 public:
  Unpickler(const InputFile& file, std::string pickle, const std::map<std::string, ZipEntry>& entries,
            std::string prefix)
      : file_(file), pickle_(std::move(pickle)), entries_(entries), prefix_(std::move(prefix)) {}

  const Value& run() {
    for (;;) {
      const auto opcode = static_cast<unsigned char>(take(1)[0]);
      if (opcode == '.') return *pop();
      if (!push_constant(opcode) && !build(opcode)) refuse_opcode(opcode);
    }
  }

  [[noreturn]] void bad(const std::string& what) const {
    throw Error{ErrorKind::kData, file_.path(), what, "save it again with save_pretrained, which writes safetensors"};
  }

 private:
  // --- The machine ---

  std::string_view take(std::size_t count) {
    if (count > pickle_.size() - at_) bad("its pickle is truncated");
    at_ += count;
    return std::string_view(pickle_).substr(at_ - count, count);
  }
  std::int64_t number(std::size_t bytes) {
    const std::string_view text = take(bytes);
    std::uint64_t value = 0;
    for (std::size_t i = bytes; i-- > 0;) value = value << 8 | static_cast<unsigned char>(text[i]);
    return static_cast<std::int64_t>(value);
  }
  std::string line() {
    const std::size_t end = pickle_.find('\n', at_);
    if (end == std::string::npos) bad("its pickle is truncated");
    std::string text(take(end - at_));
    take(1);
    return text;
  }

  Value* make(Value::Kind kind) {
    values_.emplace_back();
    values_.back().kind = kind;
    return &values_.back();
  }
  void push(Value* value) { stack_.push_back(value); }
  Value* pop() {
    if (stack_.empty()) bad("its pickle pops an empty stack");
    Value* value = stack_.back();
    stack_.pop_back();
    return value;
  }
  Value* pop(Value::Kind kind, const char* what) {
    Value* value = pop();
    if (value->kind != kind) bad(std::string("its pickle lacks a ") + what + " where one is required");
    return value;
  }
  Value* top(Value::Kind kind, const char* what) {
    Value* value = pop(kind, what);
    push(value);
    return value;
  }
  // Pops the values pushed since the last mark, and the mark.
  std::vector<Value*> pop_to_mark() {
    std::size_t mark = stack_.size();
    while (mark > 0 && stack_[mark - 1]->kind != Value::Kind::kMark) --mark;
    if (mark == 0) bad("its pickle lacks a mark");
    std::vector<Value*> items(stack_.begin() + static_cast<std::ptrdiff_t>(mark), stack_.end());
    stack_.resize(mark - 1);
    return items;
  }
  void push_number(Value::Kind kind, std::int64_t value) {
    push(make(kind));
    stack_.back()->number = value;
  }
  void push_tuple(std::vector<Value*> items) {
    push(make(Value::Kind::kTuple));
    stack_.back()->items = std::move(items);
  }
  void remember(std::int64_t place) {
    if (stack_.empty()) bad("its pickle pops an empty stack");
    memo_[place] = stack_.back();
  }
  void recall(std::int64_t place) {
    const auto found = memo_.find(place);
    if (found == memo_.end()) bad("its pickle reads a memo entry that was never stored");
    push(found->second);
  }
  void push_text(std::size_t bytes) {
    Value* text = make(Value::Kind::kString);
    text->text = take(bytes);
    push(text);
  }
  void push_long() {
    const auto bytes = static_cast<std::size_t>(number(1));
    if (bytes > 8) bad("its pickle has an integer of more than 64 bits");
    std::int64_t value = number(bytes);
    if (bytes > 0 && bytes < 8) {  // two's complement of `bytes` bytes
      const int unused_bits = 64 - 8 * static_cast<int>(bytes);
      value = static_cast<std::int64_t>(static_cast<std::uint64_t>(value) << unused_bits) >> unused_bits;
    }
    push_number(Value::Kind::kInt, value);
  }

  // --- The opcodes ---

  bool push_constant(unsigned char opcode) {
    switch (opcode) {
      case 0x80: check_protocol(number(1)); return true;                                            // PROTO
      case 'N': push(make(Value::Kind::kNone)); return true;                                        // NONE
      case 0x88: push_number(Value::Kind::kBool, 1); return true;                                   // NEWTRUE
      case 0x89: push_number(Value::Kind::kBool, 0); return true;                                   // NEWFALSE
      case 'K': push_number(Value::Kind::kInt, number(1)); return true;                             // BININT1
      case 'M': push_number(Value::Kind::kInt, number(2)); return true;                             // BININT2
      case 'J': push_number(Value::Kind::kInt, static_cast<std::int32_t>(number(4))); return true;  // BININT
      case 0x8a: push_long(); return true;                                                          // LONG1
      case 'G':
        take(8);
        push(make(Value::Kind::kFloat));
        return true;                                                          // BINFLOAT
      case 'X': push_text(static_cast<std::size_t>(number(4))); return true;  // BINUNICODE
      case ')': push(make(Value::Kind::kTuple)); return true;                 // EMPTY_TUPLE
      case ']': push(make(Value::Kind::kList)); return true;                  // EMPTY_LIST
      case '}': push(make(Value::Kind::kDict)); return true;                  // EMPTY_DICT
      case '(': push(make(Value::Kind::kMark)); return true;                  // MARK
      default: return false;
    }
  }

  bool build(unsigned char opcode) {
    switch (opcode) {
      case 'q': remember(number(1)); return true;        // BINPUT
      case 'r': remember(number(4)); return true;        // LONG_BINPUT
      case 'h': recall(number(1)); return true;          // BINGET
      case 'j': recall(number(4)); return true;          // LONG_BINGET
      case 0x85: push_tuple(pop_items(1)); return true;  // TUPLE1
      case 0x86: push_tuple(pop_items(2)); return true;  // TUPLE2
      case 0x87: push_tuple(pop_items(3)); return true;  // TUPLE3
      case 't': push_tuple(pop_to_mark()); return true;  // TUPLE
      case 's': set_items(pop_items(2)); return true;    // SETITEM
      case 'u': set_items(pop_to_mark()); return true;   // SETITEMS
      case 'a': append(pop_items(1)); return true;       // APPEND
      case 'e': append(pop_to_mark()); return true;      // APPENDS
      case 'c': push_global(); return true;              // GLOBAL
      case 'Q': push_storage(); return true;             // BINPERSID
      case 'R': reduce(); return true;                   // REDUCE
      case 'b': set_state(); return true;                // BUILD
      default: return false;
    }
  }

  [[noreturn]] void refuse_opcode(unsigned char opcode) const {
    char text[8];
    std::snprintf(text, sizeof text, "0x%02x", opcode);
    bad(std::string("its pickle has opcode ") + text + ", which a file of weights does not need");
  }

  void check_protocol(std::int64_t protocol) {
    if (protocol != 2) bad("its pickle has protocol " + std::to_string(protocol) + "; torch.save writes 2");
  }

  // The last values that were pushed, in their order.
  std::vector<Value*> pop_items(std::size_t count) {
    std::vector<Value*> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    return items;
  }
  void set_items(const std::vector<Value*>& items) {
    if (items.size() % 2 != 0) bad("its pickle has a dictionary key without a value");
    extend(top(Value::Kind::kDict, "dictionary"), items);
  }
  void append(const std::vector<Value*>& items) { extend(top(Value::Kind::kList, "list"), items); }
  static void extend(Value* container, const std::vector<Value*>& items) {
    container->items.insert(container->items.end(), items.begin(), items.end());
  }

  void push_global() {
    const std::string module = line();
    const std::string name = module + " " + line();
    if (name != kOrderedDict && name != kRebuildTensor && name != kRebuildParameter && !storage_type(name)) {
      bad("its pickle names \"" + name + "\", which a file of weights does not need");
    }
    push(make(Value::Kind::kGlobal));
    stack_.back()->text = name;
  }

  // ("storage", type, key, device, elements): the entry `prefix/data/key` of the archive.
  void push_storage() {
    const Value* id = pop(Value::Kind::kTuple, "tuple");
    const auto& items = id->items;
    const bool sound = items.size() == 5 && items[0]->text == "storage" && items[1]->kind == Value::Kind::kGlobal &&
                       items[2]->kind == Value::Kind::kString && items[4]->kind == Value::Kind::kInt;
    const std::optional<DType> type = sound ? storage_type(items[1]->text) : std::nullopt;
    if (!type) bad("its pickle has a persistent id that is not a storage");
    Value* storage = make(Value::Kind::kStorage);
    storage->text = items[2]->text;
    storage->dtype = *type;
    storage->number = items[4]->number;
    const ZipEntry entry = storage_entry(storage->text);
    if (storage->number < 0 || entry.bytes / static_cast<std::int64_t>(element_bytes(*type)) != storage->number) {
      bad("storage \"" + storage->text + "\" has " + std::to_string(entry.bytes) + " bytes, but the pickle says " +
          std::to_string(storage->number) + " elements");
    }
    push(storage);
  }

  ZipEntry storage_entry(const std::string& key) const {
    const auto place = entries_.find(prefix_ + "data/" + key);
    if (place == entries_.end()) bad("storage \"" + key + "\" is missing from the archive");
    return place->second;
  }

  void reduce() {
    const Value* arguments = pop(Value::Kind::kTuple, "tuple");
    const Value* function = pop(Value::Kind::kGlobal, "global");
    if (function->text == kOrderedDict && arguments->items.empty()) {
      push(make(Value::Kind::kDict));
    } else if (function->text == kRebuildTensor) {
      push_tensor(*arguments);
    } else if (function->text == kRebuildParameter && !arguments->items.empty() &&
               arguments->items[0]->kind == Value::Kind::kTensor) {
      push(arguments->items[0]);
    } else {
      bad("its pickle calls \"" + function->text + "\" with unknown arguments");
    }
  }

  // The state of an OrderedDict is the attribute _metadata: versions of modules, of no use here.
  void set_state() {
    pop(Value::Kind::kDict, "dictionary");
    top(Value::Kind::kDict, "dictionary");
  }

  std::vector<std::int64_t> extents(const Value& tuple) const {
    std::vector<std::int64_t> numbers;
    for (const Value* item : tuple.items) {
      if (item->kind != Value::Kind::kInt || item->number < 0)
        bad("a tensor has an extent that is negative or not an integer");
      numbers.push_back(item->number);
    }
    return numbers;
  }

  // (storage, first element, shape, strides, requires_grad, hooks)
  void push_tensor(const Value& arguments) {
    const auto& items = arguments.items;
    const bool sound = items.size() >= 4 && items[0]->kind == Value::Kind::kStorage &&
                       items[1]->kind == Value::Kind::kInt && items[2]->kind == Value::Kind::kTuple &&
                       items[3]->kind == Value::Kind::kTuple && items[2]->items.size() == items[3]->items.size();
    if (!sound) bad("its pickle describes a tensor in an unknown form");
    const Value& storage = *items[0];
    const std::int64_t first = items[1]->number;
    Value* value = make(Value::Kind::kTensor);
    StoredTensor& tensor = value->tensor;
    tensor.dtype = storage.dtype;
    tensor.shape = extents(*items[2]);
    tensor.strides = extents(*items[3]);
    if (!lies_within(tensor.shape, tensor.strides, first, storage.number))
      bad("a tensor reaches beyond its storage \"" + storage.text + "\"");
    tensor.offset = storage_entry(storage.text).offset + first * static_cast<std::int64_t>(element_bytes(tensor.dtype));
    if (is_contiguous(tensor.shape, tensor.strides)) tensor.strides.clear();
    push(value);
  }

  const InputFile& file_;
  const std::string pickle_;
  const std::map<std::string, ZipEntry>& entries_;
  const std::string prefix_;  // "archive/"
  std::size_t at_ = 0;
  std::deque<Value> values_;  // all of them, until the end: addresses must hold, and dictionaries may be shared
  std::vector<Value*> stack_;
  std::map<std::int64_t, Value*> memo_;
};

void refuse_old_format(const InputFile& file) {
  unsigned char start[2] = {0, 0};
  if (file.size() >= 2) file.read(start, 0, sizeof start);
  if (start[0] == 0x80) {
    throw Error{ErrorKind::kData, file.path(), "was written by torch before 1.6 (a bare pickle, no zip archive)",
                "load it with torch and save it again"};
  }
}

std::string read_text(const InputFile& file, const ZipEntry& entry) {
  if (entry.bytes > kMaxPickleBytes) {
    throw Error{ErrorKind::kData, file.path(), "has a pickle of " + std::to_string(entry.bytes) + " bytes", ""};
  }
  std::string text(static_cast<std::size_t>(entry.bytes), '\0');
  file.read(text.data(), entry.offset, text.size());
  return text;
}

// "archive/" of the one entry "archive/data.pkl".
std::string archive_prefix(const InputFile& file, const std::map<std::string, ZipEntry>& entries) {
  constexpr std::string_view kPickle = "data.pkl";
  for (const auto& entry : entries) {
    const std::string& name = entry.first;
    const std::size_t slash = name.find('/');
    if (slash != std::string::npos && std::string_view(name).substr(slash + 1) == kPickle)
      return name.substr(0, slash + 1);
  }
  throw Error{ErrorKind::kData, file.path(), "is a zip archive without data.pkl", "it was not written by torch.save"};
}

}  // namespace

std::vector<StoredTensor> read_torch_archive(const InputFile& file, std::size_t file_index) {
  refuse_old_format(file);
  const std::map<std::string, ZipEntry> entries = read_zip_entries(file);
  const std::string prefix = archive_prefix(file, entries);
  const auto byte_order = entries.find(prefix + "byteorder");
  if (byte_order != entries.end() && read_text(file, byte_order->second) != "little") {
    throw Error{ErrorKind::kData, file.path(), "was written on a big-endian machine",
                "save it again on a little-endian machine"};
  }
  Unpickler unpickler(file, read_text(file, entries.at(prefix + "data.pkl")), entries, prefix);
  const Value& root = unpickler.run();
  if (root.kind != Value::Kind::kDict) unpickler.bad("does not contain a dictionary of tensors");
  std::vector<StoredTensor> tensors;
  for (std::size_t i = 0; i < root.items.size(); i += 2) {
    const Value& name = *root.items[i];
    const Value& value = *root.items[i + 1];
    if (name.kind != Value::Kind::kString) unpickler.bad("has a key that is not a string");
    if (value.kind != Value::Kind::kTensor) unpickler.bad("\"" + name.text + "\" is not a tensor");
    tensors.push_back(value.tensor);
    tensors.back().name = name.text;
    tensors.back().file = file_index;
  }
  return tensors;
}

}  // namespace bascule
