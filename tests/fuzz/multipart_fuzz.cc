// The multipart scan must be safe on any bytes, and its answer must not depend on how they are split.
#include <cstdint>
#include <cstdlib>

#include "router/facts/multipart.h"

namespace {

router::MultipartScanner Scan(std::string_view body, size_t step) {
  router::MultipartScanner scanner("XY");
  for (size_t at = 0; at < body.size(); at += step) scanner.Feed(body.substr(at, step));
  scanner.Finish();
  return scanner;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  router::MultipartScanner::BoundaryOf(body);
  const router::MultipartScanner whole = Scan(body, size + 1);
  const router::MultipartScanner bytewise = Scan(body, 1);
  if (whole.state() != bytewise.state()) std::abort();
  if (whole.state() == router::MultipartScanner::State::kFailed) {
    if (whole.error().code != bytewise.error().code) std::abort();
    return 0;
  }
  const auto model = whole.field(router::FormField::kModel);
  if (model != bytewise.field(router::FormField::kModel)) std::abort();
  if (whole.range(router::FormField::kModel).In(body) != model) std::abort();
  return 0;
}
