// SPDX-License-Identifier: Apache-2.0
// OrchMLLM (B. Xiao, Y. Zheng et al., arXiv 2503.23830, 5, 6 and 8): every phase is balanced by
// itself, by the algorithm for how it batches; outputs go to the language model in one exchange.
// Plans steps of 64 GPUs for three models; eight ranks train a small one. Assumed: times by FLOP,
// 400 TFLOP/s, phases one after the other, other data than the paper's. Not shown: GPUs,
// Megatron-LM. Weights are sharded over ranks (FSDP) in the time of steps, not in the training.

#include "common/baselines/all_gather_dispatch.hpp"  // defines: baselines::price_all_gather
#include "common/gradient_sum.hpp"                   // defines: block::sum_over_ranks
#include "common/listed.hpp"
#include "common/multimodal_data.hpp"  // defines: multimodal_data::{read, draw, deal}
#include "common/phase_model.hpp"      // defines: block::phase_model
#include "common/sharded_steps.hpp"    // defines: sharded_steps::{weights_of, trained}

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/known_models.hpp>
#include <ballast/cost/latency_fit.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/padded_batches.hpp>
#include <ballast/partition/peak_tokens.hpp>
#include <ballast/report/step_memory.hpp>
#include <ballast/route/node_placement.hpp>
#include <ballast/route/route_volume.hpp>
#include <ballast/runtime/orchestrated_step.hpp>
#include <ballast/runtime/orchestrator.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/cluster.hpp>

#ifdef ORCHMLLM_WITH_MPI
#include "common/on_processes.hpp"
#endif

#include <bit>
#include <cmath>
#include <cstdio>
#include <tuple>

