#include "plugins/launchers/mps.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "scheduler/model.h"

namespace plugins::launchers {
namespace {

constexpr std::string_view kPipes = "CUDA_MPS_PIPE_DIRECTORY";
constexpr std::string_view kCompute = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";
constexpr std::string_view kMemory = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT";
constexpr std::array kVariables{kPipes, kCompute, kMemory};
constexpr std::string_view kUsualPipes = "/tmp/nvidia-mps";  // CUDA's own default

}  // namespace

bool IsMpsVariable(std::string_view name) {
  return std::ranges::find(kVariables, name) != kVariables.end();
}

absl::StatusOr<std::vector<std::pair<std::string, std::string>>> MpsLimits(const DeviceGrant& grant) {
  std::vector<std::pair<std::string, std::string>> variables;
  if (grant.devices.empty() || grant.milli >= scheduler::kWholeDevice) return variables;
  const char* const given = std::getenv(std::string(kPipes).c_str());
  const std::string pipes = given != nullptr && *given != '\0' ? given : std::string(kUsualPipes);
  std::error_code failed;
  if (!std::filesystem::exists(std::filesystem::path(pipes) / "control", failed)) {
    return absl::FailedPreconditionError(fmt::format(
        "nothing would enforce its share of a device: there is no {}/control; start NVIDIA's MPS with "
        "nvidia-cuda-mps-control -d",
        pipes));
  }
  variables.emplace_back(kPipes, pipes);
  variables.emplace_back(kCompute, fmt::format("{}", std::max(1, grant.milli / 10)));
  // Named by the number of the device among the devices that the process sees: it sees one.
  if (grant.device_mib > 0) variables.emplace_back(kMemory, fmt::format("0={}M", grant.device_mib));
  return variables;
}

}  // namespace plugins::launchers
