// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/groups.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>
#include <ballast/version.hpp>

#include <cstdio>
#include <vector>

static_assert(BALLAST_VERSION >= 100);

// Three samples on two GPUs, grouped by the GPU that owns each.
int main()
{
  using ballast::rank_id;
  std::vector<rank_id> const owner = {rank_id{1}, rank_id{0}, rank_id{1}};
  ballast::groups<rank_id, ballast::sample_id> samples;
  samples.regroup(owner, 2);

  ballast::result<std::size_t> const count = samples[rank_id{1}].size();
  std::printf("GPU 1 owns %zu samples\n", *count);
  return *count == 2 ? 0 : 1;
}