namespace {

using namespace ballast;
using multimodal_data::audio;
using multimodal_data::image;
using multimodal_data::text;

constexpr std::size_t ranks = 64;
constexpr std::size_t samples_of_rank = 32;
constexpr std::size_t trained_ranks = 8;
constexpr std::size_t steps = 3;
constexpr std::size_t width = 16;

struct model {
  char const* name;
  transformer_shape vision, audio, llm;
  std::uint32_t vision_rate, audio_rate;
};
constexpr std::array<model, 3> models{{
    {"10B", known_shape("orchmllm-10b-vision"), known_shape("orchmllm-10b-audio"),
     known_shape("orchmllm-10b-llm"), 1, 2},
    {"18B", known_shape("orchmllm-18b-vision"), known_shape("orchmllm-18b-audio"),
     known_shape("orchmllm-18b-llm"), 4, 2},
    {"84B", known_shape("orchmllm-84b-vision"), known_shape("orchmllm-84b-audio"),
     known_shape("orchmllm-84b-llm"), 4, 4},
}};

// Picoseconds of a step at 400 TFLOP/s, forward and backward.
quadratic_cost cost_of(transformer_shape const& shape)
{
  gamma_fit const gpu{.seconds_per_flop = 1 / 400e12, .gamma = 1};
  return latency_cost(gpu, step_flops(forward_flops(shape).value(), {}).value()).value();
}

// Phases as the paper has them: vision and language packed, audio padded.
template <class Vision, class Audio, class Llm>
auto phases_of(model const& each, std::size_t gpus, Vision const& vision, Audio const& speech,
               Llm const& llm)
{
  auto const bags = one_gpu_bags(gpus);
  return std::tuple{phase{bags, cost_of(each.vision), vision, each.vision_rate},
                    phase{bags, cost_of(each.audio), speech, each.audio_rate},
                    phase{bags, cost_of(each.llm), llm}};
}

struct outcome {
  block::values loss{0};
  block::values gradients;      // of all ranks, in rank order
  std::uint64_t sequences = 0;  // changes with any bit of any sequence, not with who computes it
};

// The sum over this rank's sequences of a word for each, so that all ranks' sum is the same
// wherever a sequence is computed.
std::uint64_t digest_of(orchestrated_step const& step, rank_id rank, block::in sequences)
{
  std::uint64_t sum = 0;
  for (sample_id const sample : step.planned.samples[to_id<bag_id>(to_index(rank))]) {
    auto const values = sequences.first(static_cast<std::size_t>(step.lengths[sample]) * width);
    digest one;
    one.add(to_index(sample));
    for (double const each : values) { one.add(std::bit_cast<std::uint64_t>(each)); }
    sum += one.value();
    sequences = sequences.subspan(values.size());
  }
  return sum;
}

// One rank's part of a training of some steps; read(step) says what it reads in a step.
template <communicator C, class Read>
outcome train(C& comm, model const& trained, Read const& read)
{
  // [orchmllm]
  auto const [vision, speech, llm] = phases_of(trained, comm.size(), longest_processing_time{},
                                               padded_batches{}, longest_processing_time{});
  orchestrator step(comm, std::tuple{vision, speech}, llm);
  auto alone = comm.split(static_cast<std::uint32_t>(to_index(comm.rank()))).value();
  std::array<block::phase_model<C>, 2> encoders{{{1, vision.rate, alone}, {2, speech.rate, alone}}};
  block::phase_model<C> language(3, 1, alone);
  outcome all;

  or_throw(step.submit(read(0)));
  for (std::size_t number = 0; number < steps; ++number) {
    or_throw(step.next());
    or_throw(step.submit(read(number + 1)));  // gathered and planned while this step runs

    block::values sequences(step.rows_in_model() * width);
    for (std::size_t const modality : {image, audio}) {
      auto const x = block::pixels(step.step().modalities[modality].as_read, comm.rank(), width);
      block::values x_there(step.rows_computed(modality) * width);
      or_throw(step.to_encoder(modality, rows_of(x, x_there, width)));
      auto const y = encoders[modality].forward(step.lengths(modality), x_there);
      or_throw(step.to_model(modality, rows_of(y, sequences, width)));
    }
    auto const words = block::pixels(step.step().modalities[text].as_read, comm.rank(), width);
    or_throw(step.to_model(text, rows_of(words, sequences, width)));
    all.sequences += digest_of(step.step(), comm.rank(), sequences);

    // The loss is |y|^2 / 2, so y is its gradient too. It goes back the way that outputs have come.
    auto const y = language.forward(step.lengths_in_model(), sequences);
    all.loss[0] += std::inner_product(y.begin(), y.end(), y.begin(), 0.0) / 2;
    auto const d_sequences = language.backward(y);
    for (std::size_t const modality : {audio, image}) {
      block::values dy(step.rows_encoded(modality) * width);
      block::values dx(step.rows_read(modality) * width);
      or_throw(step.reverse_to_model(modality, rows_of(d_sequences, dy, width)));
      auto const dx_there = encoders[modality].backward(dy);
      or_throw(step.reverse_to_encoder(modality, rows_of(dx_there, dx, width)));
    }
  }
  // [orchmllm]
  for (auto* const each : {&encoders[image], &encoders[audio], &language}) {
    auto const sum = block::sum_over_ranks(comm, each->gradients());
    all.gradients.insert(all.gradients.end(), sum.begin(), sum.end());
  }
  all.loss = block::sum_over_ranks(comm, all.loss);
  return all;
}

// Everything stays where it was read.
struct as_read {
  void operator()(partition_problem const& problem, std::span<cost_units> loads,
                  std::span<bag_id> owner, workspace&) const
  {
    std::ranges::copy(problem.home, owner.begin());
    for (std::size_t i = 0; i < owner.size(); ++i) { loads[owner[i]] += problem.costs[i]; }
  }
};

// The work of the busiest rank, and what all have without padding, per rank.
struct phase_work {
  double busiest = 0;
  double mean = 0;

  [[nodiscard]] double ratio() const { return busiest / mean; }

