// SPDX-License-Identifier: Apache-2.0
// Trains a small GPT on documents of uneven length, in the manner of llm.c, or with --adaptive a
// diffusion transformer in the manner of FLUX. One file to compile, with its kernels and its model
// in headers beside it:
//
//   nvcc -std=c++20 -O2 -I include -o train examples/train_single_file.cu
//   nvcc -std=c++20 -O2 -I include -DUSE_NCCL -o train examples/train_single_file.cu -lnccl
//
// The same steps are taken twice, from the same parameters: once every rank computes the documents
// that it has read, once they go where ballast's plan wants them. There a bag of several GPUs may
// share them, with Ulysses around attention, and the backward pass may compute layers again. A row
// for each document of the diffusion transformer, its timestep and text, goes to every GPU of the
// bag. Losses and gradients must not change. Ranks are threads. Each has a GPU or shares one with
// others; without a GPU, or with --host, all compute on the host.

#include "train_single_file/arrays.cuh"
#include "train_single_file/kernels.cuh"
#include "train_single_file/model.cuh"

#include <ballast/comm/communicator.hpp>
#include <ballast/comm/gather_samples.hpp>
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/cuda/repeat_rows.cuh>
#include <ballast/cuda/staged.hpp>
#include <ballast/gpu/copy_engine_communicator.hpp>
#include <ballast/gpu/device_memory.hpp>
#include <ballast/gpu/streams.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/report/metrics.hpp>
#include <ballast/route/head_array.hpp>
#include <ballast/route/route.hpp>
#include <ballast/route/row_array.hpp>
#include <ballast/runtime/device_carrier.cuh>
#include <ballast/runtime/step_balancer.cuh>
#include <ballast/runtime/step_balancer.hpp>
#include <ballast/text/read_file.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/workload/length_trace.hpp>
#include <ballast/workload/sample_batch.hpp>
#include <ballast/workload/synthetic_lengths.hpp>
#ifdef USE_NCCL
#include <ballast/gpu/nccl_communicator.hpp>
#endif

#include <cuda_runtime.h>
#ifdef USE_NCCL
#include <nccl.h>
#endif

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <mutex>
#include <random>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace {

using namespace single_file;
using ballast::tokens;

/// Compares the backward pass with differences of losses, on the host in float64.
bool check_gradients(char const* name, model_shape const& shape, std::size_t stride)
{
  device const host;
  std::size_t const count = parameters_of(shape);
  std::vector<double> parameters(count);
  std::vector<double> gradients(count);
  ballast::random_source random(1);
  std::normal_distribution<double> normal(0, 0.2);  // so large that attention is not even
  std::ranges::generate(parameters, [&] { return normal(random); });
  documents read(host);
  read.lay_out(host, shape, std::vector<tokens>{5, 1, 0, 9}, {1, 0, shape.heads()});
  for (std::size_t t = 0; t < read.rows; ++t) {
    read.token.data()[t] = static_cast<int>(random.below(shape.vocabulary));
    read.target.data()[t] = static_cast<int>(random.below(shape.vocabulary));
  }
  std::vector<double> given(read.sequences * shape.channels);
  std::ranges::generate(given, [&] { return 5 * normal(random); });
  activations<double> a(host);
  transformer<double> const model(host, shape, parameters.data(), gradients.data());
  auto const forward = [&] {
    model.condition(given.data(), a.conditions, read.sequences);
    model.forward(read, a, 1.0, no_exchange{});
  };
  auto const pass = [&](bool recompute) {
    a.make_room(shape, read, recompute);
    forward();
    model.backward(read, a, no_exchange{});
    model.condition_backward(given.data(), a.dconditions, read.sequences, a.parts);
  };
  pass(true);
  std::vector<double> const recomputed = gradients;
  pass(false);

  auto const loss_with = [&](std::size_t index, double value) {
    double const before = std::exchange(parameters[index], value);
    forward();
    parameters[index] = before;
    return std::reduce(a.loss, a.loss + read.rows);
  };
  // A difference over 2 h is off by some h^2 and by the rounding of two losses, 1e-14 / h.
  double const h = 1e-5;
  double worst = 0;
  std::size_t compared = 0;
  for (std::size_t i = 0; i < count; i += stride, ++compared) {
    double const x = parameters[i];
    double const slope = (loss_with(i, x + h) - loss_with(i, x - h)) / (2 * h);
    worst = larger(worst, std::abs(slope - gradients[i]) / std::max(1.0, std::abs(slope)));
  }
  bool const good = worst <= 1e-6 && recomputed == gradients;
  std::printf(
      "%s: %zu of %zu derivatives differ from the backward pass by %.1e at most,\n"
      "which finds %s bits if it computes layers again: %s\n",
      name, compared, count, worst, recomputed == gradients ? "the same" : "OTHER",
      good ? "right" : "WRONG");
  return good;
}

/// No tensor has fewer elements than a stride.
bool check_gradients()
{
  bool const gpt =
      check_gradients("GPT", {.layers = 2, .channels = 2 * head_size, .vocabulary = 17}, 61);
  bool const adaptive = check_gradients(
      "adaptive", {.layers = 2, .channels = head_size, .vocabulary = 17, .adaptive = true}, 31);
  return gpt && adaptive;
}

// -------------------------------------------------------------------------------------------------
// Data

