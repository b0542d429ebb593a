// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

namespace ballast::inline v0 {

/// The parts of a multimodal model, and what is sent between them.
enum class model_part : std::uint8_t { llm, encoder, generator, transfer };

/// Some layers of a model and where they are; or one direction of a link on which one microbatch is
/// sent after the other, as a stage on a rank of its own: a transfer.
struct pipeline_stage {
  pipeline_rank rank{};
  bool backward = true;  ///< false where nothing here or upstream is trained: a frozen encoder
  model_part part = model_part::llm;
  /// Its backward is in two parts: the gradients of its inputs, for which other stages wait, and
  /// those of its weights, for which none does.
  bool weights = false;

  /// A transfer has one pass: with `backward` it sends gradients, without it activations.
  [[nodiscard]] constexpr bool has_forward() const noexcept
  {
    return part != model_part::transfer || !backward;
  }

  friend bool operator==(pipeline_stage const&, pipeline_stage const&) = default;
};

/// Activations flow from one stage to another, and gradients back.
struct stage_link {
  stage_id from{};
  stage_id to{};
  time_units transfer =
      0;  ///< from the end of one task to the start of the other, in both directions
  friend bool operator==(stage_link const&, stage_link const&) = default;
};

/// The stages of a model and how activations flow between them: a chain, or encoders that join in
/// an LLM that feeds generators.
///
/// The forward of a microbatch on a stage waits for its forwards on all stages that feed it, and
/// its backward for its backwards on all stages that it feeds, as far as these have such passes.
/// Transfers do not keep a rank from computing.
///
/// Ensures     (1) every link goes from a lower to a higher stage, so there is no cycle
///             (2) no stage with a backward feeds a stage without one, unless this is a transfer
///             (3) every rank below ranks() has a stage
///             (4) a stage with a weights pass has a backward and is no transfer
/// Complexity  make: O(stages + links log links); links of a stage: O(1).
class stage_graph {
 public:
  /// Errors   infeasible: link `position` goes down or to its own stage, repeats another, or feeds
  ///          a stage without backward from one with; or rank `position` has no stage, or
  ///          stage `position` a weights pass without a backward;
  ///          out_of_range: link `position` names a stage that does not exist or has a transfer
  ///          time outside [0, 2^53], or there are no stages or too many.
  [[nodiscard]] BALLAST_ONCE static result<stage_graph> make(std::vector<pipeline_stage> stages,
                                                             std::vector<stage_link> const& links);

#ifdef __cpp_exceptions
  /// One that the program wrote itself. Where it is wrong, throws what make() says.
  stage_graph(std::vector<pipeline_stage> stages, std::vector<stage_link> const& links)
      : stage_graph(or_throw(make(std::move(stages), links)))
  {}
#endif

  [[nodiscard]] std::size_t stages() const noexcept { return stages_.size(); }
  [[nodiscard]] std::size_t ranks() const noexcept { return of_rank_.size(); }

  [[nodiscard]] pipeline_stage const& operator[](stage_id stage) const
  {
    BALLAST_EXPECTS(to_index(stage) < stages(), "stage ", stage, " of a pipeline of ",
                    detail::counted(stages(), "stage"));
    return stages_[to_index(stage)];
  }

  /// The stages of a rank, in increasing order.
  [[nodiscard]] std::span<stage_id const> stages_on(pipeline_rank rank) const
  {
    return of_rank_[rank];
  }

  /// All links, by the stage that each leaves, then by the one that it enters.
  [[nodiscard]] std::span<stage_link const> links() const noexcept { return out_of_.values(); }

  /// The links that feed a stage, by the stage that they leave.
  [[nodiscard]] std::span<stage_link const> links_into(stage_id stage) const
  {
    return links_of(stage, into_);
  }

  /// The links that a stage feeds, by the stage that they enter.
  [[nodiscard]] std::span<stage_link const> links_out_of(stage_id stage) const
  {
    return links_of(stage, out_of_);
  }

  friend bool operator==(stage_graph const&, stage_graph const&) = default;

  /// The longest duration or transfer that a pipeline has: sums of a thousand still fit 64 bits.
  static constexpr time_units longest_time = time_units{1} << 53;
  static constexpr std::size_t most_stages = std::size_t{1} << 16;

 private:
  stage_graph() = default;

  [[nodiscard]] static std::string name_of(stage_link const& link, std::size_t number)
  {
    return detail::concat("link ", number, " from stage ", to_index(link.from), " to stage ",
                          to_index(link.to));
  }

  [[nodiscard]] result<void> check_link(stage_link const& link, std::size_t number) const
  {
    auto const& [from, to, transfer] = link;
    auto const refuse = [&](error_code code, std::string const& why) {
      return fail(code, number, name_of(link, number) + why);
    };
    if (to_index(from) >= stages() || to_index(to) >= stages()) {
      return refuse(error_code::out_of_range,
                    detail::concat(" names a stage that does not exist; there are ", stages()));
    }
    if (from >= to) {
      return refuse(error_code::infeasible,
                    " does not go up; number the stages in the order of the forward pass");
    }
    if (transfer < 0 || transfer > longest_time) {
      return refuse(error_code::out_of_range,
                    detail::concat(" has a transfer time of ", transfer,
                                   ", which is not from 0 to 2^53; use a coarser unit of time"));
    }
    if (stages_[to_index(from)].backward && !stages_[to_index(to)].backward &&
        stages_[to_index(to)].part != model_part::transfer) {
      return refuse(error_code::infeasible,
                    " would need a gradient from a stage that has no backward; give the latter one "
                    "or take the former's away");
    }
    return {};
  }

