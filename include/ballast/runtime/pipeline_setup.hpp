// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/route/unit_plan.hpp>
#include <ballast/runtime/detail/plan_together.hpp>
#include <ballast/runtime/scheduled_step.hpp>
#include <ballast/topology/process_grid.hpp>

#include <bit>
#include <cmath>
#include <cstring>

/// What ranks compare of a pipeline: a word that differs where it does.
namespace ballast::inline v0 {

namespace detail {

[[nodiscard]] inline std::uint64_t word_of(process_grid const& grid)
{
  digest all;
  for (std::uint32_t module = 0; module < grid.size(); ++module) {
    auto const [data, pipeline, tensor] = grid[module];
    all.add(data).add(pipeline).add(tensor);
  }
  return all.value();
}

[[nodiscard]] inline std::uint64_t word_of(compiled_schedule const& schedule)
{
  digest all;
  stage_graph const& stages = schedule.stages();
  for (std::size_t stage = 0; stage < stages.stages(); ++stage) {
    pipeline_stage const& own = stages[to_id<stage_id>(stage)];
    all.add(std::uint64_t{to_index(own.rank)} << 1U | (own.backward ? 1U : 0U));
  }
  for (stage_link const& link : stages.links()) {
    all.add(std::uint64_t{to_index(link.from)} << 32U | to_index(link.to));
  }
  for (pipeline_task const& task : schedule.tasks()) {
    all.add(std::uint64_t{task.position} << 32U | to_index(task.stage) << 1U |
            (task.pass == pass::forward ? 0U : 1U) |
            (task.pass == pass::weights ? std::uint64_t{1} << 31U : 0U));
  }
  return all.value();
}

}  // namespace detail

/// Where a stage is: its pipeline rank is a pipeline coordinate of the grid, module after module.
///
/// Expects     the grid has that pipeline rank, and its module these coordinates.
[[nodiscard]] inline rank_id rank_of_stage(process_grid const& grid, stage_graph const& stages,
                                           stage_id stage, std::uint32_t data,
                                           std::uint32_t tensor = 0)
{
  std::size_t coordinate = to_index(stages[stage].rank);
  std::uint32_t module = 0;
  while (coordinate >= grid[module].pipeline) { coordinate -= grid[module++].pipeline; }
  return grid.rank({module, data, static_cast<std::uint32_t>(coordinate), tensor});
}

/// Gradients of some weights of a stage, on the rank that has them.
template <std::floating_point T>
struct stage_gradient {
  stage_id stage{};
  std::span<T> values;
  bool counts = true;  ///< false for a copy of what counts elsewhere: a shared weight, or one that
                       ///< all tensor ranks have
};

/// Scales the gradients of all stages, so that their Euclidean norm is at most `most`, and returns
/// what it was before.
///
///     auto const norm = clip_gradients(comm, grid, stages.stages(), own, 1.0).value();
///
/// Call it when replicas have the same gradients; those of the first replica are added up.
///
/// Shapes      own: all gradients of this rank's stages.
/// Expects     most > 0; stages below `stages`. Every rank of the grid calls it.
/// Ensures     squares are added in the order of stages, of tensor ranks, and of `own`, in double
///             precision. So norm and gradients have the same bits however stages are spread over
///             ranks, on one rank too
/// Errors      mismatch, on every rank: `most` or the grid differs, and nothing is scaled. Those of
///             the communicator, also where numbers of stages differ.
/// Complexity  O(gradients + ranks x stages), one all_gather of 8 bytes and 8 for each stage.
template <communicator C, std::floating_point T>
[[nodiscard]] result<double> clip_gradients(C& comm, process_grid const& grid, std::size_t stages,
                                            std::span<stage_gradient<T> const> own, double most)
{
  BALLAST_EXPECTS(most > 0, "gradients are to be clipped to a norm that is not above 0");
  BALLAST_EXPECTS(comm.size() == grid.ranks(), "a grid of ", detail::counted(grid.ranks(), "rank"),
                  " was given a communicator of ", comm.size());
  for (stage_gradient<T> const& each : own) {
    BALLAST_EXPECTS(to_index(each.stage) < stages, "a gradient of stage ", each.stage, " of ",
                    detail::counted(stages, "stage"), " is to be clipped; stages count from 0");
  }
  auto const word = digest{}.add(std::bit_cast<std::uint64_t>(most)).add(detail::word_of(grid));
  auto const all = detail::gather_alike<double>(
      comm, "clip_gradients", {word.value(), "`most` or the grid"},
      "clip to the same norm over the same grid", stages, [own](std::size_t stage) {
        double squares = 0;
        for (stage_gradient<T> const& each : own) {
          if (to_index(each.stage) != stage || !each.counts) { continue; }
          for (T const value : each.values) {
            squares += static_cast<double>(value) * static_cast<double>(value);
          }
        }
        return squares;
      });
  if (!all) { return tl::unexpected(all.error()); }
  double sum = 0;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    for (std::size_t rank = 0; rank < comm.size(); ++rank) {
      if (grid.place(to_id<rank_id>(rank)).data > 0) { continue; }
      sum += (*all)(rank, stage);
    }
  }
  double const norm = std::sqrt(sum);
  if (norm > most) {
    auto const factor = static_cast<T>(most / norm);
    for (stage_gradient<T> const& each : own) {
      for (T& value : each.values) { value *= factor; }
    }
  }
  return norm;
}