struct options {
  std::size_t ranks = 4;
  std::size_t steps = 10;
  std::size_t documents = 24;  ///< of a step, over all ranks
  std::size_t median = 48;     ///< of lognormal lengths
  std::size_t longest = 384;
  std::size_t seed = 1;
  model_shape shape{.layers = 2, .channels = 64, .vocabulary = 64};
  double gamma = 1.0;
  double rate = 1e-3;
  std::string trace;
  std::string length;
  std::vector<ballast::data_code> codes;  ///< what each rank reads, instead of documents
  std::string bags;                       ///< of several GPUs
  bool recompute = false;
};

ballast::bag_layout bags_of(options const& chosen)
{
  if (chosen.bags.empty()) { return ballast::one_gpu_bags(chosen.ranks); }
  return ballast::lay_out(ballast::parse_bags(chosen.bags).value(), chosen.ranks).value();
}

/// Lengths of documents, from a trace or lognormal ones; none is above --longest, as in a context
/// window.
std::vector<tokens> document_lengths(options const& chosen)
{
  std::vector<tokens> lengths;
  if (chosen.trace.empty()) {
    ballast::random_source random(chosen.seed);
    ballast::lognormal_lengths const drawn{static_cast<tokens>(chosen.median), 1.0};
    lengths = ballast::draw_lengths(drawn, 4096, random);
  } else {
    lengths = ballast::read_file(chosen.trace, ballast::read_length_trace, chosen.length).value();
  }
  for (tokens& length : lengths) { length = std::min(length, static_cast<tokens>(chosen.longest)); }
  return lengths;
}

/// The text of a document and what follows each token: most tokens follow from the one before, so
/// that there is something to learn.
void read_text(std::uint64_t seed, tokens length, std::size_t vocabulary, std::vector<int>& token,
               std::vector<int>& target)
{
  ballast::random_source random(seed);
  std::size_t next = random.below(vocabulary);
  for (tokens place = 0; place < length; ++place) {
    token.push_back(static_cast<int>(next));
    next = random.below(8) > 0 ? (5 * next + 3) % vocabulary : random.below(vocabulary);
    target.push_back(static_cast<int>(next));
  }
}

/// A picture's timestep and text as a diffusion transformer reads them: the sines of a time from 0
/// to 1, which it returns, and what stands for a row of a text encoder.
double read_condition(std::uint64_t seed, std::size_t channels, std::vector<float>& rows)
{
  ballast::random_source random(~seed);
  double const time = static_cast<double>(random.below(1000)) / 1000;
  for (std::size_t c = 0; c < channels; ++c) {
    double const angle =
        time * std::pow(1000.0, static_cast<double>(c) / static_cast<double>(channels));
    double const text = static_cast<double>(random.between(-500, 500)) / 1000;
    rows.push_back(static_cast<float>(std::sin(angle) + text));
  }
  return time;
}

/// The tokens of a picture become noise with the probability `time`; targets are what all tokens
/// were.
void add_noise(std::uint64_t seed, double time, std::size_t vocabulary, std::span<int> token,
               std::span<int> target)
{
  ballast::random_source random(seed);
  std::ranges::copy(token, target.begin());
  auto const text = static_cast<std::size_t>(text_of(static_cast<tokens>(token.size())));
  for (int& each : token.subspan(text)) {
    bool const is_noise = static_cast<double>(random.below(1000)) < 1000 * time;
    if (is_noise) { each = static_cast<int>(random.below(vocabulary)); }
  }
}

/// What the model charges for a document: the FLOP of its products, and gamma times those of
/// attention. Of a diffusion transformer, but for what is done once for each document.
ballast::quadratic_cost cost_of(model_shape const& shape, double gamma)
{
  auto const number = [](std::size_t n) { return static_cast<std::uint32_t>(n); };
  auto const flops =
      ballast::forward_flops(
          {.hidden = number(shape.channels),
           .layers = number(shape.layers),
           .heads = number(shape.heads()),
           .kv_heads = number(shape.heads()),
           .head_dim = number(head_size),
           .ffn_hidden = number(4 * shape.channels),
           .mask = shape.adaptive ? ballast::attention_mask::full : ballast::attention_mask::causal,
           .vocabulary = number(shape.vocabulary)})
          .value();
  return ballast::gamma_corrected(flops, gamma).value().cost;
}

// -------------------------------------------------------------------------------------------------
// Training

/// A model whose optimizer is spread over the ranks, as in llm.c: each sums up one shard of the
/// gradients, in rank order, and updates the parameters that it is of.
class sharded_model {
 public:
  sharded_model(device const& on, model_shape const& shape, std::size_t ranks, std::size_t rank,
                std::vector<float> initial)
      : on_(on),
        shard_((initial.size() + ranks - 1) / ranks),
        parameters_(on, ranks * shard_),
        gradients_(on, ranks * shard_),
        pieces_(on, ranks * shard_),
        gradient_(on, shard_),
        own_(on, shard_),
        mean_(on, shard_),
        square_(on, shard_),
        model_(on, shape, parameters_.data(), gradients_.data())
  {
    initial.resize(ranks * shard_);
    copy(on, parameters_.data(), initial.data(), initial.size());
    copy(on, own_.data(), &initial[rank * shard_], shard_);
    wait(on);
  }

  [[nodiscard]] transformer<float> const& model() const { return model_; }

