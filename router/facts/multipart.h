// Finds the small fields of a multipart/form-data body (model, stream, …) while it streams through. Files are
// skipped, never kept.
//
// Strict where parsers differ, so that the engine cannot read another model than we do: CRLF only, nothing
// before the first boundary or after the last, no padding on boundary lines, names without escapes, each
// known field at most once. Owner: one scanner per request, on its shard. Memory: at most kMaxFieldBytes per
// known field and kMaxPartHead for the head of a part.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "router/facts/body_facts.h"

namespace router {

enum class FormField : uint8_t { kModel, kStream, kResponseFormat, kN, kUser };
inline constexpr size_t kFormFieldCount = 5;

class MultipartScanner {
 public:
  static constexpr size_t kMaxFieldBytes = 1024;
  static constexpr size_t kMaxPartHead = 8192;
  static constexpr size_t kMaxParts = 128;

  enum class State : uint8_t { kMore, kDone, kFailed };

  // The boundary parameter of a multipart/form-data Content-Type. Nothing for another type, for a boundary
  // that is missing, given twice, or has characters that RFC 2046 does not allow, and for any other parameter
  // but `charset`.
  static std::optional<std::string> BoundaryOf(std::string_view content_type);

  explicit MultipartScanner(std::string_view boundary);

  // As the value of a parameter, in quotes where it needs them.
  std::string quoted_boundary() const;

  // Scans the next bytes of the body, split anywhere. After kDone or kFailed it ignores them.
  State Feed(std::string_view bytes);

  // Call at the end of the body: kDone, or kFailed when the closing boundary or the model is missing.
  State Finish();

  State state() const { return state_; }
  const FactsError& error() const { return error_; }  // when kFailed

  // The field's value once its part has ended; nothing before.
  std::optional<std::string_view> field(FormField field) const;
  ByteRange range(FormField field) const;  // of its value, from the first byte of the body
  bool stream() const;                     // the stream field is true

  uint64_t file_bytes() const { return file_bytes_; }  // in parts that have a file name, so far
  uint64_t text_bytes() const { return text_bytes_; }  // in all other parts

 private:
  enum class Phase : uint8_t { kStart, kAfterBoundary, kHead, kBody, kEnd };
  struct Value {
    std::string text;
    ByteRange range;
    bool seen = false;
    bool ended = false;
  };

  size_t FeedBody(std::string_view bytes);
  void FeedByte(char c);
  void BeginPart();
  void EndPart();
  void EndHead();
  void Keep(std::string_view bytes);
  void Fail(FactsErrorCode code, std::string_view param, std::string message);

  std::string delimiter_;  // CRLF, two dashes, boundary
  State state_ = State::kMore;
  Phase phase_ = Phase::kStart;
  FactsError error_{};
  size_t offset_ = 0;   // of the next byte in the body
  size_t matched_ = 0;  // bytes of the delimiter seen
  std::string tail_;    // after a boundary: CRLF or two dashes
  std::string head_;
  size_t parts_ = 0;
  std::optional<FormField> current_;  // of this part, if it is a known one
  bool is_file_ = false;
  std::array<Value, kFormFieldCount> values_;
  uint64_t file_bytes_ = 0;
  uint64_t text_bytes_ = 0;
};

}  // namespace router