/// Adds up the gradients of a weight that several stages share, as embedding and head of an LLM do:
/// afterwards each of them has the sum. Each replica and tensor rank adds those of its own.
///
/// Shapes      sharing: at least two stages, in increasing order, on ranks of their own; gradient:
///             equally many numbers of one type on each.
/// Expects     the ranks of these stages call it, at the same point; on others it does nothing.
/// Ensures     they are added in the order of stages, so all have the same bits
/// Errors      infeasible: the stages are in modules of different data or tensor sizes; position is
///             that of the stage among `sharing`. mismatch, on every rank that shares: numbers or
///             their types differ, or the ranks that share. Those of the communicator. `gradient`
///             is then unchanged.
/// Complexity  O(numbers x stages); a message to each of the other stages.
template <class C, std::floating_point T>
  requires communicator<C> && point_to_point<C>
[[nodiscard]] result<void> add_shared_gradients(C& comm, process_grid const& grid,
                                                stage_graph const& stages,
                                                std::span<stage_id const> sharing,
                                                std::span<T> gradient)
{
  grid_place const place = grid.place(comm.rank());
  auto const sizes_of = [&](stage_id stage) {
    return grid[grid.place(rank_of_stage(grid, stages, stage, 0)).module];
  };
  for (std::size_t at = 1; at < sharing.size(); ++at) {
    auto const [data, pipeline, tensor] = sizes_of(sharing[at]);
    auto const first = sizes_of(sharing.front());
    if (data == first.data && tensor == first.tensor) { continue; }
    return fail(error_code::infeasible, at, "stages ", sharing.front(), " and ", sharing[at],
                " share a weight, and have ", first.data, " x ", first.tensor, " and ", data, " x ",
                tensor, " replicas and tensor ranks; give them equally many");
  }
  std::vector<rank_id> ranks;
  for (stage_id const stage : sharing) {
    bool const here = place.data < sizes_of(stage).data && place.tensor < sizes_of(stage).tensor;
    if (here) { ranks.push_back(rank_of_stage(grid, stages, stage, place.data, place.tensor)); }
  }
  if (std::find(ranks.begin(), ranks.end(), comm.rank()) == ranks.end()) { return {}; }

  // What has to be the same on all of them goes before the numbers.
  auto const word = digest{}.add(sizeof(T)).add(detail::span_of(ranks)).value();
  std::size_t const bytes = sizeof(word) + gradient.size_bytes();
  auto const memory = comm.scratch(bytes * (ranks.size() + 1));
  auto const own = memory.first(bytes);  // where the communicator reaches it
  std::memcpy(own.data(), &word, sizeof(word));
  if (!gradient.empty()) {
    std::memcpy(&own[sizeof(word)], gradient.data(), gradient.size_bytes());
  }
  std::vector<transfer_id> transfers;
  transfers.reserve(2 * ranks.size());
  result<void> done;
  auto const begin = [&](result<transfer_id> const& begun) {
    if (!begun) {
      done = tl::unexpected(begun.error());
    } else {
      transfers.push_back(*begun);
    }
  };
  for (std::size_t at = 0; at < ranks.size() && done; ++at) {
    if (ranks[at] == comm.rank()) { continue; }
    begin(comm.receive(memory.subspan((at + 1) * bytes, bytes), ranks[at]));
    if (done) { begin(comm.send(own, ranks[at])); }
  }
  if (done) { done = comm.start(); }
  result<void> different;  // of sizes: the other messages come all the same
  while (done && !transfers.empty()) {
    done = comm.wait_for(transfers.back());
    if (!done && done.error().code == error_code::mismatch) { different = std::exchange(done, {}); }
    if (done) { transfers.pop_back(); }
  }
  if (!done) {
    for (; !transfers.empty(); transfers.pop_back()) { (void)comm.cancel(transfers.back()); }
    return done;
  }
  if (!different) { return different; }
  auto const message_of = [&](std::size_t at) {
    return memory.subspan((ranks[at] == comm.rank() ? 0 : at + 1) * bytes, bytes);
  };
  std::vector<std::uint64_t> words(ranks.size());
  for (std::size_t at = 0; at < ranks.size(); ++at) {
    std::memcpy(&words[at], message_of(at).data(), sizeof(words[at]));
  }
  if (auto differing = detail::dissenters(detail::span_of(words)); !differing.empty()) {
    for (rank_id& each : differing) { each = ranks[to_index(each)]; }
    return comm_failure::mismatch(
        "add_shared_gradients", "the type of the gradients or the ranks that share them",
        std::move(differing), "give gradients of the same type, and the same grid and stages",
        "nothing was added");
  }
  for (std::size_t number = 0; number < gradient.size(); ++number) {
    T sum = 0;
    for (std::size_t at = 0; at < ranks.size(); ++at) {
      T value = 0;
      std::memcpy(&value, &message_of(at)[sizeof(word) + number * sizeof(T)], sizeof(T));
      sum = at == 0 ? value : sum + value;
    }
    gradient[number] = sum;
  }
  return {};
}

