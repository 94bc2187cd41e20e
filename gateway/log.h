// Structured logs: one JSON object (or one line of text) per event on standard error, with the request's id
// where there is one. Never a key, a token, a prompt or an answer.
//
// Any thread. Writing is asynchronous and bounded: when the disk or the terminal is slower than the process,
// the oldest lines are dropped and counted.
#pragma once

#include <cstdint>
#include <exception>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>

namespace gateway::log {

enum class Level : uint8_t { kDebug, kInfo, kWarn, kError };

using Value = std::variant<std::string_view, int64_t, uint64_t, double, bool>;

struct Field {
  std::string_view name;
  Value value;
  Field(std::string_view n, std::string_view v) : name(n), value(v) {}
  Field(std::string_view n, const char* v) : name(n), value(std::string_view(v)) {}
  Field(std::string_view n, const std::string& v) : name(n), value(std::string_view(v)) {}
  Field(std::string_view n, bool v) : name(n), value(v) {}
  Field(std::string_view n, double v) : name(n), value(v) {}
  template <class Int>
    requires std::is_integral_v<Int>
  Field(std::string_view n, Int v) : name(n) {
    if constexpr (std::is_signed_v<Int>) {
      value = static_cast<int64_t>(v);
    } else {
      value = static_cast<uint64_t>(v);
    }
  }
};
using Fields = std::initializer_list<Field>;

// Once, before any thread that logs. Until then lines go to standard error as text.
void Init(Level least, bool json);
// Writes out what is queued.
void Flush();

bool Enabled(Level level);
void Write(Level level, std::string_view event, Fields fields);

inline void Debug(std::string_view event, Fields fields = {}) {
  Write(Level::kDebug, event, fields);
}
inline void Info(std::string_view event, Fields fields = {}) {
  Write(Level::kInfo, event, fields);
}
inline void Warn(std::string_view event, Fields fields = {}) {
  Write(Level::kWarn, event, fields);
}
inline void Error(std::string_view event, Fields fields = {}) {
  Write(Level::kError, event, fields);
}

void Exception(std::string_view where, const std::exception_ptr& error);

// How many lines were dropped.
uint64_t Dropped();

}  // namespace gateway::log
