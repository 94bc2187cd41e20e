#include "router/facts/multipart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "conf/text.h"

namespace router {
namespace {

constexpr std::array<std::string_view, kFormFieldCount> kFieldNames = {"model", "stream", "response_format",
                                                                       "n", "user"};
constexpr std::string_view kLineBreakers("\r\n\0", 3);
constexpr size_t kMaxBoundary = 70;  // RFC 2046

bool IsBoundaryChar(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view("'()+_,-./:=? ").find(c) != std::string_view::npos;
}

std::string_view Trim(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

// Takes the first `;name=value` off `parameters`. A quoted value loses its quotes and keeps its backslashes.
// False when the parameter is malformed.
bool TakeParameter(std::string_view& parameters, std::string_view& name, std::string_view& value) {
  if (!parameters.starts_with(';')) return false;
  parameters = Trim(parameters.substr(1));
  const size_t equals = parameters.find('=');
  if (equals == std::string_view::npos) return false;
  name = Trim(parameters.substr(0, equals));
  parameters = Trim(parameters.substr(equals + 1));
  if (!parameters.starts_with('"')) {
    const size_t end = std::min(parameters.find(';'), parameters.size());
    value = Trim(parameters.substr(0, end));
    parameters = parameters.substr(end);
    return !name.empty() && !value.empty() && value.find('"') == std::string_view::npos;
  }
  size_t end = 1;
  while (end < parameters.size() && parameters[end] != '"') end += parameters[end] == '\\' ? 2 : 1;
  if (end >= parameters.size()) return false;
  value = parameters.substr(1, end - 1);
  parameters = Trim(parameters.substr(end + 1));
  return !name.empty();
}

// A parsed Content-Disposition.
struct Disposition {
  std::optional<std::string_view> name;
  bool is_file = false;
};

// Null on success, else what is wrong.
const char* ParseDisposition(std::string_view value, Disposition& out) {
  const size_t end = std::min(value.find(';'), value.size());
  if (!conf::EqualsIgnoreCase(Trim(value.substr(0, end)), "form-data")) return "a part must be form-data";
  std::string_view parameters = value.substr(end);
  while (!parameters.empty()) {
    std::string_view name;
    std::string_view text;
    if (!TakeParameter(parameters, name, text)) return "a part's Content-Disposition is malformed";
    if (conf::EqualsIgnoreCase(name, "filename") || conf::EqualsIgnoreCase(name, "filename*")) {
      out.is_file = true;
    } else if (conf::EqualsIgnoreCase(name, "name")) {
      if (out.name) return "a part has two names";
      if (text.find('\\') != std::string_view::npos) return "a part's name must have no escapes";
      out.name = text;
    } else if (conf::EqualsIgnoreCase(name, "name*")) {
      return "a part's name must have no escapes";
    }
  }
  return out.name ? nullptr : "a part has no name";
}

std::string_view NameOf(FormField field) {
  return kFieldNames[static_cast<size_t>(field)];
}

}  // namespace

std::optional<std::string> MultipartScanner::BoundaryOf(std::string_view content_type) {
  const size_t end = std::min(content_type.find(';'), content_type.size());
  if (!conf::EqualsIgnoreCase(Trim(content_type.substr(0, end)), "multipart/form-data")) return std::nullopt;
  std::string_view parameters = Trim(content_type.substr(end));
  std::optional<std::string> boundary;
  while (!parameters.empty()) {
    std::string_view name;
    std::string_view value;
    if (!TakeParameter(parameters, name, value)) return std::nullopt;
    // Readers differ on what else may stand here: one takes `boundary*` for the boundary. A charset is sent
    // by some clients, and changes nothing.
    if (conf::EqualsIgnoreCase(name, "charset")) continue;
    if (!conf::EqualsIgnoreCase(name, "boundary")) return std::nullopt;
    if (boundary || value.empty() || value.size() > kMaxBoundary || value.back() == ' ') return std::nullopt;
    for (char c : value) {
      if (!IsBoundaryChar(c)) return std::nullopt;
    }
    boundary = std::string(value);
  }
  return boundary;
}

MultipartScanner::MultipartScanner(std::string_view boundary) : delimiter_("\r\n--" + std::string(boundary)) {
  matched_ = 2;  // the first boundary has no line end before it
}

std::string MultipartScanner::quoted_boundary() const {
  const std::string_view boundary = std::string_view(delimiter_).substr(4);
  const bool token = boundary.find_first_of("(),/:=? ") == std::string_view::npos;
  return token ? std::string(boundary) : '"' + std::string(boundary) + '"';
}

MultipartScanner::State MultipartScanner::Feed(std::string_view bytes) {
  size_t i = 0;
  while (i < bytes.size() && state_ == State::kMore) {
    if (phase_ == Phase::kBody) {
      i += FeedBody(bytes.substr(i));
    } else {
      FeedByte(bytes[i]);
      ++i;
      ++offset_;
    }
  }
  return state_;
}

// Consumes up to the end of `bytes` or of a delimiter. The delimiter's first byte occurs nowhere else in it,
// so after a mismatch only this very byte can begin a new match.
size_t MultipartScanner::FeedBody(std::string_view bytes) {
  size_t i = 0;
  while (i < bytes.size()) {
    if (matched_ == 0) {
      const void* cr = std::memchr(bytes.data() + i, '\r', bytes.size() - i);
      const size_t plain = cr == nullptr
                               ? bytes.size() - i
                               : static_cast<size_t>(static_cast<const char*>(cr) - bytes.data()) - i;
      Keep(bytes.substr(i, plain));
      offset_ += plain;
      i += plain;
      if (cr == nullptr || state_ == State::kFailed) return i;
    }
    if (bytes[i] == delimiter_[matched_]) {
      ++matched_;
      ++i;
      ++offset_;
      if (matched_ == delimiter_.size()) {
        EndPart();
        phase_ = Phase::kAfterBoundary;
        return i;
      }
    } else {
      Keep(std::string_view(delimiter_).substr(0, matched_));
      matched_ = 0;
      if (state_ == State::kFailed) return i;
    }
  }
  return i;
}

void MultipartScanner::FeedByte(char c) {
  switch (phase_) {
    case Phase::kStart:
      if (c != delimiter_[matched_]) {
        return Fail(FactsErrorCode::kInvalidMultipart, "", "the body must begin with its boundary");
      }
      if (++matched_ == delimiter_.size()) phase_ = Phase::kAfterBoundary;
      return;
    case Phase::kAfterBoundary:
      tail_.push_back(c);
      if (tail_ == "\r\n") {
        BeginPart();
      } else if (tail_ == "--") {
        tail_.clear();
        phase_ = Phase::kEnd;
      } else if (tail_.size() == 2) {
        Fail(FactsErrorCode::kInvalidMultipart, "",
             "a boundary must be followed by a line end or two dashes");
      }
      return;
    case Phase::kHead:
      head_.push_back(c);
      if (head_.size() > kMaxPartHead) {
        Fail(FactsErrorCode::kInvalidMultipart, "",
             fmt::format("a part's head is over {} bytes", kMaxPartHead));
      } else if (head_ == "\r\n" || head_.ends_with("\r\n\r\n")) {
        EndHead();
      }
      return;
    case Phase::kEnd:
      tail_.push_back(c);
      if (!std::string_view("\r\n").starts_with(tail_)) {
        Fail(FactsErrorCode::kInvalidMultipart, "", "bytes follow the closing boundary");
      }
      return;
    case Phase::kBody:
      return;
  }
}

void MultipartScanner::BeginPart() {
  tail_.clear();
  head_.clear();
  phase_ = Phase::kHead;
  if (++parts_ > kMaxParts) {
    Fail(FactsErrorCode::kInvalidMultipart, "", fmt::format("the body has more than {} parts", kMaxParts));
  }
}

void MultipartScanner::EndHead() {
  Disposition disposition;
  bool seen = false;
  std::string_view rest = head_;
  while (rest != "\r\n") {
    const size_t end = rest.find("\r\n");
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 2);
    const size_t colon = line.find(':');
    const bool folded = line.starts_with(' ') || line.starts_with('\t');
    if (colon == std::string_view::npos || folded ||
        line.find_first_of(kLineBreakers) != std::string_view::npos) {
      return Fail(FactsErrorCode::kInvalidMultipart, "", "a part's header line is malformed");
    }
    if (!conf::EqualsIgnoreCase(Trim(line.substr(0, colon)), "content-disposition")) continue;
    if (seen)
      return Fail(FactsErrorCode::kInvalidMultipart, "", "a part has two Content-Disposition headers");
    seen = true;
    if (const char* wrong = ParseDisposition(Trim(line.substr(colon + 1)), disposition)) {
      return Fail(FactsErrorCode::kInvalidMultipart, "", wrong);
    }
  }
  if (!seen) return Fail(FactsErrorCode::kInvalidMultipart, "", "a part has no Content-Disposition header");
  is_file_ = disposition.is_file;
  current_.reset();
  for (size_t i = 0; i < kFormFieldCount; ++i) {
    if (*disposition.name != kFieldNames[i]) continue;
    Value& value = values_[i];
    if (value.seen) {
      return Fail(FactsErrorCode::kDuplicateKey, kFieldNames[i],
                  fmt::format("{} must be given only once", kFieldNames[i]));
    }
    if (is_file_) {
      return Fail(FactsErrorCode::kInvalidType, kFieldNames[i],
                  fmt::format("{} must not be a file", kFieldNames[i]));
    }
    value.seen = true;
    value.range.begin = offset_ + 1;  // the last byte of the head is not counted yet
    current_ = static_cast<FormField>(i);
  }
  phase_ = Phase::kBody;
  matched_ = 0;
}

void MultipartScanner::Keep(std::string_view bytes) {
  (is_file_ ? file_bytes_ : text_bytes_) += bytes.size();
  if (!current_) return;
  Value& value = values_[static_cast<size_t>(*current_)];
  if (value.text.size() + bytes.size() > kMaxFieldBytes) {
    return Fail(FactsErrorCode::kInvalidType, NameOf(*current_),
                fmt::format("{} must be at most {} bytes", NameOf(*current_), kMaxFieldBytes));
  }
  value.text += bytes;
}

void MultipartScanner::EndPart() {
  matched_ = 0;
  tail_.clear();
  if (!current_) return;
  Value& value = values_[static_cast<size_t>(*current_)];
  value.range.size = value.text.size();
  value.ended = true;
  if (*current_ == FormField::kModel && value.text.empty()) {
    Fail(FactsErrorCode::kMissingModel, "model", "model must be given, as a string that is not empty");
  }
  current_.reset();
}

MultipartScanner::State MultipartScanner::Finish() {
  if (state_ != State::kMore) return state_;
  if (phase_ != Phase::kEnd) {
    Fail(FactsErrorCode::kInvalidMultipart, "", "the body ends before its closing boundary");
  } else if (!field(FormField::kModel)) {
    Fail(FactsErrorCode::kMissingModel, "model", "model must be given, as a string that is not empty");
  } else {
    state_ = State::kDone;
  }
  return state_;
}

void MultipartScanner::Fail(FactsErrorCode code, std::string_view param, std::string message) {
  state_ = State::kFailed;
  error_ = {code, param, std::move(message)};
}

std::optional<std::string_view> MultipartScanner::field(FormField field) const {
  const Value& value = values_[static_cast<size_t>(field)];
  return value.ended ? std::optional<std::string_view>(value.text) : std::nullopt;
}

ByteRange MultipartScanner::range(FormField field) const {
  return values_[static_cast<size_t>(field)].range;
}

bool MultipartScanner::stream() const {
  const std::optional<std::string_view> value = field(FormField::kStream);
  return value && (conf::EqualsIgnoreCase(*value, "true") || *value == "1");
}

}  // namespace router