/// What does not change from step to step: who computes which stage, in which order, and how wide
/// the rows are that go over a link.
///
/// The pipeline ranks of the schedule are the pipeline coordinates of the grid, module after
/// module. So `joined_stages` goes with a grid that has a module for each of its modules, and
/// `chain_of_stages` with one module.
///
/// Shapes      row_bytes[links], in the order of stage_graph::links().
struct pipeline_setup {
  /// What the ranks that share a stage have after its backward.
  enum class tensor_gradients : std::uint8_t {
    copies,         ///< each the whole gradient of the inputs: one is sent
    float32_parts,  ///< parts of it, which are added in rank order
    float64_parts,
  };

  process_grid grid;
  compiled_schedule schedule;
  std::vector<std::size_t> row_bytes = {};
  unit_strategy strategy = unit_strategy::direct;  ///< between modules of several replicas
  tensor_gradients tensor = tensor_gradients::copies;
  std::size_t ahead = 1;  ///< for so many tasks beside its own a rank is ready to receive

  /// Whether parts of gradients are added.
  [[nodiscard]] bool adds_parts() const noexcept { return tensor != tensor_gradients::copies; }

  /// The ranks between which a pipeline_runner of this setup may send, whatever its plans: what has to
  /// connect before the first task where a first message waits for its receiver (`nccl_pairs`).
  ///
  /// Expects     pipeline_runner::make accepts the setup.
  /// Ensures     in increasing order, each once. What add_shared_gradients sends is not among them
  /// Complexity  O(links x replicas of both sides + ranks).
  [[nodiscard]] std::vector<rank_pair> pairs() const
  {
    std::vector<rank_pair> all;
    auto const add = [&all](rank_id from, rank_id to, bool also_back) {
      if (from == to) { return; }
      all.push_back({from, to});
      if (also_back) { all.push_back({to, from}); }
    };
    stage_graph const& stages = schedule.stages();
    auto const unit_of = [&](stage_id stage) {
      std::uint32_t const module = grid.place(rank_of_stage(grid, stages, stage, 0)).module;
      std::vector<rank_id> ranks;
      for (std::uint32_t data = 0; data < grid[module].data; ++data) {
        ranks.push_back(rank_of_stage(grid, stages, stage, data));
      }
      return ranks;
    };
    for (stage_link const& link : stages.links()) {
      if (stages[link.from].rank == stages[link.to].rank) { continue; }
      bool const back = stages[link.from].backward;
      auto const senders = unit_of(link.from);
      auto const receivers = unit_of(link.to);
      bool const direct = strategy == unit_strategy::direct;
      std::size_t const brokers =
          unit_pair{detail::span_of(senders), detail::span_of(receivers)}.brokers(strategy);
      std::size_t const per_group = direct ? 1 : receivers.size() / brokers;
      for (std::size_t at = 0; at < receivers.size(); ++at) {
        rank_id const broker = receivers[at / per_group * per_group];
        add(broker, receivers[at], back);
        if (broker != receivers[at]) { continue; }
        for (rank_id const sender : senders) { add(sender, broker, back); }
      }
    }
    for (std::size_t rank = 0; rank < grid.ranks(); ++rank) {
      grid_place root = grid.place(to_id<rank_id>(rank));
      root.tensor = 0;
      add(grid.rank(root), to_id<rank_id>(rank), adds_parts());
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }
};

/// The samples of a step: in which microbatch each is, which replica of each module computes it,
/// and how many rows it has on each link. Plain data, which fill() writes by rules, or a trainer in
/// its own manner; it may have more microbatches than the schedule where only some of them are
/// evaluated.
///
///     plan.fill(setup, microbatch, [&](std::size_t sample, std::size_t link) { return ...; });
///
/// A replica computes its samples of a microbatch in increasing order. With equally many replicas
/// everywhere, each may have an order of its own: number its microbatches by their positions.
///
/// Shapes      microbatch[samples], rows[links][samples], replica[modules][samples]; a module of
///             one replica may have an empty list.
/// Expects     lengths from 0 to longest_sample.
struct pipeline_plan {
  std::size_t microbatches = 0;
  std::vector<microbatch_id> microbatch = {};
  std::vector<std::vector<tokens>> rows = {};
  std::vector<std::vector<std::uint32_t>> replica = {};