  template <ballast::communicator Comm>
  void update(Comm& comm, std::size_t step, double rate)
  {
    std::vector<std::size_t> const bytes(comm.size(), shard_ * sizeof(float));
    auto const all = [&](array<float>& each) { return each.first(comm.size() * shard_); };
    or_throw(comm.all_to_all_v(std::as_bytes(all(gradients_)), bytes,
                               std::as_writable_bytes(all(pieces_)), bytes));
    for_each(on_, shard_,
             sum_of_parts<float>{gradient_.data(), pieces_.data(), comm.size(), shard_});
    auto const correction = [&](double beta) {
      return static_cast<float>(1 / (1 - std::pow(beta, static_cast<double>(step))));
    };
    for_each(on_, shard_,
             adamw<float>{own_.data(), mean_.data(), square_.data(), gradient_.data(),
                          static_cast<float>(rate), correction(0.9), correction(0.95)});
    or_throw(comm.all_gather(std::as_bytes(own_.first(shard_)),
                             std::as_writable_bytes(all(parameters_))));
  }

  /// This rank's shard of the gradients, of all ranks.
  [[nodiscard]] std::vector<float> gradient() const
  {
    return to_host(on_, gradient_.data(), shard_);
  }

 private:
  device on_;
  std::size_t shard_;
  array<float> parameters_;
  array<float> gradients_;
  array<float> pieces_;
  array<float> gradient_;
  array<float> own_;
  array<float> mean_;
  array<float> square_;
  transformer<float> model_;
};

/// Plans steps and moves rows: on the communicator's stream where it has one.
template <ballast::communicator Comm>
auto balancer_over(Comm& comm, options const& chosen)
{
  auto const bags = bags_of(chosen);
  auto const cost = cost_of(chosen.shape, chosen.gamma);
  ballast::longest_processing_time const policy;
  bool const split = !chosen.bags.empty();
  ballast::step_options<> const all{
      .query_heads = split ? static_cast<std::uint32_t>(chosen.shape.heads()) : 0};
  if constexpr (ballast::stream_communicator<Comm>) {
    return ballast::device_step_balancer(comm, bags, cost, policy, all);
  } else {
    return ballast::step_balancer(comm, bags, cost, policy, all);
  }
}

/// Carries rows between ranks by plans of its own: on the communicator's stream where it has one.
template <ballast::communicator Comm>
auto carrier_over(Comm& comm)
{
  if constexpr (ballast::stream_communicator<Comm>) {
    return ballast::device_carrier<Comm>(comm);
  } else {
    return ballast::host_carrier<Comm>(comm);
  }
}

/// The conditions of documents beside their tokens: every GPU of a bag gets a row for each of the
/// bag's documents, and the rank that has read a document gets the sum of its row's gradients.
template <ballast::communicator Comm>
class condition_route {
 public:
  condition_route(Comm& comm, device const& on, std::size_t most_documents, std::size_t channels)
      : on_(on),
        channels_(channels),
        table_(on, table_bytes(most_documents)),
        pinned_(on.is_gpu ? table_bytes(most_documents) : 0),
        sent_(on),
        carrier_(carrier_over(comm))
  {
    if (on.is_gpu) {
      there_.emplace(static_cast<std::uint32_t>(most_documents),
                     table_.first(table_bytes(most_documents)), pinned_);
    }
  }

  /// Every step, when the balancer has planned.
  void plan(auto const& balancer, ballast::rank_id rank)
  {
    or_throw(carrier_.begin_step());
    beside_ = ballast::plan_sequence_rows(balancer.samples().source, balancer.planned().owner,
                                          balancer.bags(), rank);
    sent_.make_room(sent_rows() * channels_);
    if (!there_) { return; }
    or_throw(there_->stage(beside_));
    check(there_->upload(on_.stream));
  }

  void send(std::span<float const> read, std::span<float> there)
  {
    std::span<float> const sent = sent_.first(sent_rows() * channels_);
    if (there_) {
      check(ballast::repeat_rows(*there_, read.data(), sent.data(), channels_, on_.stream));
    } else {
      ballast::repeat_rows<float>(beside_.copies, read, sent);
    }
    or_throw(carrier_.route(beside_.route, ballast::rows_of(sent, there, channels_)));
  }

  void send_back(std::span<float const> gradients, std::span<float> read)
  {
    std::span<float> const sent = sent_.first(sent_rows() * channels_);
    or_throw(carrier_.reverse_route(beside_.route, ballast::rows_of(gradients, sent, channels_)));
    if (there_) {
      check(ballast::sum_rows(*there_, sent.data(), read.data(), channels_, on_.stream));
    } else {
      ballast::sum_rows<float>(beside_.copies, sent, read);
    }
  }

 private:
  static std::size_t table_bytes(std::size_t most_documents)
  {
    return ballast::staged<ballast::sequence_rows>::bytes(
        static_cast<std::uint32_t>(most_documents));
  }
  [[nodiscard]] std::size_t sent_rows() const
  {
    return static_cast<std::size_t>(beside_.route.rows_before);
  }

  device on_;
  std::size_t channels_;
  array<std::byte> table_;  // of how many GPUs get each row, for kernels
  std::vector<std::byte, ballast::pinned_allocator<std::byte>> pinned_;
  std::optional<ballast::staged<ballast::sequence_rows>> there_;
  ballast::sequence_rows beside_;
  array<float> sent_;
  decltype(carrier_over(std::declval<Comm&>())) carrier_;
};

