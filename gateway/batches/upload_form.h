// UploadForm: takes the multipart form of an upload apart while it streams through: the bytes of `file` are
// passed on, the small fields are kept.
//
// Sans-IO. Memory: one piece, the head of a part and the kept fields. A form that is not as RFC 7578 has it is
// refused, as is a field that comes twice.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "conf/time.h"
#include "gateway/batches/stored_file.h"

namespace gateway::batches {

class UploadForm {
 public:
  static constexpr uint64_t kMostGrowth = 1;  // the form is larger than its file

  explicit UploadForm(std::string_view boundary);

  // Takes the next bytes of the form, split anywhere, and appends those of the file to `file`. False: error()
  // says why.
  bool Feed(std::string_view bytes, std::string& file);
  // At the end of the form: whether it is whole and says what it must.
  bool Finish();

  const std::string& error() const { return error_; }
  const std::string& param() const { return param_; }  // the field that is wrong; empty: the form

  // After Finish.
  Purpose purpose() const { return purpose_; }
  const std::string& filename() const { return filename_; }
  std::optional<conf::Duration> age() const { return age_; }

 private:
  enum class Phase : uint8_t { kStart, kAfterBoundary, kHead, kBody, kEnd };
  enum class Part : uint8_t { kFile, kPurpose, kAnchor, kSeconds, kOther };
  struct Field {
    bool seen = false;
    std::string value;
  };

  bool Fail(std::string error, std::string param = {});
  bool Step(std::string& file, bool& more);
  bool BeginPart(std::string_view head);
  bool TakeBody(std::string_view bytes, std::string& file);

  std::string delimiter_;  // CRLF, two dashes, boundary
  std::string pending_;    // not yet taken
  Phase phase_ = Phase::kStart;
  Part part_ = Part::kOther;
  std::array<Field, 5> fields_;  // by Part
  size_t parts_ = 0;
  std::string filename_;
  std::string error_;
  std::string param_;
  Purpose purpose_ = Purpose::kUserData;
  std::optional<conf::Duration> age_;
};

}  // namespace gateway::batches
