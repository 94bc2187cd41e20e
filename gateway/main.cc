// tidegate: an AI model gateway that schedules the GPUs behind it.
#include <csignal>

#include "gateway/cli/commands.h"
#include "gateway/net/standard_descriptors.h"

int main(int argc, char** argv) {
  gateway::net::OpenStandardDescriptors();
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an output that cannot be written, and said to be
  return gateway::cli::RunCommandLine(argc, argv);
}