  phase_work() = default;
  phase_work(partition_plan const& plan, batching batches)
  {
    for (auto const sequences : plan.samples) {
      double sum = 0;
      double heaviest = 0;
      for (sample_id const each : sequences) {
        auto const cost = static_cast<double>(plan.costs[each]);
        sum += cost;
        heaviest = std::max(heaviest, cost);
      }
      mean += sum / ranks;
      busiest = std::max(busiest, batches == batching::padded
                                      ? heaviest * static_cast<double>(sequences.size())
                                      : sum);
    }
  }
  phase_work& operator+=(phase_work const& other)
  {
    busiest += other.busiest;
    mean += other.mean;
    return *this;
  }
};

// How much longer a balanced step takes where all ranks gather each layer in each microbatch.
double with_gathers(model const& each, orchestrated_step const& step, std::uint32_t microbatches)
{
  double computed = 0;
  double all = 0;
  auto const add = [&](transformer_shape const& shape, phase_work const& work) {
    computed += work.busiest;
    all +=
        sharded_steps::trained(sharded_steps::weights_of(shape, ranks), work.busiest, microbatches);
  };
  add(each.vision, {step.modalities[image].planned, batching::packed});
  add(each.audio, {step.modalities[audio].planned, batching::padded});
  add(each.llm, {step.planned, batching::packed});
  return all / computed;
}

gathered_samples<multimodal_samples::subsequence> gather(
    std::vector<multimodal_samples> const& read)
{
  gathered_samples<multimodal_samples::subsequence> all;
  for (std::size_t rank = 0; rank < read.size(); ++rank) {
    auto const own = read[rank].entries();
    all.samples.insert(all.samples.end(), own.begin(), own.end());
    all.source.resize(all.samples.size(), to_id<rank_id>(rank));
  }
  return all;
}

// Plans a step in which every phase has this policy, whatever it batches like; with machines, equal
// bags change places on the way to each phase.
template <class Vision, class Audio, class Llm>
orchestrated_step plan(model const& each,
                       gathered_samples<multimodal_samples::subsequence> const& all,
                       Vision const& of_vision, Audio const& of_audio, Llm const& of_llm,
                       std::optional<cluster> const& by_node = {})
{
  auto [vision, speech, llm] = phases_of(each, ranks, of_vision, of_audio, of_llm);
  vision.homes = speech.homes = llm.homes = true;
  vision.by_node = speech.by_node = llm.by_node = by_node;
  phase_planner const planner(std::tuple{vision, speech}, llm);
  orchestrated_step step;
  workspace memory;
  or_throw(planner(step, memory, all, ranks, rank_id{0}));
  return step;
}

// Prints how busy the busiest rank is, phase by phase, and returns that of the whole step.
double show(char const* what, orchestrated_step const& step)
{
  phase_work const vision(step.modalities[image].planned, batching::packed);
  phase_work const speech(step.modalities[audio].planned, batching::padded);
  phase_work const llm(step.planned, batching::packed);
  phase_work whole = vision;
  whole += speech;
  whole += llm;
  std::printf("  %-16s%8.2f%8.2f%8.2f%8.2f\n", what, vision.ratio(), speech.ratio(), llm.ratio(),
              whole.ratio());
  return whole.ratio();
}

// Gigabytes of outputs in bf16 that ranks send, all together: gathered by all of them, through
// where they were read, and straight to where they are needed. Returns the first and the last.
std::array<double, 2> show_bytes(model const& each, orchestrated_step const& step)
{
  auto const machines = cluster_of(ranks).value();
  double const row = 2.0 * each.llm.hidden * 1e-9;
  double gathered = 0;
  double two = 0;
  double one = 0;
  for (std::size_t const modality : {image, audio}) {
    auto const& own = step.modalities[modality];
    std::vector<tokens> outputs;
    for (sample_part const& part : own.parts) { outputs.push_back(part.count); }
    auto const home = place(outputs, own.source, ranks);
    auto const moved = [&](placement const& from, placement const& to) {
      return row * static_cast<double>(measure_route(from, to, machines).moved());
    };
    auto const all = baselines::price_all_gather(own.as_encoded, machines, row);
    gathered += all.within_node_bytes + all.between_nodes_bytes;
    two += moved(own.as_encoded, home) + moved(home, own.as_needed);
    one += moved(own.as_encoded, own.as_needed);
  }
  std::printf(
      "  outputs to the language model: %.1f GB all-gathered, %.2f in two exchanges, "
      "%.2f in one\n",
      gathered, two, one);
  return {gathered, one};
}

// What the busiest rank sends to other nodes on the way to each phase, as a share of what it would
// send if bags did not change places; returns the least and the largest share.
std::pair<double, double> show_nodes(model const& each,
                                     gathered_samples<multimodal_samples::subsequence> const& all)
{
  auto const near = plan(each, all, longest_processing_time{}, padded_batches{},
                         longest_processing_time{}, cluster_of(ranks).value());
  auto const share = [](node_placement const& placed) {
    return static_cast<double>(placed.largest) / static_cast<double>(placed.largest_before);
  };
  double const vision = share(near.modalities[image].by_node);
  double const speech = share(near.modalities[audio].by_node);
  double const llm = share(near.by_node);
  std::printf("  by node, the busiest rank's rows to others: vision %.2f, audio %.2f, LLM %.2f\n",
              vision, speech, llm);
  return std::minmax({vision, speech, llm});
}

// How many samples, and how many ranks, have nothing for the vision encoder.
void show_without_image(std::vector<multimodal_samples> const& read)
{
  std::size_t samples = 0;
  std::size_t idle = 0;
  for (multimodal_samples const& own : read) {
    std::size_t with = 0;
    bool seen = true;  // an image of the sample that was begun last
    for (auto const& [modality, length] : own.entries()) {
      if (modality == image && !seen) { ++with; }
      seen = modality == image || (seen && modality != multimodal_samples::begins_sample);
    }
    samples += own.size() - with;
    idle += with == 0 ? 1 : 0;
  }
  std::printf("%zu of %zu samples and %zu of %zu ranks have read no image\n", samples,
              ranks * samples_of_rank, idle, ranks);
}

// Bytes of a row in bf16 where every layer is computed again in the backward pass: what it was given
// (2 h) is kept, and the 34 h of V. Korthikanti et al., arXiv 2205.05198, of one layer at a time.
report::phase_bytes bytes_of(transformer_shape const& shape, std::uint64_t outputs,
                             batching batches = batching::packed)
{
  std::uint64_t const h = shape.hidden;
  return {2 * h, 2 * h * shape.layers, 34 * h, 2 * outputs, batches};
}

// What the fullest rank holds in two steps of so many samples a rank, with these policies: of all
// phases together, and of each by itself.
template <class Vision, class Audio, class Llm>
report::held_memory fullest_of(model const& each, multimodal_data::source const& data,
                               std::size_t samples, Vision const& vision, Audio const& speech,
                               Llm const& llm)
{
  std::uint64_t const h = each.llm.hidden;
  std::array const bytes{bytes_of(each.vision, h), bytes_of(each.audio, h, batching::padded),
                         report::phase_bytes{.input = 2 * h}, bytes_of(each.llm, h)};
  report::held_memory most{.of_phase = std::vector<std::uint64_t>(bytes.size())};
  for (std::size_t number = 0; number < 2; ++number) {
    auto const all = gather(multimodal_data::deal(data, ranks, samples, number));
    auto const step = plan(each, all, vision, speech, llm);
    for (report::held_memory const& own : report::step_memory(step, bytes)) {
      most.peak = std::max(most.peak, own.peak);
      std::ranges::transform(own.of_phase, most.of_phase, most.of_phase.begin(), std::ranges::max);
    }
  }
  return most;
}

void show_held(char const* what, model const& each, std::size_t samples,
               report::held_memory const& most)
{
  std::vector<double> gigabytes;
  for (std::uint64_t const bytes : most.of_phase) {
    gigabytes.push_back(static_cast<double>(bytes) * 1e-9);
  }
  std::printf("%s, %zu samples %s: %.1f GB; vision, audio, text, LLM %s\n", each.name, samples,
              what, static_cast<double>(most.peak) * 1e-9, listed(gigabytes, 1).c_str());
}

// The largest mini-batches that fit the memory which the paper's mini-batches need without
// balancing: with the LLM balanced, and with all phases; and what LLM balance alone needs beside
// that at the mini-batches of the paper's Figure 10.
bool show_memory(multimodal_data::source const& data)
{
  constexpr std::size_t most = 120;
  constexpr std::array<std::size_t, 3> as_in_paper{65, 40, 15}, of_figure{75, 50, 25};
  longest_processing_time const packed;
  padded_batches const padded;
  std::vector<double> held, all_fit, llm_fit, llm_needs;
  bool larger = true;
  for (std::size_t each = 0; each < models.size(); ++each) {
    auto const of = [&](std::size_t samples, auto const& vision, auto const& speech,
                        auto const& llm) {
      return fullest_of(models[each], data, samples, vision, speech, llm);
    };
    auto const unbalanced = of(as_in_paper[each], as_read{}, as_read{}, as_read{});
    std::uint64_t const room = unbalanced.peak;
    auto const all = largest_mini_batch(most, [&](std::size_t samples) {
      return of(samples, packed, padded, packed).peak <= room;
    });
    auto const llm = largest_mini_batch(most, [&](std::size_t samples) {
      return of(samples, as_read{}, as_read{}, packed).peak <= room;
    });
    show_held("as read", models[each], as_in_paper[each], unbalanced);
    show_held("balanced", models[each], as_in_paper[each],
              of(as_in_paper[each], packed, padded, packed));
    held.push_back(static_cast<double>(room) * 1e-9);
    all_fit.push_back(static_cast<double>(all));
    llm_fit.push_back(static_cast<double>(llm));
    llm_needs.push_back(
        static_cast<double>(of(of_figure[each], as_read{}, as_read{}, packed).peak) /
        static_cast<double>(of(of_figure[each], packed, padded, packed).peak));
    larger &= all > as_in_paper[each] && all > llm;
  }
  std::printf("on the page: mini-batches of %s instead of 65, 40, 15 in the %s GB of these\n",
              listed(all_fit, 0).c_str(), listed(held, 1).c_str());
  std::printf("on the page: with the LLM alone %s; at 75, 50, 25 that needs %s times the memory\n",
              listed(llm_fit, 0).c_str(), listed(llm_needs).c_str());
  return larger;
}

// What docs/notes/five_systems.md says of the traces is printed word for word.
bool compare(multimodal_data::source const& data, bool traces)
{
  bool shorter = true;
  auto const read = multimodal_data::deal(data, ranks, samples_of_rank, 0);
  show_without_image(read);
  auto const all = gather(read);
  longest_processing_time const packed;
  padded_batches const padded;
  std::vector<double> unbalanced, llm_only, all_padded, all_packed, balanced, gathered, sent;
  std::pair<double, double> nodes{1, 0};
  std::array<std::vector<double>, 4> sharded;  // in 1, 2, 4 and 8 microbatches
  std::vector<double> shards;                  // and gathered layers, in gigabytes
  for (model const& each : models) {
    std::printf("%s on %zu GPUs%11s%8s%8s%8s\n", each.name, ranks, "vision", "audio", "LLM",
                "step");
    unbalanced.push_back(show("as read", plan(each, all, as_read{}, as_read{}, as_read{})));
    llm_only.push_back(show("LLM only", plan(each, all, as_read{}, as_read{}, packed)));
    all_padded.push_back(show("all as padded", plan(each, all, padded, padded, padded)));
    all_packed.push_back(show("all as packed", plan(each, all, packed, packed, packed)));
    auto const step = plan(each, all, packed, padded, packed);
    balanced.push_back(show("each as it is", step));
    auto const [by_all, by_one] = show_bytes(each, step);
    for (std::uint32_t of = 0; of < sharded.size(); ++of) {
      sharded[of].push_back(with_gathers(each, step, 1U << of));
    }
    std::uint64_t bytes = 0;
    for (transformer_shape const* const shape : {&each.vision, &each.audio, &each.llm}) {
      bytes += sharded_steps::weights_of(*shape, ranks).held_bytes();
    }
    shards.push_back(static_cast<double>(bytes) * 1e-9);
    std::printf("  weights sharded, in 1, 2, 4, 8 microbatches: %.2f, %.2f, %.2f, %.2f times\n",
                sharded[0].back(), sharded[1].back(), sharded[2].back(), sharded[3].back());
    gathered.push_back(by_all);
    sent.push_back(by_one);
    auto const [least, largest] = show_nodes(each, all);
    nodes = {std::min(nodes.first, least), std::max(nodes.second, largest)};
    shorter &= largest < 1;
    shorter &= balanced.back() <
               std::min({unbalanced.back(), llm_only.back(), all_padded.back(), all_packed.back()});
  }
  if (traces) {
    double const even = *std::max_element(balanced.begin(), balanced.end());
    std::printf(
        "on the page: over all phases falls from %s times the mean to %.2f (10B, 18B, 84B)\n",
        listed(unbalanced).c_str(), even);
    std::printf("on the page: LLM only leaves %s times the mean work, all phases %.2f\n",
                listed(llm_only).c_str(), even);
    std::printf("on the page: all as padded %s; all as packed %s; each as it is %.2f\n",
                listed(all_padded).c_str(), listed(all_packed).c_str(), even);
    std::printf("on the page: %s GB instead of %s\n", listed(gathered, 1).c_str(),
                listed(sent).c_str());
    std::printf("on the page: the busiest rank sends %.2f to %.2f of the rows to other nodes\n",
                nodes.first, nodes.second);
    std::printf(
        "on the page: with FSDP a step takes %s times its computing in one microbatch, %s in "
        "two, %s in four\n",
        listed(sharded[0]).c_str(), listed(sharded[1]).c_str(), listed(sharded[2]).c_str());
    std::printf("on the page: shards and two layers of each phase are %s GB a GPU\n",
                listed(shards, 1).c_str());
    shorter &= show_memory(data);
  }
  return shorter;
}

// The data of a small training, 1/16 as long. What one rank reads is what all of them read.
auto reader(multimodal_data::source const& data, std::size_t gpus, rank_id rank)
{
  return [&data, gpus, rank](std::size_t step) {
    auto read = multimodal_data::deal(data, trained_ranks, 4, step, 16);
    if (gpus > 1) { return read[rank]; }
    multimodal_samples whole;
    for (multimodal_samples const& own : read) {
      for (auto const& [modality, length] : own.entries()) {
        if (modality == multimodal_samples::begins_sample) {
          whole.start_sample();
        } else {
          whole.add(modality, length);
        }
      }
    }
    return whole;
  };
}

outcome train_on_threads(multimodal_data::source const& data, std::size_t gpus)
{
  auto const shares = run_ranks(gpus, [&](thread_communicator& comm) {
    return train(comm, models[1], reader(data, gpus, comm.rank()));
  });
  outcome all = shares.front();
  for (std::size_t rank = 1; rank < gpus; ++rank) { all.sequences += shares[rank].sequences; }
  return all;
}

void print(outcome const& trained)
{
  digest bits;
  for (double const each : trained.gradients) { bits.add(std::bit_cast<std::uint64_t>(each)); }
  std::printf("loss %.12g, bits of the sequences %016llx, of the gradients %016llx\n",
              trained.loss[0], static_cast<unsigned long long>(trained.sequences),
              static_cast<unsigned long long>(bits.value()));
}

bool compare_with_one_rank(multimodal_data::source const& data)
{
  outcome const eight = train_on_threads(data, trained_ranks);
  outcome const one = train_on_threads(data, 1);
  double largest = 0;
  double difference = 0;
  for (std::size_t at = 0; at < one.gradients.size(); ++at) {
    largest = std::max(largest, std::abs(one.gradients[at]));
    difference = std::max(difference, std::abs(one.gradients[at] - eight.gradients[at]));
  }
  std::printf(
      "%zu ranks and one rank, %zu steps: sequences %s, losses %.12g and %.12g, gradients "
      "differ by %.1e of the largest\n",
      trained_ranks, steps, one.sequences == eight.sequences ? "equal" : "DIFFER", eight.loss[0],
      one.loss[0], difference / largest);
  return one.sequences == eight.sequences &&
         std::abs(one.loss[0] - eight.loss[0]) <= 1e-10 * one.loss[0] &&
         difference <= 1e-10 * largest;
}

#ifdef ORCHMLLM_WITH_MPI
void train_on_processes(multimodal_data::source const& data)
{
  on_processes("orchmllm", trained_ranks, [&](mpi_communicator& comm) {
    outcome own = train(comm, models[1], reader(data, comm.size(), comm.rank()));
    std::vector<std::uint64_t> all(comm.size());
    or_throw(comm.all_gather(std::as_bytes(std::span(&own.sequences, 1)),
                             std::as_writable_bytes(std::span(all))));
    own.sequences = std::reduce(all.begin(), all.end());
    if (comm.rank() == rank_id{0}) { print(own); }
  });
}
#endif

}  // namespace

