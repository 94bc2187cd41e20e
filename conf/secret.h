// Secret: a secret of the configuration. The configuration contains only a reference to it: `env:NAME` or `file:PATH`.
//
// Each copy owns its bytes, and overwrites them when it is destroyed or assigned. The reference is not secret and may
// be shown. Only Reveal() returns the value: fmt and GoogleTest print ***, and streams cannot print a secret.
#pragma once

#include <fmt/format.h>

#include <iosfwd>
#include <string>
#include <string_view>

namespace conf {

class Value;

class Secret {
 public:
  Secret() = default;
  Secret(std::string reference, std::string value);  // wipes the rest of `value`
  Secret(const Secret&) = default;
  Secret(Secret&& other) noexcept;
  Secret& operator=(const Secret& other);
  Secret& operator=(Secret&& other) noexcept;
  ~Secret();

  bool empty() const { return value_.empty(); }
  const std::string& reference() const { return reference_; }
  std::string_view Reveal() const { return value_; }

 private:
  std::string reference_;
  std::string value_;
};

// Reads the reference and its value, without a trailing newline. Refuses a literal, and does not repeat it in the
// error. Refuses a reference whose variable or file is missing or empty.
void Read(const Value& value, Secret& out);

// Overwrites the bytes of `text`, its unused capacity included, and empties it.
void Wipe(std::string& text);

std::ostream& operator<<(std::ostream&, const Secret&) = delete;
void PrintTo(const Secret&, std::ostream* out);

}  // namespace conf

template <>
struct fmt::formatter<conf::Secret> {
  constexpr auto parse(format_parse_context& context) { return context.begin(); }
  template <class Context>
  auto format(const conf::Secret&, Context& context) const {
    return fmt::format_to(context.out(), "***");
  }
};
