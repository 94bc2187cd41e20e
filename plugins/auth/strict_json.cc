#include "plugins/auth/strict_json.h"

#include <absl/container/flat_hash_set.h>

#include <string>
#include <vector>

#include "conf/json_parse.h"

namespace plugins::auth {
namespace {

using nlohmann::json;

// Walks the text once, before any value is built, and refuses what is ambiguous.
class Checker : public nlohmann::json_sax<json> {
 public:
  const char* problem() const { return problem_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return Enter(); }
  bool start_array(size_t) override { return Enter(); }
  bool end_object() override { return Leave(); }
  bool end_array() override { return Leave(); }
  bool key(string_t& name) override {
    return members_.back().insert(name).second || Refuse("has a member twice");
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    return Refuse("is not JSON");
  }

 private:
  bool Enter() {
    if (members_.size() == kMaxJsonDepth) return Refuse("is nested too deeply");
    members_.emplace_back();
    return true;
  }
  bool Leave() {
    members_.pop_back();
    return true;
  }
  bool Refuse(const char* problem) {
    problem_ = problem;
    return false;
  }

  std::vector<absl::flat_hash_set<std::string>> members_;
  const char* problem_ = "is not JSON";
};

}  // namespace

absl::StatusOr<json> ParseStrictObject(std::string_view text) {
  Checker checker;
  if (!json::sax_parse(text, &checker)) return absl::InvalidArgumentError(checker.problem());
  json value = conf::ParseJson(text);
  if (!value.is_object()) return absl::InvalidArgumentError("is not a JSON object");
  return value;
}

}  // namespace plugins::auth
