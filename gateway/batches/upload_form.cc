#include "gateway/batches/upload_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "conf/text.h"

namespace gateway::batches {
namespace {

constexpr size_t kMaxHead = 8192;
constexpr size_t kMaxField = 1024;
constexpr size_t kMaxFormParts = 64;
constexpr size_t kMaxFilename = 255;
constexpr std::string_view kHeadEnd = "\r\n\r\n";
constexpr std::string_view kDisposition = "content-disposition:";

// The value of a parameter of Content-Disposition; nothing: it has none of that name.
std::optional<std::string> ParameterOf(std::string_view disposition, std::string_view name) {
  while (true) {
    const size_t semicolon = disposition.find(';');
    if (semicolon == std::string_view::npos) return std::nullopt;
    disposition.remove_prefix(semicolon + 1);
    while (disposition.starts_with(' ')) disposition.remove_prefix(1);
    const size_t equals = disposition.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string_view found = disposition.substr(0, equals);
    disposition.remove_prefix(equals + 1);
    std::string value;
    if (disposition.starts_with('"')) {
      disposition.remove_prefix(1);
      while (!disposition.empty() && disposition.front() != '"') {
        if (disposition.front() == '\\' && disposition.size() > 1) disposition.remove_prefix(1);
        value += disposition.front();
        disposition.remove_prefix(1);
      }
    } else {
      value = disposition.substr(0, disposition.find(';'));
    }
    if (conf::EqualsIgnoreCase(found, name)) return value;
  }
}

std::string_view DispositionOf(std::string_view head) {
  while (!head.empty()) {
    const std::string_view line = head.substr(0, head.find("\r\n"));
    head.remove_prefix(std::min(head.size(), line.size() + 2));
    if (line.size() >= kDisposition.size() &&
        conf::EqualsIgnoreCase(line.substr(0, kDisposition.size()), kDisposition))
      return line.substr(kDisposition.size());
  }
  return {};
}

}  // namespace

UploadForm::UploadForm(std::string_view boundary) : delimiter_(fmt::format("\r\n--{}", boundary)) {}

bool UploadForm::Fail(std::string error, std::string param) {
  error_ = std::move(error);
  param_ = std::move(param);
  return false;
}

bool UploadForm::Feed(std::string_view bytes, std::string& file) {
  pending_ += bytes;
  bool more = true;
  while (more) {
    if (!Step(file, more)) return false;
  }
  return true;
}

// One part of what is pending; `more`: whether another step makes sense.
bool UploadForm::Step(std::string& file, bool& more) {
  switch (phase_) {
    case Phase::kStart: {
      const std::string_view first = std::string_view(delimiter_).substr(2);
      more = pending_.size() >= first.size();
      if (!more) return true;
      if (!pending_.starts_with(first)) return Fail("the form does not begin with its boundary");
      pending_.erase(0, first.size());
      phase_ = Phase::kAfterBoundary;
      return true;
    }
    case Phase::kAfterBoundary: {
      more = pending_.size() >= 2;
      if (!more) return true;
      const bool ends = pending_.starts_with("--");
      if (!ends && !pending_.starts_with("\r\n")) return Fail("a boundary is not followed by a line's end");
      pending_.erase(0, 2);
      phase_ = ends ? Phase::kEnd : Phase::kHead;
      return true;
    }
    case Phase::kHead: {
      const size_t end = pending_.find(kHeadEnd);
      if (std::min(end, pending_.size()) > kMaxHead) return Fail("the head of a part is too large");
      more = end != std::string::npos;
      if (!more) return true;
      if (!BeginPart(std::string_view(pending_).substr(0, end))) return false;
      pending_.erase(0, end + kHeadEnd.size());
      phase_ = Phase::kBody;
      return true;
    }
    case Phase::kBody: {
      const size_t end = pending_.find(delimiter_);
      more = end != std::string::npos;
      // The delimiter may have begun in the last bytes.
      const size_t sure = more ? end : pending_.size() - std::min(pending_.size(), delimiter_.size() - 1);
      if (!TakeBody(std::string_view(pending_).substr(0, sure), file)) return false;
      pending_.erase(0, more ? end + delimiter_.size() : sure);
      if (more) phase_ = Phase::kAfterBoundary;
      return true;
    }
    case Phase::kEnd:
      more = false;
      pending_.clear();
      return true;
  }
  return true;
}

bool UploadForm::BeginPart(std::string_view head) {
  if (++parts_ > kMaxFormParts) return Fail("the form has too many parts");
  const std::string_view disposition = DispositionOf(head);
  const std::optional<std::string> name = ParameterOf(disposition, "name");
  if (!name) return Fail("a part has no name");
  part_ = *name == "file"                     ? Part::kFile
          : *name == "purpose"                ? Part::kPurpose
          : *name == "expires_after[anchor]"  ? Part::kAnchor
          : *name == "expires_after[seconds]" ? Part::kSeconds
                                              : Part::kOther;
  if (part_ == Part::kOther) return true;
  Field& field = fields_[static_cast<size_t>(part_)];
  if (std::exchange(field.seen, true)) return Fail(fmt::format("{} is given twice", *name), *name);
  if (part_ != Part::kFile) return true;
  filename_ = ParameterOf(disposition, "filename").value_or("");
  std::erase_if(filename_, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (filename_.size() > kMaxFilename) filename_.resize(kMaxFilename);
  if (filename_.empty()) filename_ = "upload";
  return true;
}

bool UploadForm::TakeBody(std::string_view bytes, std::string& file) {
  if (part_ == Part::kOther) return true;
  if (part_ == Part::kFile) {
    file += bytes;
    return true;
  }
  std::string& value = fields_[static_cast<size_t>(part_)].value;
  if (value.size() + bytes.size() > kMaxField) return Fail("a field of the form is too long");
  value += bytes;
  return true;
}

bool UploadForm::Finish() {
  if (phase_ != Phase::kEnd) return Fail("the form ends before its last boundary");
  const auto field = [this](Part part) -> const Field& { return fields_[static_cast<size_t>(part)]; };
  if (!field(Part::kFile).seen) return Fail("file must be given", "file");
  if (!field(Part::kPurpose).seen) return Fail("purpose must be given", "purpose");
  const std::optional<Purpose> purpose = conf::ValueOf(WordsOf(Purpose{}), field(Part::kPurpose).value);
  if (!purpose || *purpose == Purpose::kBatchOutput)
    return Fail("purpose must be batch or user_data", "purpose");
  purpose_ = *purpose;
  if (!field(Part::kAnchor).seen && !field(Part::kSeconds).seen) return true;
  const std::optional<int64_t> seconds = conf::ReadNumber<int64_t>(field(Part::kSeconds).value);
  if (field(Part::kAnchor).value != "created_at" || !seconds || *seconds < kLeastAge || *seconds > kMostAge) {
    return Fail(fmt::format("expires_after must have the anchor created_at and {} to {} seconds", kLeastAge,
                            kMostAge),
                "expires_after");
  }
  age_ = std::chrono::seconds(*seconds);
  return true;
}

}  // namespace gateway::batches