struct step_figures {
  std::vector<double> losses;       ///< what the documents that each rank has read add to the loss
  double milliseconds = 0;          ///< from beginning to end, plan and exchanges included
  double compute_milliseconds = 0;  ///< of the forward and the backward pass, by the slowest rank
  double imbalance = 0;             ///< work of the busiest rank over that of a mean one

  [[nodiscard]] double loss() const { return std::reduce(losses.begin(), losses.end()); }
};

/// The same step, every rank computing what it has read, and balanced.
struct step_pair {
  step_figures as_read;
  step_figures balanced;
};

/// What the training leaves behind, the same on every rank.
struct outcome {
  std::vector<step_pair> steps;
  double gradient_difference = 0;  ///< in step 1, relative to the largest element
};

/// Ulysses: a rank of a bag gives its chunks with all heads for all rows with some of the heads.
template <class Balancer>
struct exchange_in_bag {
  Balancer& balancer;
  documents const& there;
  std::uint32_t heads;

  void to_heads(float const* own, float* all, std::size_t of_head) const
  {
    if (own == all) { return; }
    or_throw(balancer.to_heads(
        ballast::heads_of(own_heads(own, of_head), all_rows(all, of_head), heads, of_head)));
  }
  void to_tokens(float const* all, float* own, std::size_t of_head) const
  {
    if (own == all) { return; }
    or_throw(balancer.to_tokens(
        ballast::heads_of(all_rows(all, of_head), own_heads(own, of_head), heads, of_head)));
  }

  template <class T>
  [[nodiscard]] std::span<T> own_heads(T* own, std::size_t of_head) const
  {
    return {own, there.rows * heads * of_head};
  }
  template <class T>
  [[nodiscard]] std::span<T> all_rows(T* all, std::size_t of_head) const
  {
    return {all, there.all_rows * there.in_bag.heads * of_head};
  }
};

/// One rank.
template <ballast::communicator Comm>
class trainer {
 public:
  trainer(Comm& comm, device const& on, options const& chosen, std::vector<tokens> const& lengths)
      : comm_(comm),
        chosen_(chosen),
        on_(on),
        shape_(chosen.shape),
        random_(chosen.seed),
        sampler_(lengths, chosen.documents, comm.size(), chosen.seed),
        as_read_(on, shape_, comm.size(), to_index(comm.rank()),
                 first_parameters(shape_, chosen.seed)),
        balanced_(on, shape_, comm.size(), to_index(comm.rank()),
                  first_parameters(shape_, chosen.seed)),
        read_(on),
        there_(on),
        activations_(on),
        loss_(on),
        given_(on),
        conditions_(on),
        balancer_(balancer_over(comm, chosen)),
        condition_route_(comm, on, chosen.documents, chosen.shape.channels)
  {}

  outcome train()
  {
    outcome result;
    for (std::size_t step = 1; step <= chosen_.steps; ++step) {
      read_next();
      step_pair pair;
      pair.as_read = timed([&] { return step_as_read(step); });
      pair.balanced = timed([&] { return step_balanced(step); });
      auto const& plan = balancer_.planned();
      pair.as_read.imbalance =
          ballast::report::measure_as_read(batch_, plan.costs, comm_.size()).balance_ratio();
      pair.balanced.imbalance =
          ballast::report::measure_balance(plan.loads, balancer_.bags().speeds()).balance_ratio();
      if (step == 1) { result.gradient_difference = gradient_difference(); }
      if (comm_.rank() == ballast::rank_id{0}) { print(step, pair); }
      result.steps.push_back(pair);
    }
    return result;
  }

 private:
  /// What a rank adds to the figures of a step.
  struct share {
    double loss = 0;
    double compute_milliseconds = 0;
  };

  /// What this rank's data loader brings for the next step.
  void read_next()
  {
    draw_next();
    std::vector<int> token;
    std::vector<int> target;
    std::vector<float> given;
    mine_.clear();
    for (std::size_t i = 0; i < batch_.lengths.size(); ++i) {
      if (batch_.source[i] != comm_.rank()) { continue; }
      mine_.push_back(batch_.lengths[i]);
      std::uint64_t const seed = batch_.rows[i] + (chosen_.seed << 32);
      std::size_t const first = token.size();
      read_text(seed, batch_.lengths[i], shape_.vocabulary, token, target);
      if (!shape_.adaptive) { continue; }
      double const time = read_condition(seed, shape_.channels, given);
      add_noise(seed, time, shape_.vocabulary, std::span(token).subspan(first),
                std::span(target).subspan(first));
    }
    given_.make_room(given.size());
    copy(on_, given_.data(), given.data(), given.size());
    read_.lay_out(on_, shape_, mine_, {1, 0, shape_.heads()});
    copy(on_, read_.token.data(), token.data(), token.size());
    copy(on_, read_.target.data(), target.data(), target.size());
    wait(on_);
    auto const all = std::reduce(batch_.lengths.begin(), batch_.lengths.end());
    weight_ = 1.0 / static_cast<double>(std::max(all, tokens{1}));
  }

  /// A batch of all ranks: documents of the trace, or what the data codes say.
  void draw_next()
  {
    if (chosen_.codes.empty()) { return sampler_.next_into(batch_); }
    auto const longest = static_cast<tokens>(chosen_.longest);
    or_throw(ballast::draw_batch(batch_, chosen_.codes, comm_.size(),
                                 {.longest_text = std::min(tokens{392}, longest)}, random_));
    for (tokens& length : batch_.lengths) {
      length = std::min(length, longest);
      batch_.rows.push_back(texts_++);
    }
  }

