// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_REPLICA_GRAPH_HPP
#define BALLAST_PARALLELISM_DETAIL_REPLICA_GRAPH_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// A module of a group of replicas: the stages of each, the virtual ones of each stage, and the
/// module that it feeds, and whether what it gives to that takes time.
struct replicated_module {
  std::uint32_t pp = 1;
  std::uint32_t virtual_stages = 1;
  std::uint32_t replicas = 1;
  std::size_t feeds = 0;  ///< a later module; the last one's is not read
  bool sends = false;

  /// Stages of the graph that a replica has.
  [[nodiscard]] std::uint32_t parts() const noexcept { return pp * virtual_stages; }

  friend bool operator==(replicated_module const&, replicated_module const&) = default;
};

/// The stages of a group: module after module, replica after replica, and those of a replica dealt
/// to its ranks in turn; behind a module the transfers of each broker, where they take time, each
/// on a rank of its own.
///
/// Replicas of a module and of the one that it feeds share brokers, as many as the greatest common
/// divisor of their numbers. All last stages of a broker feed all first ones, or its transfers do.
///
/// Expects     the parts of a module are below 2^32.
class replica_graph {
 public:
  explicit replica_graph(std::vector<replicated_module> modules) : modules_(std::move(modules))
  {
    std::size_t rank = 0;
    for (std::size_t module = 0; module < modules_.size(); ++module) {
      replicated_module const& each = modules_[module];
      std::size_t const transfers = each.sends ? std::size_t{2} * brokers(module) : 0;
      places_.push_back({stages_, rank});
      stages_ += std::size_t{each.replicas} * each.parts() + transfers;
      rank += std::size_t{each.replicas} * each.pp + transfers;
    }
  }

  [[nodiscard]] std::vector<replicated_module> const& modules() const noexcept { return modules_; }
  [[nodiscard]] std::size_t stages() const noexcept { return stages_; }

  /// Between a module and the one that it feeds.
  [[nodiscard]] std::uint32_t brokers(std::size_t module) const noexcept
  {
    return module + 1 < modules_.size()
               ? std::gcd(modules_[module].replicas, modules_[modules_[module].feeds].replicas)
               : 0;
  }

  [[nodiscard]] std::size_t stage_of(std::size_t module, std::uint32_t replica,
                                     std::uint32_t part) const
  {
    return places_[module].stage + std::size_t{replica} * modules_[module].parts() + part;
  }

  [[nodiscard]] pipeline_rank rank_of(std::size_t module, std::uint32_t replica,
                                      std::uint32_t stage) const
  {
    return to_id<pipeline_rank>(places_[module].rank + std::size_t{replica} * modules_[module].pp +
                                stage);
  }

  /// The stage of a broker behind a module that sends; the next stage sends gradients back.
  [[nodiscard]] std::size_t transfer_of(std::size_t module, std::uint32_t broker) const
  {
    return stage_of(module, modules_[module].replicas, 0) + std::size_t{2} * broker;
  }

  /// Errors   those of stage_graph::make.
  [[nodiscard]] result<stage_graph> graph() const
  {
    std::vector<pipeline_stage> stages(std::min(stages_, stage_graph::most_stages + 1));
    std::vector<stage_link> links;
    for (std::size_t module = 0; module < modules_.size() && stages_ == stages.size(); ++module) {
      replicated_module const& own = modules_[module];
      for (std::uint32_t replica = 0; replica < own.replicas; ++replica) {
        for (std::uint32_t part = 0; part < own.parts(); ++part) {
          std::size_t const stage = stage_of(module, replica, part);
          stages[stage].rank = rank_of(module, replica, part % own.pp);
          if (part > 0) { links.push_back(link(stage - 1, stage)); }
        }
      }
      for (std::uint32_t broker = 0; broker < brokers(module); ++broker) {
        link_broker(module, broker, stages, links);
      }
    }
    return stage_graph::make(std::move(stages), links);
  }

 private:
  struct place {
    std::size_t stage;
    std::size_t rank;
  };

  [[nodiscard]] static stage_link link(std::size_t from, std::size_t to)
  {
    return {to_id<stage_id>(from), to_id<stage_id>(to)};
  }

  void link_broker(std::size_t module, std::uint32_t broker, std::vector<pipeline_stage>& stages,
                   std::vector<stage_link>& links) const
  {
    replicated_module const& own = modules_[module];
    std::uint32_t const of_broker = own.replicas / brokers(module);
    std::uint32_t const others = modules_[own.feeds].replicas / brokers(module);
    auto const link_all_from = [&](std::size_t stage) {
      for (std::uint32_t other = 0; other < others; ++other) {
        links.push_back(link(stage, stage_of(own.feeds, broker * others + other, 0)));
      }
    };
    std::size_t const there = own.sends ? transfer_of(module, broker) : 0;
    for (std::uint32_t each = 0; each < of_broker; ++each) {
      std::size_t const last = stage_of(module, broker * of_broker + each, own.parts() - 1);
      if (!own.sends) {
        link_all_from(last);
        continue;
      }
      links.push_back(link(last, there));
      links.push_back(link(last, there + 1));
    }
    if (!own.sends) { return; }
    for (std::uint32_t const way : {0U, 1U}) {
      stages[there + way] = {rank_of(module, own.replicas, 2 * broker + way), way == 1,
                             model_part::transfer};
      link_all_from(there + way);
    }
  }

  std::vector<replicated_module> modules_;
  std::vector<place> places_;  // the first of each module
  std::size_t stages_ = 0;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_REPLICA_GRAPH_HPP
