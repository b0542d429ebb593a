#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/pipeline/module_times.hpp>

#include <array>
#include <vector>

bool sums(std::vector<std::vector<ballast::sample_id>> const& microbatches,
          std::vector<ballast::tokens> const& lengths)
{
  auto const times_of = [](ballast::tokens length) {
    return std::array{ballast::stage_time{length, length}};
  };
  return ballast::sum_over_samples(microbatches, lengths, times_of).has_value();
}