  share step_as_read(std::size_t step)
  {
    transformer<float> const& model = as_read_.model();
    activations_.make_room(shape_, read_, false);
    model.condition(given_.data(), activations_.conditions, mine_.size());
    double const milliseconds = compute(model, read_, no_exchange{});
    model.condition_backward(given_.data(), activations_.dconditions, mine_.size(),
                             activations_.parts);
    double const loss = sum(activations_.loss, read_.rows);
    as_read_.update(comm_, step, chosen_.rate);
    return {loss, milliseconds};
  }

  // [train_single_file_step]
  share step_balanced(std::size_t step)
  {
    // Every rank gathers the same lengths and finds the same plan.
    or_throw(balancer_.plan(mine_));

    // Tokens and targets go where the plan wants them,
    there_.lay_out(on_, shape_, balancer_.lengths(), own_seat());
    or_throw(balancer_.route(
        ballast::rows_of(read_.token.first(read_.rows), there_.token.first(there_.rows)),
        ballast::rows_of(read_.target.first(read_.rows), there_.target.first(there_.rows))));
    activations_.make_room(shape_, there_, chosen_.recompute);
    if (shape_.adaptive) { send_conditions(); }
    exchange_in_bag const exchange{balancer_, there_, heads_of_model()};
    double const milliseconds = compute(balanced_.model(), there_, exchange);
    if (shape_.adaptive) { send_gradients_of_conditions(); }

    // and losses go home, to the rank that has read the document.
    loss_.make_room(read_.rows);
    std::span<float> const losses(activations_.loss, there_.rows);
    or_throw(balancer_.reverse_route(ballast::rows_of(losses, loss_.first(read_.rows))));
    double const loss = sum(loss_.data(), read_.rows);
    balanced_.update(comm_, step, chosen_.rate);
    return {loss, milliseconds};
  }
  // [train_single_file_step]

  /// What a document's timestep and text become, on the rank that has read it, to its bag.
  void send_conditions()
  {
    conditions_.make_room(mine_.size() * shape_.channels);
    balanced_.model().condition(given_.data(), conditions_.data(), mine_.size());
    condition_route_.plan(balancer_, comm_.rank());
    condition_route_.send(rows_of_conditions(conditions_.data(), mine_.size()),
                          rows_of_conditions(activations_.conditions, there_.sequences));
  }

  void send_gradients_of_conditions()
  {
    condition_route_.send_back(rows_of_conditions(activations_.dconditions, there_.sequences),
                               rows_of_conditions(conditions_.data(), mine_.size()));
    balanced_.model().condition_backward(given_.data(), conditions_.data(), mine_.size(),
                                         activations_.parts);
  }

  [[nodiscard]] std::span<float> rows_of_conditions(float* rows, std::size_t count) const
  {
    return {rows, count * shape_.channels};
  }

  [[nodiscard]] seat own_seat() const
  {
    std::uint32_t const gpus = balancer_.bags()[balancer_.bag()].gpus;
    std::uint32_t const gpu = balancer_.gpu();
    if (gpus == 1) { return {gpus, gpu, shape_.heads()}; }
    auto const own = balancer_.heads().share(gpu, heads_of_model());
    return {gpus, gpu, static_cast<std::size_t>(own.count)};
  }

  [[nodiscard]] std::uint32_t heads_of_model() const
  {
    return static_cast<std::uint32_t>(shape_.heads());
  }

  template <class Exchange>
  double compute(transformer<float> const& model, documents const& each, Exchange const& exchange)
  {
    return milliseconds_of(on_, [&] {
      model.forward(each, activations_, static_cast<float>(weight_), exchange);
      model.backward(each, activations_, exchange);
    });
  }

  [[nodiscard]] double sum(float const* losses, std::size_t count) const
  {
    auto const all = to_host(on_, losses, count);
    return std::accumulate(all.begin(), all.end(), 0.0) * weight_;
  }

  /// Takes a step on all ranks at once, and the time of the slowest.
  template <class Step>
  step_figures timed(Step const& step)
  {
    or_throw(comm_.barrier());
    auto const start = std::chrono::steady_clock::now();
    share const own = step();
    or_throw(comm_.barrier());
    std::chrono::duration<double, std::milli> const taken =
        std::chrono::steady_clock::now() - start;
    or_throw(ballast::gather_samples(shares_, comm_, std::span(&own, 1)));
    step_figures figures;
    figures.milliseconds = taken.count();
    for (share const& each : shares_.samples) {
      figures.losses.push_back(each.loss);
      figures.compute_milliseconds =
          std::max(figures.compute_milliseconds, each.compute_milliseconds);
    }
    return figures;
  }

