// Runs a command line in this process: its exit code and its output.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "gateway/cli/commands.h"

namespace tests {

struct CliResult {
  int code = 0;
  std::string out;
  std::string err;
};

// `args` without the program's name.
inline CliResult RunCli(const std::vector<std::string>& args) {
  std::vector<const char*> argv = {"tidegate"};
  argv.reserve(args.size() + 1);
  for (const std::string& arg : args) argv.push_back(arg.c_str());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  CliResult result;
  result.code = gateway::cli::RunCommandLine(static_cast<int>(argv.size()), argv.data());
  std::fflush(stdout);
  result.out = testing::internal::GetCapturedStdout();
  result.err = testing::internal::GetCapturedStderr();
  return result;
}

}  // namespace tests
