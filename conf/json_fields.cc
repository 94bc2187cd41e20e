#include "conf/json_fields.h"

#include <absl/time/time.h>

namespace conf {

void WriteJson(JsonWriter& writer, Duration in) {
  writer.String(FormatDuration(in));
}

void WriteJson(JsonWriter& writer, ShownTime in) {
  writer.String(FormatTime(in.at));
}

void WriteJson(JsonWriter& writer, TimePoint in) {
  writer.String(absl::FormatTime("%Y-%m-%dT%H:%M:%E*SZ", absl::FromUnixNanos(in.time_since_epoch().count()),
                                 absl::UTCTimeZone()));
}

}  // namespace conf