  /// The largest over all ranks' shards, relative to the largest element.
  double gradient_difference()
  {
    struct extremes {
      double difference = 0;
      double element = 0;
    };
    auto const expected = as_read_.gradient();
    auto const found = balanced_.gradient();
    extremes largest;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      double const element = expected[i];
      largest.element = std::max(largest.element, std::abs(element));
      largest.difference = larger(largest.difference, std::abs(found[i] - element));
    }
    ballast::gathered_samples<extremes> all;
    or_throw(ballast::gather_samples(all, comm_, std::span(&largest, 1)));
    for (extremes const& each : all.samples) {
      largest.element = std::max(largest.element, each.element);
      largest.difference = larger(largest.difference, each.difference);
    }
    return largest.difference / largest.element;
  }

  void print(std::size_t step, step_pair const& pair) const
  {
    auto const& [as_read, balanced] = pair;
    std::printf("%3zu/%-3zu %10.7f %10.7f %10.1f %10.1f %10.1f %10.1f %9.3f %9.3f\n", step,
                chosen_.steps, as_read.loss(), balanced.loss(), as_read.milliseconds,
                balanced.milliseconds, as_read.compute_milliseconds, balanced.compute_milliseconds,
                as_read.imbalance, balanced.imbalance);
    std::fflush(stdout);
  }

  Comm& comm_;
  options chosen_;
  device on_;
  model_shape shape_;
  ballast::random_source random_;  // the same on every rank
  ballast::batch_sampler sampler_;
  ballast::sample_batch batch_;  // of all ranks, of which this one reads its own
  std::uint32_t texts_ = 0;
  std::vector<tokens> mine_;
  double weight_ = 0;  // of a token in the loss
  sharded_model as_read_;
  sharded_model balanced_;
  documents read_;
  documents there_;
  activations<float> activations_;
  array<float> loss_;   // at home
  array<float> given_;  // timesteps and texts of the documents that this rank has read
  array<float> conditions_;
  ballast::gathered_samples<share> shares_;

  decltype(balancer_over(std::declval<Comm&>(), std::declval<options const&>())) balancer_;
  condition_route<Comm> condition_route_;
};

/// Runs every rank on a thread of its own, and says what rank 0 has found. Of several exceptions
/// the first comes out: others may be its consequences.
template <class Comm>
outcome train_together(std::vector<Comm> ranks, std::vector<device> const& devices,
                       std::vector<int> const& gpus, options const& chosen,
                       std::vector<tokens> const& lengths)
{
  outcome found;
  std::exception_ptr first_thrown;
  std::mutex thrown;
  auto const run = [&](std::size_t rank, Comm comm) {
    // comm outlives the handler: peers notice that this rank left after its exception was stored.
    try {
      if (devices[rank].is_gpu) { check(cudaSetDevice(gpus[rank])); }
      trainer<Comm> one(comm, devices[rank], chosen, lengths);
      outcome own = one.train();
      if (rank == 0) { found = std::move(own); }
    } catch (...) {
      std::lock_guard const lock(thrown);
      if (!first_thrown) { first_thrown = std::current_exception(); }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      threads.emplace_back(run, rank, std::move(ranks[rank]));
    }
  }
  if (first_thrown) { std::rethrow_exception(first_thrown); }
  return found;
}

outcome train_on_host(options const& chosen, std::vector<tokens> const& lengths)
{
  return train_together(ballast::thread_communicator::make(chosen.ranks),
                        std::vector<device>(chosen.ranks), {}, chosen, lengths);
}

/// A stream for each rank, rank after rank on the GPUs in turn.
class gpu_ranks {
 public:
  /// Ranks of a bag wait for each other while they compute, so they cannot take turns.
  gpu_ranks(std::size_t ranks, int gpus, bool take_turns) : turns_(static_cast<std::size_t>(gpus))
  {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      gpus_.push_back(static_cast<int>(rank % turns_.size()));
      check(cudaSetDevice(gpus_.back()));
      cudaStream_t stream = nullptr;
      check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      streams_.push_back(stream);
      devices_.push_back({true, stream, take_turns ? &turns_[rank % turns_.size()] : nullptr});
    }
  }
  gpu_ranks(gpu_ranks const&) = delete;
  gpu_ranks& operator=(gpu_ranks const&) = delete;
  ~gpu_ranks()
  {
    for (cudaStream_t const stream : streams_) { (void)cudaStreamDestroy(stream); }
  }

  [[nodiscard]] std::vector<int> const& gpus() const { return gpus_; }
  [[nodiscard]] std::vector<cudaStream_t> const& streams() const { return streams_; }
  [[nodiscard]] std::vector<device> const& devices() const { return devices_; }

 private:
  std::vector<std::mutex> turns_;
  std::vector<int> gpus_;
  std::vector<cudaStream_t> streams_;
  std::vector<device> devices_;
};

#ifdef USE_NCCL
void check_nccl(ncclResult_t code)
{
  if (code != ncclSuccess) { throw std::runtime_error(ncclGetErrorString(code)); }
}

/// NCCL has one rank on a GPU at most.
outcome train_over_nccl(gpu_ranks const& ranks, options const& chosen,
                        std::vector<tokens> const& lengths)
{
  struct group {
    std::vector<ncclComm_t> comms;
    ~group()
    {
      for (ncclComm_t const comm : comms) {
        if (comm != nullptr) { (void)ncclCommDestroy(comm); }
      }
    }
  };
  group all{std::vector<ncclComm_t>(chosen.ranks)};
  check_nccl(
      ncclCommInitAll(all.comms.data(), static_cast<int>(chosen.ranks), ranks.gpus().data()));
  // Each on a thread of its own, since they compare what they were made with.
  std::vector<std::optional<ballast::nccl_communicator<>>> made(chosen.ranks);
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < chosen.ranks; ++rank) {
      threads.emplace_back([&, rank] {
        check(cudaSetDevice(ranks.gpus()[rank]));
        auto comm = ballast::nccl_communicator<>::over(all.comms[rank], ranks.streams()[rank]);
        if (comm) { made[rank].emplace(*std::move(comm)); }
      });
    }
  }
  std::vector<ballast::nccl_communicator<>> communicators;
  for (auto& each : made) { communicators.push_back(std::move(each).value()); }
  return train_together(std::move(communicators), ranks.devices(), ranks.gpus(), chosen, lengths);
}
#endif