// A single rank that computes all of a training finds the same sequences, to the bit, and the same
// gradients. Lengths are drawn, or read: orchmllm IMAGES.csv AUDIO.csv, the first with columns
// text_tokens and image_tokens_each, the second with audio_tokens_25hz and text_tokens. `orchmllm
// train` only trains, on threads; `mpirun -np 8 orchmllm train mpi` over MPI, and prints the same.
int main(int argc, char** argv)
{
  try {
    std::vector<std::string> const arguments(argv + 1, argv + argc);
    if (!arguments.empty() && arguments[0] == "train") {
      auto const data = multimodal_data::draw(1000);
#ifdef ORCHMLLM_WITH_MPI
      if (arguments.size() > 1 && arguments[1] == "mpi") { return train_on_processes(data), 0; }
#endif
      return print(train_on_threads(data, trained_ranks)), 0;
    }
    auto const data = arguments.size() == 2 ? multimodal_data::read(arguments[0], arguments[1])
                                            : multimodal_data::draw(3000);
    bool const shorter = compare(data, arguments.size() == 2);
    return compare_with_one_rank(data) && shorter ? 0 : 1;
  } catch (std::exception const& problem) {
    return std::fprintf(stderr, "orchmllm: %s\n", problem.what()), 1;
  }
}