  [[nodiscard]] std::span<stage_link const> links_of(
      stage_id stage, jagged<stage_id, stage_link> const& links) const
  {
    BALLAST_EXPECTS(to_index(stage) < stages(), "links of stage ", stage, " of a pipeline of ",
                    detail::counted(stages(), "stage"));
    return links[stage];
  }

  [[nodiscard]] result<void> sort_links(std::vector<stage_link> const& links)
  {
    std::vector<std::size_t> sorted(links.size());
    std::iota(sorted.begin(), sorted.end(), std::size_t{0});
    std::sort(sorted.begin(), sorted.end(), [&](std::size_t a, std::size_t b) {
      return detail::precedes(links[a].from, links[b].from, links[a].to, links[b].to, a, b);
    });
    std::size_t repeat = links.size();
    for (std::size_t at = 1; at < sorted.size(); ++at) {
      auto const& [from, to, transfer] = links[sorted[at]];
      if (from == links[sorted[at - 1]].from && to == links[sorted[at - 1]].to) {
        repeat = std::min(repeat, sorted[at]);
      }
    }
    if (repeat < links.size()) {
      return fail(error_code::infeasible, repeat,
                  name_of(links[repeat], repeat) + " repeats another; leave one out");
    }
    out_of_.fill(stages(), [&](auto const& visit) {
      for (std::size_t const link : sorted) { visit(links[link].from, links[link]); }
    });
    into_.fill(stages(), [&](auto const& visit) {
      for (std::size_t const link : sorted) { visit(links[link].to, links[link]); }
    });
    return {};
  }

  [[nodiscard]] result<void> number_ranks()
  {
    std::vector<bool> used(stages() + 1);  // a rank above these leaves a gap below
    std::size_t ranks = 0;
    for (pipeline_stage const& stage : stages_) {
      ranks = std::max(ranks, to_index(stage.rank) + 1);
      if (to_index(stage.rank) < stages()) { used[to_index(stage.rank)] = true; }
    }
    std::size_t unused = 0;
    while (used[unused]) { ++unused; }
    if (unused < ranks) {
      return fail(error_code::infeasible, unused, "pipeline rank ", unused,
                  " has no stage; number the ranks without gaps");
    }
    of_rank_.fill(ranks, [this](auto const& visit) {
      for (std::size_t stage = 0; stage < stages(); ++stage) {
        visit(stages_[stage].rank, to_id<stage_id>(stage));
      }
    });
    return {};
  }

  std::vector<pipeline_stage> stages_;
  jagged<stage_id, stage_link> out_of_;  // of each stage
  jagged<stage_id, stage_link> into_;
  jagged<pipeline_rank, stage_id> of_rank_;
};

/// Stages one after the other, given to the ranks in turn: with as many ranks as stages, each has
/// one; with fewer, as interleaved schedules need it, stage s is virtual stage s / ranks of rank
/// s % ranks. On one rank nothing is transferred.
///
/// Expects     stages >= 1, 1 <= ranks <= stages, and 0 <= transfer <= stage_graph::longest_time.
[[nodiscard]] inline stage_graph chain_of_stages(std::size_t stages, std::size_t ranks,
                                                 time_units transfer = 0)
{
  BALLAST_EXPECTS(stages >= 1 && stages <= stage_graph::most_stages, "a chain of ",
                  detail::counted(stages, "stage"), " was asked for; it has from 1 to ",
                  stage_graph::most_stages);
  BALLAST_EXPECTS(ranks >= 1 && ranks <= stages, "a chain of ", detail::counted(stages, "stage"),
                  " was asked for on ", detail::counted(ranks, "rank"));
  BALLAST_EXPECTS(transfer >= 0 && transfer <= stage_graph::longest_time,
                  "a chain was asked for with a transfer of ", transfer, "; it takes from 0 to ",
                  stage_graph::longest_time);
  std::vector<pipeline_stage> chain(stages);
  std::vector<stage_link> links(stages - 1);
  for (std::size_t stage = 0; stage < stages; ++stage) {
    chain[stage].rank = to_id<pipeline_rank>(stage % ranks);
    if (stage > 0) {
      links[stage - 1] = {to_id<stage_id>(stage - 1), to_id<stage_id>(stage),
                          ranks == 1 ? 0 : transfer};
    }
  }
  return stage_graph::make(std::move(chain), links).value();
}

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

#ifndef BALLAST_COMPILED

[[nodiscard]] BALLAST_ONCE result<stage_graph> stage_graph::make(
    std::vector<pipeline_stage> stages, std::vector<stage_link> const& links)
{
  if (stages.empty() || stages.size() > most_stages) {
    return fail(error_code::out_of_range, 0, "a pipeline has from 1 to ", most_stages,
                " stages, not ", stages.size());
  }
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    bool const splits = stages[stage].backward && stages[stage].part != model_part::transfer;
    if (stages[stage].weights && !splits) {
      return fail(error_code::infeasible, stage, "stage ", stage,
                  " has a weights pass and no backward to split; leave it out");
    }
  }
  stage_graph graph;
  graph.stages_ = std::move(stages);
  for (std::size_t number = 0; number < links.size(); ++number) {
    if (auto const sound = graph.check_link(links[number], number); !sound) {
      return tl::unexpected(sound.error());
    }
  }
  if (auto const sound = graph.sort_links(links); !sound) { return tl::unexpected(sound.error()); }
  if (auto const sound = graph.number_ranks(); !sound) { return tl::unexpected(sound.error()); }
  return graph;
}

#endif

}  // namespace ballast::inline v0