outcome train_on_gpus(int gpus, options const& chosen, std::vector<tokens> const& lengths)
{
  gpu_ranks const ranks(chosen.ranks, gpus, chosen.bags.empty());
#ifdef USE_NCCL
  if (chosen.ranks <= static_cast<std::size_t>(gpus)) {
    return train_over_nccl(ranks, chosen, lengths);
  }
#endif
  return train_together(ballast::copy_engine_communicator<>::make(ranks.streams()).value(),
                        ranks.devices(), ranks.gpus(), chosen, lengths);
}

// -------------------------------------------------------------------------------------------------
// The program

/// How far losses and gradients may be apart, relative to the loss and to the largest element. A
/// token's loss is computed from the same numbers in the same order wherever its document is; only
/// gradients are added up in another order, in float32, where each addition rounds by 2^-24. Of a
/// few thousand additions that is some 1e-6. The optimizer enlarges it, since it divides a gradient
/// by its own size, however small, and each step starts from what the one before has left.
constexpr double loss_tolerance = 1e-5;
constexpr double gradient_tolerance = 1e-5;

/// Prints a summary, and says whether it was the same training.
bool is_the_same(outcome const& found)
{
  double difference = 0;
  step_figures as_read;
  step_figures balanced;
  // The first step warms up: it allocates, and loads kernels.
  std::size_t const first = found.steps.size() > 1 ? 1 : 0;
  auto const add = [&](step_figures& mean, step_figures const& each) {
    auto const steps = static_cast<double>(found.steps.size() - first);
    mean.milliseconds += each.milliseconds / steps;
    mean.compute_milliseconds += each.compute_milliseconds / steps;
    mean.imbalance += each.imbalance / steps;
  };
  for (std::size_t step = 0; step < found.steps.size(); ++step) {
    auto const& [read, planned] = found.steps[step];
    for (std::size_t rank = 0; rank < read.losses.size(); ++rank) {
      double const apart = planned.losses[rank] - read.losses[rank];
      difference = larger(difference, std::abs(apart) / read.loss());
    }
    if (step < first) { continue; }
    add(as_read, read);
    add(balanced, planned);
  }
  std::printf("%7s %21s %10.1f %10.1f %10.1f %10.1f %9.3f %9.3f\n\n", "mean", "",
              as_read.milliseconds, balanced.milliseconds, as_read.compute_milliseconds,
              balanced.compute_milliseconds, as_read.imbalance, balanced.imbalance);
  bool const same = difference <= loss_tolerance && found.gradient_difference <= gradient_tolerance;
  std::printf("losses     differ by %.1e of the loss at most, tolerance %.0e\n", difference,
              loss_tolerance);
  std::printf("gradients  differ by %.1e of the largest in step 1, tolerance %.0e\n",
              found.gradient_difference, gradient_tolerance);
  std::printf("%s\n", same ? "the same training" : "NOT THE SAME TRAINING");
  return same;
}

struct wrong_usage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The words of the command line, from which each option is taken.
class arguments {
 public:
  arguments(int argc, char** argv) : words_(argv + 1, argv + argc) {}

  bool flag(std::string_view name) { return std::erase(words_, name) > 0; }

  std::string text(std::string const& name, std::string otherwise = {})
  {
    auto const at = std::ranges::find(words_, name);
    if (at == words_.end()) { return otherwise; }
    if (at + 1 == words_.end()) { throw wrong_usage(name + " wants a value"); }
    std::string value = at[1];
    words_.erase(at, at + 2);
    return value;
  }

  template <class T>
  T number(std::string const& name, T otherwise, T least, T most)
  {
    std::string const word = text(name);
    if (word.empty()) { return otherwise; }
    T value{};
    char const* const end = word.data() + word.size();
    auto const [stop, failed] = std::from_chars(word.data(), end, value);
    if (failed != std::errc{} || stop != end || !(least <= value && value <= most)) {
      throw wrong_usage(name + " wants a number from " + std::to_string(least) + " to " +
                        std::to_string(most) + ", not '" + word + "'");
    }
    return value;
  }

  std::size_t count(std::string const& name, std::size_t otherwise, std::size_t most)
  {
    return number<std::size_t>(name, otherwise, 1, most);
  }

  void finish() const
  {
    if (!words_.empty()) {
      throw wrong_usage("there is no option '" + words_.front() + "'; --help lists them");
    }
  }

 private:
  std::vector<std::string> words_;
};

constexpr char const* usage = R"(usage: train [option]...

Trains the same model twice, every rank computing what it has read and balanced, and compares.

  --adaptive        a diffusion transformer with adaptive layer norm instead of a GPT
  --check           compare the backward pass with differences of losses instead
  --host            compute on the host even where there are GPUs
  --ranks N         threads, dealt to the GPUs in turn
  --steps N         of the training
  --documents N     of a step, over all ranks
  --median N        tokens: lengths are lognormal
  --longest N       tokens: longer documents are cut
  --trace FILE      CSV file with a row per document, instead of lognormal lengths
  --length COLUMNS  their lengths: a column of the trace, or a sum of columns
  --codes CODES     data codes, what each rank reads: g2b4i128f1s0,g2b1i256f1s0
  --bags SPEC       bags of GPUs which share their documents: g2n2, g1n2+g2n1
  --recompute       keep only what enters each layer, and compute the rest again
  --layers N        of the model
  --channels N      of the model, a multiple of 32
  --vocabulary N    of the model
  --gamma X         how many times as long as other FLOP those of attention take
  --rate X          learning rate
  --seed N          of lengths, texts and parameters
)";