  /// Writes the plan of samples that are in these microbatches, as many as the schedule has:
  /// rows_of(sample, link), replica_of(sample, module).
  ///
  /// Ensures     nothing is allocated for as many samples as before
  template <class RowsOf, class ReplicaOf>
  pipeline_plan& fill(pipeline_setup const& setup, std::span<microbatch_id const> of_sample,
                      RowsOf const& rows_of, ReplicaOf const& replica_of)
  {
    microbatches = setup.schedule.microbatches();
    if (of_sample.data() != microbatch.data()) {
      microbatch.assign(of_sample.begin(), of_sample.end());
    }
    rows.resize(setup.schedule.stages().links().size());
    replica.resize(setup.grid.size());
    for (auto& each : rows) { each.resize(of_sample.size()); }
    for (auto& each : replica) { each.resize(of_sample.size()); }
    for (std::size_t sample = 0; sample < of_sample.size(); ++sample) {
      for (std::size_t link = 0; link < rows.size(); ++link) {
        rows[link][sample] = static_cast<tokens>(rows_of(sample, link));
      }
      for (std::size_t module = 0; module < replica.size(); ++module) {
        replica[module][sample] = static_cast<std::uint32_t>(replica_of(sample, module));
      }
    }
    return *this;
  }

  /// The same with samples in turn on the replicas of each module: sample s on replica s mod data.
  template <class RowsOf>
  pipeline_plan& fill(pipeline_setup const& setup, std::span<microbatch_id const> of_sample,
                      RowsOf const& rows_of)
  {
    return fill(setup, of_sample, rows_of, [&setup](std::size_t sample, std::size_t module) {
      return sample % setup.grid[static_cast<std::uint32_t>(module)].data;
    });
  }

