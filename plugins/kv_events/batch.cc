#include "plugins/kv_events/batch.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

namespace plugins::kv_events {
namespace {

using nlohmann::json;

constexpr uint32_t kMaxBlockSize = 1u << 16;

enum class Field : uint8_t {
  kIgnored,
  kTime,
  kEvents,
  kRank,
  kType,
  kHashes,
  kParent,
  kTokens,
  kBlockSize,
  kLoraId,
  kMedium,
  kLoraName,
  kExtraKeys,
  kGroup,
};

struct Named {
  std::string_view name;
  Field field;
};
// In the order in which the array form has them.
constexpr std::array<Named, 3> kBatchFields = {
    {{"ts", Field::kTime}, {"events", Field::kEvents}, {"data_parallel_rank", Field::kRank}}};
constexpr std::array<Named, 10> kStoredFields = {{{"type", Field::kType},
                                                  {"block_hashes", Field::kHashes},
                                                  {"parent_block_hash", Field::kParent},
                                                  {"token_ids", Field::kTokens},
                                                  {"block_size", Field::kBlockSize},
                                                  {"lora_id", Field::kLoraId},
                                                  {"medium", Field::kMedium},
                                                  {"lora_name", Field::kLoraName},
                                                  {"extra_keys", Field::kExtraKeys},
                                                  {"group_idx", Field::kGroup}}};
constexpr std::array<Named, 4> kRemovedFields = {{{"type", Field::kType},
                                                  {"block_hashes", Field::kHashes},
                                                  {"medium", Field::kMedium},
                                                  {"group_idx", Field::kGroup}}};

Field ByName(std::span<const Named> fields, std::string_view name) {
  const auto found = std::ranges::find(fields, name, &Named::name);
  return found == fields.end() ? Field::kIgnored : found->field;
}

Field ByPlace(std::span<const Named> fields, size_t place) {
  return place < fields.size() ? fields[place].field : Field::kIgnored;
}

// A value that is neither list nor map.
struct Scalar {
  enum class Kind : uint8_t { kNull, kNumber, kNegative, kReal, kBytes, kOther };
  Kind kind = Kind::kOther;
  uint64_t number = 0;  // of a negative one, its two's complement
  double real = 0;
  std::string_view bytes{};
};

// Takes the events of the msgpack reader. The levels: batch, its events, one event, a list in it; a deeper level only
// shows that a block is more than its tokens.
class Reader final : public nlohmann::json_sax<json> {
 public:
  bool null() override { return Value({.kind = Scalar::Kind::kNull}); }
  bool boolean(bool) override { return Value({}); }
  bool number_integer(json::number_integer_t n) override {
    return Value({.kind = n < 0 ? Scalar::Kind::kNegative : Scalar::Kind::kNumber,
                  .number = static_cast<uint64_t>(n),
                  .real = static_cast<double>(n)});
  }
  bool number_unsigned(json::number_unsigned_t n) override {
    return Value({.kind = Scalar::Kind::kNumber, .number = n, .real = static_cast<double>(n)});
  }
  bool number_float(json::number_float_t n, const std::string&) override {
    return Value({.kind = Scalar::Kind::kReal, .real = n});
  }
  bool string(std::string& text) override { return Value({.kind = Scalar::Kind::kBytes, .bytes = text}); }
  bool binary(json::binary_t& bytes) override {
    return Value(
        {.kind = Scalar::Kind::kBytes, .bytes = {reinterpret_cast<const char*>(bytes.data()), bytes.size()}});
  }
  bool start_array(size_t) override { return Open(false); }
  bool end_array() override { return Close(); }
  bool start_object(size_t) override { return Open(true); }
  bool end_object() override { return Close(); }
  bool key(std::string& name) override {
    if (depth_ == kBatch) field_ = ByName(kBatchFields, name);
    if (depth_ == kEvent) event_field_ = ByName(kStoredFields, name);
    return true;
  }
  bool parse_error(size_t at, const std::string&, const nlohmann::detail::exception&) override {
    return Fail("is not msgpack, or not whole, at byte " + std::to_string(at));
  }

  std::variant<Batch, std::string> Take() {
    if (!why_.empty()) return std::move(why_);
    return std::move(batch_);
  }
  bool Fail(std::string why) {
    if (why_.empty()) why_ = std::move(why);
    return false;
  }

 private:
  enum Depth : size_t { kNothing, kBatch, kEvents, kEvent, kList, kDeepest = 8 };

  bool Open(bool map) {
    Place();
    if (depth_ == kNothing && opened_++ > 0) return Fail("has more than one batch");
    if (depth_ == kBatch && field_ == Field::kEvents && map) return Fail("has a map for its events");
    if (depth_ == kEvents && field_ == Field::kEvents) {
      event_ = {};
      type_.clear();
    }
    if (InEvent() && depth_ == kEvent) {
      const bool lists = event_field_ == Field::kHashes || event_field_ == Field::kTokens;
      const bool any = event_field_ == Field::kIgnored || event_field_ == Field::kExtraKeys;
      if (!any && (!lists || map)) return Fail("has a list or a map where an event has none");
    }
    if (InEvent() && depth_ == kList && event_field_ != Field::kIgnored) {
      if (event_field_ != Field::kExtraKeys) return Fail("has a list within a list of numbers");
      event_.plain = false;
    }
    if (depth_ == kDeepest) return Fail("is nested too deep");
    ++depth_;
    frames_[depth_] = {map, 0};
    return true;
  }

