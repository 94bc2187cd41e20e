// Runs a fuzz target over files that stand in the folders given, so that what once broke it is an ordinary
// test where no fuzzer is built.
//
// FUZZ_TARGETS: TARGET(name) for each target; its function is called name_target here.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

using FuzzTarget = int(const uint8_t* data, size_t size);

#define TARGET(name) extern "C" FuzzTarget name##_target;
FUZZ_TARGETS
#undef TARGET

int main(int argc, char** argv) {
  const std::map<std::string, FuzzTarget*> targets = {
#define TARGET(name) {#name, name##_target},
      FUZZ_TARGETS
#undef TARGET
  };
  const auto target = argc > 1 ? targets.find(argv[1]) : targets.end();
  if (target == targets.end()) {
    std::fprintf(stderr, "usage: fuzz_replay TARGET FOLDER...\n");
    return 2;
  }
  size_t inputs = 0;
  for (int i = 2; i < argc; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      std::ifstream in(entry.path(), std::ios::binary);
      const std::string input{std::istreambuf_iterator<char>(in), {}};
      // Before it runs, so that a crash has a name.
      std::printf("%s\n", entry.path().c_str());
      std::fflush(stdout);
      target->second(reinterpret_cast<const uint8_t*>(input.data()), input.size());
      ++inputs;
    }
  }
  if (inputs == 0) std::fprintf(stderr, "no inputs\n");
  return inputs == 0;
}
