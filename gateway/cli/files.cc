#include "gateway/cli/files.h"

#include <absl/strings/str_replace.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "conf/text.h"
#include "gateway/cli/output.h"
#include "gateway/net/files.h"

namespace gateway::cli {
namespace {

std::string Why(int error) {
  return std::generic_category().message(error);
}

// The target of a link; a path that does not exist stands for itself.
std::string Target(const std::string& path) {
  std::error_code error;
  const std::filesystem::path target = std::filesystem::canonical(path, error);
  return error ? path : target.string();
}

std::string Beside(const std::string& target) {
  return fmt::format("{}.part-{}", target, getpid());
}

bool IsPlain(const struct stat& info) {
  return S_ISREG(info.st_mode);
}

}  // namespace

absl::StatusOr<std::string> ReadWhole(const std::string& path, size_t most) {
  const absl::StatusOr<net::Fd> file = net::OpenFile(path, O_RDONLY);
  if (!file.ok()) return file.status();
  return net::ReadAll(file->get(), path, most);
}

absl::StatusOr<std::string> ReadApiKey(const std::string& path, std::string_view option,
                                       const char* variable) {
  constexpr size_t kMost = 4096;
  if (path.empty()) {
    const char* const value = variable == nullptr ? nullptr : std::getenv(variable);
    return std::string(value == nullptr ? "" : value);
  }
  absl::StatusOr<std::string> key = ReadWhole(path, kMost);
  if (!key.ok()) {
    return absl::InvalidArgumentError(
        conf::Abseil(fmt::format("{}: {}", option, conf::Std(key.status().message()))));
  }
  while (key->ends_with('\n') || key->ends_with('\r')) key->pop_back();
  return key;
}

std::string WhyNotWritable(const std::string& path) {
  const std::string target = Target(path);
  struct stat info{};
  if (stat(target.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return Why(EISDIR);
    if (access(target.c_str(), W_OK) != 0) return Why(errno);
    if (!IsPlain(info)) return {};
  }
  const std::string probe = Beside(target);
  const int fd = open(probe.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0) return Why(errno);
  close(fd);
  unlink(probe.c_str());
  return {};
}

absl::Status WriteWhole(const std::string& path, std::string_view text) {
  const std::string target = Target(path);
  struct stat info{};
  const bool exists = stat(target.c_str(), &info) == 0;
  if (exists && !IsPlain(info)) {
    const absl::StatusOr<net::Fd> file = net::OpenFile(target, O_WRONLY);
    return file.ok() ? net::WriteAll(file->get(), path, text) : file.status();
  }
  const std::string fresh = Beside(target);
  absl::Status written = net::WriteFile(fresh, text, 0666);
  if (written.ok() && exists && chmod(fresh.c_str(), info.st_mode & 07777) != 0)
    written = net::SystemError("set the mode of", fresh, errno);
  if (written.ok()) written = net::RenameFile(fresh, target);
  if (written.ok()) return written;
  unlink(fresh.c_str());
  // Nobody has given the name of the file beside it.
  return {written.code(), absl::StrReplaceAll(written.message(), {{fresh, target}})};
}

absl::Status Print(std::string_view text) {
  return WriteOutput(text) && OutputWritten() ? absl::OkStatus() : OutputError();
}

}  // namespace gateway::cli
