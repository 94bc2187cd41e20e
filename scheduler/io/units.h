// The syntax of amounts in YAML: cores and devices as decimal numbers, memory with a unit. Adaptors for
// conf::Object, like conf::Size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "conf/reader.h"
#include "scheduler/queue.h"

namespace scheduler::io {

// "128" or "0.5" as thousandths, exactly; nothing for anything else, and from 10^9 on.
std::optional<int64_t> ParseMilli(std::string_view text);
std::string FormatMilli(int64_t milli);  // "0.5"

// `cpu: 128`, in milli.
struct Cores {
  explicit Cores(int64_t& field) : milli(&field) {}
  int64_t* milli;
};
void Read(const conf::Value& value, const Cores& field);
void Write(conf::Writer& writer, const Cores& field);

// `memory: 80GiB`, in MiB; a whole number of them.
struct Mebibytes {
  explicit Mebibytes(int64_t& field) : mib(&field) {}
  int64_t* mib;
};
void Read(const conf::Value& value, const Mebibytes& field);
void Write(conf::Writer& writer, const Mebibytes& field);

// `{h100: 64, "*": 128}`, in milli; T is DeviceQuota or an optional of it.
template <class T>
struct Devices {
  explicit Devices(T& field) : out(&field) {}
  T* out;
};
void ReadQuota(const conf::Value& value, DeviceQuota& out);
void WriteQuota(conf::Writer& writer, const DeviceQuota& in);

inline void Read(const conf::Value& value, const Devices<DeviceQuota>& field) {
  ReadQuota(value, *field.out);
}
inline void Read(const conf::Value& value, const Devices<std::optional<DeviceQuota>>& field) {
  ReadQuota(value, field.out->emplace());
}
inline void Write(conf::Writer& writer, const Devices<DeviceQuota>& field) {
  if (!field.out->empty()) WriteQuota(writer, *field.out);
}
inline void Write(conf::Writer& writer, const Devices<std::optional<DeviceQuota>>& field) {
  if (*field.out) WriteQuota(writer, **field.out);
}

// For documents that cannot contain secrets.
const conf::Sources& NoSources();

}  // namespace scheduler::io