  /// The plan of a scheduler's step. Its microbatches are numbered by their positions, so that each
  /// group of replicas keeps its order: run it with the order 0, 1, 2, ...
  ///
  /// Expects     the grid has the scheduler's modules and replicas, the schedule its microbatches.
  template <class RowsOf, std::size_t D>
  pipeline_plan& fill(pipeline_setup const& setup, scheduled_step<D> const& step,
                      RowsOf const& rows_of)
  {
    auto const in_group = [&step](std::size_t module) {
      return step.replicas[module] / step.pipelines();
    };
    microbatch.clear();
    for (bag_id const bag : step.owner[0]) {
      microbatch.push_back(to_id<microbatch_id>(to_index(bag) / in_group(0) % step.microbatches));
    }
    return fill(setup, detail::span_of(microbatch), rows_of,
                [&](std::size_t sample, std::size_t module) {
                  std::size_t const bag = to_index(step.owner[module][to_id<sample_id>(sample)]);
                  std::size_t const here = in_group(module);
                  return bag / here / step.microbatches * here + bag % here;
                });
  }
};

namespace detail {

/// A setup, seen by one rank: which stages are its own, and where all others are.
class pipeline_job {
 public:
  /// Errors   those of pipeline_runner::make.
  [[nodiscard]] BALLAST_ONCE static result<pipeline_job> make(pipeline_setup setup, rank_id rank,
                                                              bool can_add);

  [[nodiscard]] pipeline_setup const& setup() const noexcept { return setup_; }
  [[nodiscard]] process_grid const& grid() const noexcept { return setup_.grid; }
  [[nodiscard]] compiled_schedule const& schedule() const noexcept { return setup_.schedule; }
  [[nodiscard]] stage_graph const& stages() const noexcept { return schedule().stages(); }
  [[nodiscard]] std::uint64_t word() const noexcept { return word_; }

  [[nodiscard]] rank_id self() const noexcept { return self_; }
  [[nodiscard]] grid_place const& place() const noexcept { return place_; }
  [[nodiscard]] bool is_root() const noexcept { return place_.tensor == 0; }
  [[nodiscard]] rank_id root() const { return beside(0); }
  [[nodiscard]] rank_id beside(std::uint32_t tensor) const
  {
    grid_place other = place_;
    other.tensor = tensor;
    return grid().rank(other);
  }
  [[nodiscard]] std::uint32_t tensor_ranks() const { return grid()[place_.module].tensor; }
  [[nodiscard]] pipeline_rank own_rank() const noexcept { return own_rank_; }
  [[nodiscard]] bool is_mine(stage_id stage) const { return stages()[stage].rank == own_rank_; }

  [[nodiscard]] std::uint32_t module_of(stage_id stage) const
  {
    return grid().place(rank(stage, 0)).module;
  }
  [[nodiscard]] rank_id rank(stage_id stage, std::uint32_t data, std::uint32_t tensor = 0) const
  {
    return rank_of_stage(grid(), stages(), stage, data, tensor);
  }
  /// Its place among the stages of its rank.
  [[nodiscard]] std::size_t chunk_of(stage_id stage) const { return chunk_[to_index(stage)]; }
  [[nodiscard]] std::size_t most_chunks() const noexcept { return most_chunks_; }

  /// Whether a link joins stages of one rank, so that nothing is sent.
  [[nodiscard]] bool is_local(stage_link const& link) const
  {
    return stages()[link.from].rank == stages()[link.to].rank;
  }
  [[nodiscard]] bool has_gradient(stage_link const& link) const
  {
    return stages()[link.from].backward;
  }
  /// The links into a stage, or those out of it.
  [[nodiscard]] auto links(stage_id stage, bool into) const
  {
    return into ? stages().links_into(stage) : stages().links_out_of(stage);
  }
  /// The number of the k-th of them.
  [[nodiscard]] std::size_t link(stage_id stage, bool into, std::size_t k) const
  {
    if (!into) { return first_out_[to_index(stage)] + k; }
    stage_id const from = links(stage, true)[k].from;
    auto const leaving = links(from, false);
    std::size_t at = 0;
    while (leaving[at].to != stage) { ++at; }
    return first_out_[to_index(from)] + at;
  }

 private:
  BALLAST_ONCE pipeline_job(pipeline_setup setup, rank_id rank);