options options_from(arguments& words, std::size_t gpus)
{
  options chosen;
  if (gpus > 0) {  // which want more to do
    chosen.ranks = std::max<std::size_t>(gpus, 4);
    chosen.documents = 16 * chosen.ranks;
    chosen.median = 512;
    chosen.longest = 8192;
    chosen.shape.layers = 4;
    chosen.shape.channels = 256;
    chosen.shape.vocabulary = 256;
  }
  chosen.ranks = words.count("--ranks", chosen.ranks, 256);
  chosen.steps = words.count("--steps", chosen.steps, 1'000'000);
  chosen.documents = words.count("--documents", chosen.documents, 100'000);
  chosen.median = words.count("--median", chosen.median, 1'000'000);
  chosen.longest = words.count("--longest", chosen.longest, 1'000'000);
  chosen.shape.layers = words.count("--layers", chosen.shape.layers, 256);
  chosen.shape.channels = words.count("--channels", chosen.shape.channels, 8192);
  chosen.shape.vocabulary = words.count("--vocabulary", chosen.shape.vocabulary, 65536);
  chosen.seed = words.count("--seed", chosen.seed, 1'000'000'000);
  chosen.gamma = words.number("--gamma", chosen.gamma, 0.0, 1000.0);
  chosen.rate = words.number("--rate", chosen.rate, 0.0, 1.0);
  chosen.trace = words.text("--trace");
  chosen.length = words.text("--length");
  chosen.bags = words.text("--bags");
  chosen.recompute = words.flag("--recompute");
  chosen.shape.adaptive = words.flag("--adaptive");
  if (std::string const codes = words.text("--codes"); !codes.empty()) {
    chosen.codes = ballast::parse_data_codes(codes).value();
    std::size_t most = 1;
    for (auto const& code : chosen.codes) { most = std::max<std::size_t>(most, code.samples); }
    chosen.documents = most * chosen.ranks;
  }
  words.finish();
  if (chosen.shape.channels % head_size != 0) {
    throw wrong_usage("--channels wants a multiple of 32, the channels of a head, not " +
                      std::to_string(chosen.shape.channels));
  }
  if (chosen.trace.empty() != chosen.length.empty()) {
    throw wrong_usage("--trace and --length go together: a file, and its columns to add up");
  }
  if (!chosen.trace.empty() && !chosen.codes.empty()) {
    throw wrong_usage("--trace and --codes both say what is read; give one of them");
  }
  (void)bags_of(chosen);  // which may refuse
  if (chosen.documents * chosen.longest > std::numeric_limits<int>::max()) {
    throw wrong_usage("--documents times --longest is above 2147483647 rows; lower one of them");
  }
  return chosen;
}

int run(arguments words)
{
  if (words.flag("--help")) { return std::fputs(usage, stdout), 0; }
  bool const on_host = words.flag("--host");
  if (words.flag("--check")) {
    words.finish();
    return check_gradients() ? 0 : 1;
  }
  int gpus = 0;
  if (on_host || cudaGetDeviceCount(&gpus) != cudaSuccess) { gpus = 0; }
  options const chosen = options_from(words, static_cast<std::size_t>(gpus));
  auto const lengths = document_lengths(chosen);

  std::string where = "the host";
  if (gpus > 0) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, 0));
    where = std::to_string(gpus) + " x " + properties.name;
  }
  std::printf("model      %zu %s, %zu channels, %zu heads, %zu tokens: %zu parameters\n",
              chosen.shape.layers,
              chosen.shape.adaptive ? "blocks with adaptive layer norm" : "layers",
              chosen.shape.channels, chosen.shape.heads(), chosen.shape.vocabulary,
              parameters_of(chosen.shape));
  if (chosen.codes.empty()) {
    std::printf("documents  %zu a step, %ld to %ld tokens each, %s\n", chosen.documents,
                std::ranges::min(lengths), std::ranges::max(lengths),
                chosen.trace.empty() ? "lognormal lengths" : chosen.trace.c_str());
  } else {
    std::printf("documents  by %zu data codes, at most %zu tokens each\n", chosen.codes.size(),
                chosen.longest);
  }
  std::printf("ranks      %zu on %s\n\n", chosen.ranks, where.c_str());
  std::printf(
      "                       loss            step in ms    slowest rank in ms"
      "      busiest / mean\n"
      "   step    as read   balanced    as read   balanced    as read   balanced"
      "   as read  balanced\n");
  outcome const found =
      gpus > 0 ? train_on_gpus(gpus, chosen, lengths) : train_on_host(chosen, lengths);
  return is_the_same(found) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv)
{
  try {
    return run(arguments(argc, argv));
  } catch (wrong_usage const& problem) {
    return std::fprintf(stderr, "train: %s\n", problem.what()), 2;
  } catch (std::exception const& problem) {
    return std::fprintf(stderr, "train: %s\n", problem.what()), 1;
  }
}
