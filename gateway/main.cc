// tidegate: an AI model gateway that schedules the GPUs behind it.
#include "gateway/cli/commands.h"

int main(int argc, char** argv) {
  return gateway::cli::RunCommandLine(argc, argv);
}