  pipeline_setup setup_;
  rank_id self_{};
  grid_place place_;
  pipeline_rank own_rank_{};
  std::vector<std::size_t> chunk_;      // of each stage
  std::vector<std::size_t> first_out_;  // number of the first link out of each stage
  std::size_t most_chunks_ = 0;
  std::uint64_t word_ = 0;
};

#ifndef BALLAST_COMPILED

[[nodiscard]] BALLAST_ONCE result<pipeline_job> pipeline_job::make(pipeline_setup setup,
                                                                   rank_id rank, bool can_add)
{
  if (!can_add && setup.adds_parts()) {
    return fail(error_code::infeasible, 0,
                "parts of gradients are not added in memory that the host does not reach; add "
                "them in the stage, and give copies");
  }
  stage_graph const& stages = setup.schedule.stages();
  std::size_t coordinates = 0;
  for (std::uint32_t module = 0; module < setup.grid.size(); ++module) {
    coordinates += setup.grid[module].pipeline;
  }
  if (coordinates != stages.ranks()) {
    return fail(error_code::infeasible, coordinates, "the modules of the grid are ",
                counted(coordinates, "pipeline rank"), " long, and the schedule is for ",
                stages.ranks(), "; make both of the same modules");
  }
  for (std::size_t stage = 0; stage < stages.stages(); ++stage) {
    if (stages[to_id<stage_id>(stage)].part != model_part::transfer) { continue; }
    return fail(error_code::infeasible, stage, "stage ", stage,
                " of the schedule is a transfer, which only a simulation has; compile one of the "
                "model's stages alone");
  }
  if (setup.row_bytes.size() != stages.links().size()) {
    return fail(error_code::infeasible, setup.row_bytes.size(), "row_bytes has ",
                counted(setup.row_bytes.size(), "entry"), " for ",
                counted(stages.links().size(), "link"),
                "; give one for each, in the order of links()");
  }
  for (std::size_t link = 0; link < setup.row_bytes.size(); ++link) {
    constexpr std::size_t widest = std::size_t{1} << 32U;
    if (setup.row_bytes[link] == 0 || setup.row_bytes[link] > widest) {
      return fail(error_code::out_of_range, link, "rows of link ", link, " have ",
                  counted(setup.row_bytes[link], "byte"), "; give from 1 to 2^32");
    }
  }
  if (to_index(rank) >= setup.grid.ranks()) {
    return fail(error_code::out_of_range, to_index(rank), "rank ", rank, " of a grid of ",
                setup.grid.ranks(), "; make the grid and the communicator of the same ranks");
  }
  pipeline_job job(std::move(setup), rank);
  for (stage_link const& link : job.stages().links()) {
    if (!job.setup().adds_parts() || !job.is_local(link) ||
        job.grid()[job.module_of(link.to)].tensor == 1) {
      continue;
    }
    return fail(error_code::infeasible, to_index(link.to), "stages ", link.from, " and ", link.to,
                " are on one rank, where parts of gradients are not added; give copies of them, or "
                "give each stage a rank");
  }
  return job;
}

BALLAST_ONCE pipeline_job::pipeline_job(pipeline_setup setup, rank_id rank)
    : setup_(std::move(setup)), self_(rank), place_(setup_.grid.place(rank))
{
  std::size_t before = 0;  // pipeline ranks of other modules
  for (std::uint32_t module = 0; module < place_.module; ++module) {
    before += grid()[module].pipeline;
  }
  own_rank_ = to_id<pipeline_rank>(before + place_.pipeline);
  chunk_.resize(stages().stages());
  for (std::size_t each = 0; each < stages().ranks(); ++each) {
    auto const of_rank = stages().stages_on(to_id<pipeline_rank>(each));
    for (std::size_t chunk = 0; chunk < of_rank.size(); ++chunk) {
      chunk_[to_index(of_rank[chunk])] = chunk;
    }
    most_chunks_ = std::max(most_chunks_, of_rank.size());
  }
  std::size_t links = 0;
  for (std::size_t stage = 0; stage < stages().stages(); ++stage) {
    first_out_.push_back(links);
    links += stages().links_out_of(to_id<stage_id>(stage)).size();
  }
  digest all;
  all.add(word_of(schedule())).add(word_of(grid()));
  for (std::size_t const bytes : setup_.row_bytes) { all.add(bytes); }
  all.add(static_cast<std::uint64_t>(setup_.strategy));
  word_ = all.add(static_cast<std::uint64_t>(setup_.tensor)).value();
}

#endif

}  // namespace detail

}  // namespace ballast::inline v0
