// SPDX-License-Identifier: Apache-2.0
// DFLOP (H. An et al., arXiv 2603.25120): every module of a model has a parallelism of its own,
// chosen from its profile and from what the data are to it. The best layout of one tp and one dp
// for all modules, with the encoder as the first stages of the LLM's pipelines, beside the best of
// all, on 64 GPUs; both are simulated on the same real batches: dflop_layouts ONE.csv SEVERAL.csv
// VIDEO.csv, the first with columns width, height and caption_tokens_sum, the second with
// text_tokens and image_dims, the third with text_tokens, answer_tokens and frame_count. The paper
// has steps 1.2 to 3.6 times as fast.

#include "common/dflop_models.hpp"

#include <ballast/cost.hpp>
#include <ballast/parallelism.hpp>
#include <ballast/workload.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <limits>
#include <span>
#include <vector>

namespace {

using namespace ballast;
using namespace dflop_models;

struct comparison {
  simulated_layout homogeneous;
  simulated_layout searched;
};

// [layouts]
comparison compare(std::array<module_profile, 2> const& modules,
                   std::array<std::vector<input_shape>, 3> const& kinds)
{
  auto const priced = draw_mix(kinds, 2, 1);
  auto const real = draw_mix(kinds, 12, 2);
  auto const batches = std::span(real).first(4 * batch * modules.size());
  layout_problem problem;
  problem.modules = modules;
  problem.sizes = priced;
  problem.global_batch = batch;
  problem.gpus = gpus;
  problem.memory_bytes = 80'000'000'000;
  return {rank_by_simulation(problem, homogeneous_layouts(problem), batches).value().at(0),
          search_layouts(problem, batches).value().layouts.at(0)};
}
// [layouts]

double print(char const* model, comparison const& found)
{
  double const ratio = static_cast<double>(found.homogeneous.simulated) /
                       static_cast<double>(found.searched.simulated);
  std::printf("%-30s", model);
  for (auto const& [layout, simulated] : {found.homogeneous, found.searched}) {
    std::printf("%24s%8.2f s", text_of(layout).c_str(), static_cast<double>(simulated) * 1e-12);
  }
  std::printf("%8.2f x\n", ratio);
  return ratio;
}

}  // namespace

int main(int argc, char** argv)
{
  try {
    if (argc != 4) {
      return std::fputs("dflop_layouts: give ONE.csv SEVERAL.csv VIDEO.csv\n", stderr), 2;
    }
    auto const raw = load_three_kinds(argv[1], argv[2], argv[3]);
    auto const models = three_models(raw);

    std::printf("tp.pp.dp of encoder and LLM x microbatches; steps of %u samples on %u GPUs\n\n",
                batch, gpus);
    std::printf("%-30s%24s%10s%24s%10s%10s\n", "model", "homogeneous", "step", "searched", "step",
                "ratio");
    double least = std::numeric_limits<double>::max();
    for (dflop_model const& model : models) {
      least = std::min(least, print(model.name, compare(model.modules, model.kinds)));
    }
    std::printf("\nin the paper: 1.2 to 3.6 x\n");
    return least >= 1 ? 0 : 1;
  } catch (std::exception const& problem) {
    return std::fprintf(stderr, "dflop_layouts: %s\n", problem.what()), 1;
  }
}
