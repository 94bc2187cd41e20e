// A day of requests: a recorded hour again and again, at a pace that follows the rates of recorded clients over a day.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "router/sim/world.h"

namespace bench::autoscaling {

inline constexpr conf::Duration kDay = std::chrono::hours(24);
inline constexpr conf::Duration kPaceFor = std::chrono::minutes(10);  // ServeGen's windows

// The rates of ServeGen's clients ("m-small/17"; "./0" of the folder itself) in steps of kPaceFor over their first day, summed. Nothing, and why on standard error, when a file cannot be read.
std::optional<std::vector<double>> RatesOf(const std::string& traces,
                                           std::span<const std::string_view> clients);

// The hour sped up in each step by its rate over the mean rate, times `pace`.
std::vector<router::sim::Request> DayOf(std::span<const router::sim::Request> hour,
                                        std::span<const double> rates, double pace);

// The highest rate over the mean.
double PeakOverMean(std::span<const double> rates);

}  // namespace bench::autoscaling
