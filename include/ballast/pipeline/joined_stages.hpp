// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_JOINED_STAGES_HPP
#define BALLAST_PIPELINE_JOINED_STAGES_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/text/detail/counted.hpp>

#include <cstddef>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

/// A part of a model with stages of its own, one after the other: an encoder, the LLM, a generator.
struct pipeline_module {
  std::size_t stages = 1;
  bool backward = true;  ///< false where this module and all modules that feed it are frozen
  friend bool operator==(pipeline_module const&, pipeline_module const&) = default;
};

/// Encoders that feed one LLM, which feeds generators.
struct joined_modules {
  std::vector<pipeline_module> encoders = {};
  pipeline_module llm = {};
  std::vector<pipeline_module> generators = {};
  time_units transfer = 0;  ///< between any two stages
  friend bool operator==(joined_modules const&, joined_modules const&) = default;
};

/// The stages of such a model, each on a rank of its own, numbered module after module: the
/// encoders as they are listed, the LLM, the generators, and named so. The last stage of every
/// encoder feeds the first of the LLM, and the last of the LLM the first of every generator.
///
/// Errors      out_of_range: module `position`, counted in that order, has no stage or too many;
///             those of stage_graph::make, for a transfer time, or a module without backward that
///             a module with one feeds.
/// Complexity  that of stage_graph::make.
[[nodiscard]] inline result<stage_graph> joined_stages(joined_modules const& modules)
{
  std::vector<pipeline_module> all = modules.encoders;
  all.push_back(modules.llm);
  all.insert(all.end(), modules.generators.begin(), modules.generators.end());
  std::size_t room = stage_graph::most_stages;
  for (std::size_t module = 0; module < all.size(); ++module) {
    if (all[module].stages == 0 || all[module].stages > room) {
      return fail(error_code::out_of_range, module, "module ", module, " has ",
                  detail::counted(all[module].stages, "stage"),
                  "; give every module at least one, and ", stage_graph::most_stages,
                  " to all at most");
    }
    room -= all[module].stages;
  }

  std::vector<pipeline_stage> stages;
  std::vector<stage_link> links;
  auto const append = [&](pipeline_module const& module, model_part part,
                          std::vector<stage_id> const& feeders) {
    std::vector<stage_id> feed = feeders;
    for (std::size_t left = module.stages; left > 0; --left) {
      auto const stage = to_id<stage_id>(stages.size());
      for (stage_id const from : feed) { links.push_back({from, stage, modules.transfer}); }
      stages.push_back({to_id<pipeline_rank>(stages.size()), module.backward, part});
      feed = {stage};
    }
    return feed.front();
  };
  std::vector<stage_id> encoded;
  encoded.reserve(modules.encoders.size());
  for (pipeline_module const& encoder : modules.encoders) {
    encoded.push_back(append(encoder, model_part::encoder, {}));
  }
  stage_id const last_of_llm = append(modules.llm, model_part::llm, encoded);
  for (pipeline_module const& generator : modules.generators) {
    append(generator, model_part::generator, {last_of_llm});
  }
  return stage_graph::make(std::move(stages), links);
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PIPELINE_JOINED_STAGES_HPP
