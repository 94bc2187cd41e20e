// The types and error codes of NVML, after NVIDIA's API reference. For the files nvml*.cc alone.
#pragma once

#include "plugins/devices/dynamic_library.h"

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

using Library = DynamicLibrary;
template <class Signature>
using Function = LibraryFunction<Signature>;

}  // namespace plugins::devices::nvml
