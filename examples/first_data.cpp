// SPDX-License-Identifier: Apache-2.0
// Two ranks train on 1,000 texts that threads load, each step in equal parts.

// [first_data]
#include <ballast/comm.hpp>
#include <ballast/cost.hpp>
#include <ballast/partition.hpp>
#include <ballast/runtime.hpp>
#include <ballast/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>

using namespace ballast;

struct texts {  // what to load: here a text that is made, in yours one of a file
  result<loaded_sample> load(std::uint64_t sample) const
  {
    std::string const text(1 + sample * sample % 997, 'a');
    auto const* const begin = reinterpret_cast<std::byte const*>(text.data());
    return loaded_sample{{static_cast<tokens>(text.size())}, {begin, begin + text.size()}};
  }
};

// Who computes which sample of a step: any planner; step.lengths has a length of each.
result<void> plan(data_step const& step, std::span<rank_id> owner)
{
  return partition(step.lengths, one_gpu_bags(2), "transformer:d=1024,gamma=0.405"_cost)
      .map([&](partition_plan const& made) {
        for (std::size_t entry = 0; entry < owner.size(); ++entry) {
          owner[entry] = to_id<rank_id>(to_index(made.owner[entry]));
        }
      });
}

int main()
{
  std::size_t trained[2] = {};
  data_pipeline pipeline(texts{}, plan, 2, {.samples = 1000, .step_samples = 64, .epochs = 2},
                         data_windows{}, {.least = 1, .most = 4});
  run_ranks(2, [&](thread_communicator& comm) {
    while (auto batch = pipeline.next(comm.rank()).value()) {
      for (auto const& own : batch->own) { trained[comm.rank()] += own.bytes.size(); }
    }
  });
  std::printf("the ranks trained on %zu and %zu bytes\n", trained[0], trained[1]);
}
// [first_data]