  bool Close() {
    const bool whole = depth_ == kEvent && field_ == Field::kEvents;
    --depth_;
    return whole ? TakeEvent() : true;
  }

  // Which field it is that begins now, where lists go by places.
  void Place() {
    Frame& frame = frames_[depth_];
    const size_t place = frame.next++;
    if (frame.map) return;
    if (depth_ == kBatch) field_ = ByPlace(kBatchFields, place);
    if (depth_ != kEvent) return;
    event_field_ = type_ == "BlockRemoved" ? ByPlace(kRemovedFields, place) : ByPlace(kStoredFields, place);
  }

  bool InEvent() const { return field_ == Field::kEvents && depth_ >= kEvent; }

  bool Value(const Scalar& value) {
    Place();
    if (depth_ == kNothing) return Fail("is not a batch");
    if (depth_ == kBatch) return TakeBatchField(value);
    if (field_ != Field::kEvents) return true;
    if (depth_ == kEvents) return Fail("has an event that is neither a list nor a map");
    if (depth_ == kEvent) return TakeEventField(value);
    return depth_ == kList ? TakeItem(value) : true;
  }

  bool TakeBatchField(const Scalar& value) {
    const bool number = value.kind == Scalar::Kind::kNumber || value.kind == Scalar::Kind::kReal;
    if (field_ == Field::kTime && number) batch_.at = value.real;
    if (field_ == Field::kTime && !number) return Fail("has no time");
    if (field_ == Field::kEvents) return Fail("has no list of events");
    if (field_ == Field::kRank && value.kind == Scalar::Kind::kNumber)
      batch_.rank = static_cast<int64_t>(value.number);
    return true;
  }

  bool TakeEventField(const Scalar& value) {
    const bool null = value.kind == Scalar::Kind::kNull;
    switch (event_field_) {
      case Field::kType:
        if (value.kind != Scalar::Kind::kBytes) return Fail("has an event without a type");
        type_ = value.bytes;
        return true;
      case Field::kParent:
        if (!null) event_.parent = HashOf(value);
        return null || event_.parent || Fail("has a parent that is not a hash");
      case Field::kBlockSize:
        if (value.kind != Scalar::Kind::kNumber || value.number == 0 || value.number > kMaxBlockSize)
          return Fail("has a block size out of bounds");
        event_.block_size = static_cast<uint32_t>(value.number);
        return true;
      case Field::kMedium:
        if (!null && value.bytes != "GPU" && value.bytes != "gpu") event_.plain = false;
        return true;
      case Field::kLoraId:
      case Field::kLoraName:
        if (!null) event_.plain = false;
        return true;
      case Field::kGroup:
        if (!null && value.number != 0) event_.plain = false;
        return true;
      case Field::kHashes:
      case Field::kTokens:
        return type_ == "BlockStored" || type_ == "BlockRemoved" ? Fail("has no list of hashes or tokens")
                                                                 : true;
      default:
        return true;
    }
  }

  bool TakeItem(const Scalar& value) {
    switch (event_field_) {
      case Field::kHashes: {
        const std::optional<uint64_t> hash = HashOf(value);
        if (!hash) return Fail("has a hash that is neither a number nor bytes");
        event_.hashes.push_back(*hash);
        return true;
      }
      case Field::kTokens:
        if (value.kind != Scalar::Kind::kNumber) return Fail("has a token that is not a number");
        event_.tokens.push_back(value.number);
        return true;
      case Field::kExtraKeys:
        if (value.kind != Scalar::Kind::kNull) event_.plain = false;
        return true;
      default:
        return true;
    }
  }

  static std::optional<uint64_t> HashOf(const Scalar& value) {
    switch (value.kind) {
      case Scalar::Kind::kNumber:
      case Scalar::Kind::kNegative:
        return value.number;
      case Scalar::Kind::kBytes:
        return XXH3_64bits(value.bytes.data(), value.bytes.size());
      default:
        return std::nullopt;
    }
  }

  bool TakeEvent() {
    if (type_ == "BlockStored") {
      event_.kind = Event::Kind::kStored;
      if (event_.block_size == 0 || event_.tokens.size() != event_.hashes.size() * event_.block_size)
        return Fail("has stored blocks whose tokens do not fill them");
    } else if (type_ == "BlockRemoved") {
      event_.kind = Event::Kind::kRemoved;
    } else if (type_ == "AllBlocksCleared") {
      event_.kind = Event::Kind::kCleared;
    } else if (type_.empty()) {
      return Fail("has an event without a type");
    } else {
      ++batch_.unknown;
      return true;
    }
    batch_.events.push_back(std::move(event_));
    return true;
  }

  struct Frame {
    bool map = false;
    size_t next = 0;  // place
  };

  Batch batch_;
  std::string why_;
  std::array<Frame, kDeepest + 1> frames_{};
  size_t depth_ = kNothing;
  size_t opened_ = 0;
  Field field_ = Field::kIgnored;        // of the batch
  Field event_field_ = Field::kIgnored;  // of the event
  Event event_;
  std::string type_;
};

}  // namespace

std::variant<Batch, std::string> Decode(std::string_view msgpack) {
  Reader reader;
  const bool read = json::sax_parse(msgpack.begin(), msgpack.end(), &reader, json::input_format_t::msgpack);
  if (!read) reader.Fail("is not msgpack");
  return reader.Take();
}

}  // namespace plugins::kv_events
