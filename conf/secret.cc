#include "conf/secret.h"

#include <absl/strings/ascii.h>
#include <string.h>  // explicit_bzero

#include <algorithm>
#include <optional>
#include <ostream>
#include <utility>

#include "conf/document.h"

namespace conf {
namespace {

constexpr size_t kMaxSecretBytes = 64 << 10;

bool IsVariableName(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !name.empty() && letter(name[0]) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || digit(c); });
}

std::optional<std::string> ResolveVariable(const Value& value, const std::string& name) {
  if (!IsVariableName(name)) {
    value.ErrorHidingValue(
        "env: must be followed by the name of an environment variable, such as env:TIDEGATE_ADMIN_KEY");
    return std::nullopt;
  }
  std::optional<std::string> found = value.document().sources().environment(name);
  if (!found) {
    value.ErrorHidingValue("environment variable " + name + " is not set");
  } else if (found->empty()) {
    value.ErrorHidingValue("environment variable " + name + " is empty");
    return std::nullopt;
  }
  return found;
}

std::optional<std::string> ResolveFile(const Value& value, const std::string& path) {
  if (path.empty()) {
    value.ErrorHidingValue("file: must be followed by a path, such as file:/run/secrets/admin-key");
    return std::nullopt;
  }
  absl::StatusOr<std::string> found = value.document().sources().file(path);
  if (!found.ok()) {
    value.ErrorHidingValue(std::string(found.status().message()));
    return std::nullopt;
  }
  std::string_view trimmed = *found;
  if (trimmed.ends_with('\n')) trimmed.remove_suffix(1);
  if (trimmed.ends_with('\r')) trimmed.remove_suffix(1);
  std::optional<std::string> out;
  if (trimmed.empty()) {
    value.ErrorHidingValue("the file \"" + path + "\" is empty");
  } else if (trimmed.size() > kMaxSecretBytes) {
    value.ErrorHidingValue("the file \"" + path + "\" is too large for a secret");
  } else {
    out.emplace(trimmed);
  }
  Wipe(*found);
  return out;
}

}  // namespace

void Wipe(std::string& text) {
  text.resize(text.capacity());
  explicit_bzero(text.data(), text.size());
  text.clear();
}

Secret::Secret(std::string reference, std::string value)
    : reference_(std::move(reference)), value_(std::move(value)) {
  Wipe(value);
}

Secret::Secret(Secret&& other) noexcept
    : reference_(std::move(other.reference_)), value_(std::move(other.value_)) {
  Wipe(other.value_);
}

Secret& Secret::operator=(const Secret& other) {
  if (this != &other) *this = Secret(other);
  return *this;
}

Secret& Secret::operator=(Secret&& other) noexcept {
  if (this == &other) return *this;
  Wipe(value_);
  reference_ = std::move(other.reference_);
  value_ = std::move(other.value_);
  Wipe(other.value_);
  return *this;
}

Secret::~Secret() {
  Wipe(value_);
}

void Read(const Value& value, Secret& out) {
  if (value.kind() != Kind::kScalar) {
    value.ErrorExpected("a reference to a secret, env:NAME or file:PATH");
    return;
  }
  const std::string& text = value.text();
  std::optional<std::string> resolved;
  if (text.starts_with("env:")) {
    resolved = ResolveVariable(value, text.substr(4));
  } else if (text.starts_with("file:")) {
    resolved = ResolveFile(value, text.substr(5));
  } else {
    value.ErrorHidingValue(
        "a secret is given by reference only, env:NAME or file:PATH, so that it is never in a "
        "configuration file");
  }
  if (!resolved) return;
  const bool control = std::any_of(resolved->begin(), resolved->end(),
                                   [](char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); });
  if (control) {
    Wipe(*resolved);
    value.ErrorHidingValue("the secret behind " + text +
                           " has a line break or another control character in it");
    return;
  }
  out = Secret(text, std::move(*resolved));
  Wipe(*resolved);
}

void PrintTo(const Secret&, std::ostream* out) {
  *out << "***";
}

}  // namespace conf
