// The types, error codes and basic functions of NVML, after NVIDIA's API reference. For the files nvml*.cc and
// power_limit.cc alone.
#pragma once

#include <fmt/format.h>

#include <string>

#include "gateway/net/dynamic_library.h"

namespace plugins::devices::nvml {

using Return = int;  // 0: success
struct Handle_st;
using Handle = Handle_st*;

inline constexpr Return kSuccess = 0;
inline constexpr Return kUninitialized = 1;    // NVML_ERROR_UNINITIALIZED
inline constexpr Return kNotSupported = 3;     // NVML_ERROR_NOT_SUPPORTED
inline constexpr Return kNoPermission = 4;     // NVML_ERROR_NO_PERMISSION
inline constexpr Return kNotFound = 6;         // NVML_ERROR_NOT_FOUND
inline constexpr Return kTooSmall = 7;         // NVML_ERROR_INSUFFICIENT_SIZE
inline constexpr Return kDriverNotLoaded = 9;  // NVML_ERROR_DRIVER_NOT_LOADED
inline constexpr Return kLost = 15;            // NVML_ERROR_GPU_IS_LOST
inline constexpr Return kResetRequired = 16;   // NVML_ERROR_RESET_REQUIRED
inline constexpr unsigned kTextSize = 96;

struct Memory {  // nvmlMemory_t, in bytes
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

using Library = gateway::net::DynamicLibrary;
template <class Signature>
using Function = gateway::net::LibraryFunction<Signature>;

// The functions that every driver has and most users call.
struct BasicApi {
  explicit BasicApi(const Library& library)
      : init(library, "nvmlInit_v2"),
        shutdown(library, "nvmlShutdown"),
        error_string(library, "nvmlErrorString"),
        count(library, "nvmlDeviceGetCount_v2"),
        by_index(library, "nvmlDeviceGetHandleByIndex_v2"),
        uuid(library, "nvmlDeviceGetUUID"),
        memory(library, "nvmlDeviceGetMemoryInfo") {}

  bool complete() const { return init && shutdown && count && by_index && uuid; }
  // "GPU is lost (15)"
  std::string Error(Return code) const {
    const char* const text = error_string ? error_string(code) : nullptr;
    return text ? fmt::format("{} ({})", text, code) : fmt::format("error {}", code);
  }

  Function<Return()> init;
  Function<Return()> shutdown;
  Function<const char*(Return)> error_string;
  Function<Return(unsigned*)> count;
  Function<Return(unsigned, Handle*)> by_index;
  Function<Return(Handle, char*, unsigned)> uuid;
  Function<Return(Handle, Memory*)> memory;
};

}  // namespace plugins::devices::nvml
