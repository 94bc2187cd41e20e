// NVIDIA GPUs by NVML, the driver's own library, opened when it is there: nothing of it is needed to build
// or run. MIG instances are told with their place; NVLink domains as who reaches whom over it.
//
// Declarations are our own, of the few functions that are called, after NVIDIA's API reference; those that a
// driver does not have yet are done without.
#pragma once

#include <string>

#include "plugins/devices/probe.h"

namespace plugins::devices {

Found LookByNvml(const std::string& library = "libnvidia-ml.so.1");

}  // namespace plugins::devices
