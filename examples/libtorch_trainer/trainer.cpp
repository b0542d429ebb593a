// SPDX-License-Identifier: Apache-2.0
// Trains a transformer on the ranks of a job, again and again with the same data: every rank
// computing what it has read, then balanced by ballast over bags. The training must not notice, and
// not whether ranks are processes of mpirun or of torchrun.

#include "balancer.hpp"
#include "comparison.hpp"
#include "data.hpp"
#include "job_communicator.hpp"
#include "model.hpp"

#include <fmt/format.h>
#include <mpi.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trainer {
namespace {

/// Grouped queries: in a bag of four, two GPUs each have a copy of a key-value head.
constexpr transformer_shape shape = {.hidden = 32,
                                     .layers = 2,
                                     .heads = 4,
                                     .kv_heads = 2,
                                     .head_dim = 8,
                                     .ffn_hidden = 64,
                                     .mask = ballast::attention_mask::causal,
                                     .vocabulary = 64};

struct options {
  data_options data;
  std::vector<std::string> bags = {"g1n4", "g2n2", "g4n1"};
  std::size_t steps = 50;
};

/// What all ranks have, in their order, in a first dimension of its own.
Tensor of_all(job_communicator& world, Tensor const& own)
{
  Tensor const mine = own.detach().contiguous();
  std::vector<std::int64_t> sizes = mine.sizes().vec();
  sizes.insert(sizes.begin(), static_cast<std::int64_t>(world.size()));
  Tensor all = torch::empty(sizes);
  auto const numbers = [](Tensor const& tensor) {
    return std::span(tensor.data_ptr<double>(), static_cast<std::size_t>(tensor.numel()));
  };
  require(world.all_gather(std::as_bytes(numbers(mine)), std::as_writable_bytes(numbers(all))));
  return all;
}

/// Sums over all ranks in their order: the same bits on each, and over any communicator.
Tensor all_reduce(job_communicator& world, Tensor const& own)
{
  return of_all(world, own).sum(0);
}

/// Sums the gradients over all ranks, all of them in one reduction.
void all_reduce_gradients(job_communicator& world, std::vector<Tensor> const& parameters)
{
  std::vector<Tensor> flat;
  for (Tensor const& each : parameters) {
    // Where a rank has no tokens, backward does not come by every parameter.
    flat.push_back(each.grad().defined() ? each.grad().flatten() : torch::zeros(each.numel()));
  }
  Tensor const all = all_reduce(world, torch::cat(flat));
  std::int64_t first = 0;
  for (Tensor const& each : parameters) {
    each.mutable_grad() = all.narrow(0, first, each.numel()).view_as(each).clone();
    first += each.numel();
  }
}

/// Trains a new model; without bags every rank computes what it has read.
training train(job_communicator& world, options const& chosen,
               std::vector<ballast::tokens> const& lengths, std::string const& name,
               std::optional<ballast::bag_layout> const& bags)
{
  torch::manual_seed(chosen.data.seed);
  transformer model(shape);
  auto const parameters = model.parameters();
  torch::optim::Adam optimizer(parameters, torch::optim::AdamOptions(1e-2));
  data_loader loader(chosen.data, lengths, world.size(), world.rank(), shape.vocabulary);
  std::optional<balancer> balance;
  if (bags) { balance.emplace(world, *bags, shape); }

  auto const cost = layer_cost(shape);
  training result;
  result.bags = name;
  std::vector<double> losses;
  std::vector<double> work;
  ballast::tokens tokens_read = 0;
  ballast::tokens tokens_sent = 0;
  for (std::size_t step = 0; step < chosen.steps; ++step) {
    read_samples const read = loader.next();
    optimizer.zero_grad();
    // [libtorch_step]
    Tensor x = model.embed(read.token);
    if (balance) {
      balance->plan(read.lengths);
      x = balance->layers(model, x, read.position);
    } else {
      x = model.layers(x, read.position, [&](Tensor const& q, Tensor const& k, Tensor const& v) {
        return causal_attention(q, k, v, read.lengths, kv_head_of(shape));
      });
    }
    Tensor const sum =
        torch::cross_entropy_loss(model.logits(x), read.target, {}, at::Reduction::Sum);
    Tensor const token_count =
        all_reduce(world, torch::tensor(static_cast<double>(read.token.numel())));
    Tensor const loss = sum / token_count;
    loss.backward();
    all_reduce_gradients(world, parameters);
    // [libtorch_step]
    if (step == 0) {
      for (Tensor const& each : parameters) { result.gradients.push_back(each.grad().clone()); }
    }
    optimizer.step();

    losses.push_back(all_reduce(world, loss).item<double>());
    tokens_read += read.token.numel();
    if (balance) {
      work.push_back(balance->work());
      tokens_sent += balance->tokens_sent();
    } else {
      ballast::cost_units own = 0;
      for (ballast::tokens const length : read.lengths) { own += cost(length); }
      work.push_back(static_cast<double>(own));
    }
  }
  result.losses = torch::tensor(losses);
  Tensor const work_of_all = of_all(world, torch::tensor(work));
  result.balance_ratio = (work_of_all.amax(0).sum() / work_of_all.mean(0).sum()).item<double>();
  Tensor const moved = all_reduce(
      world, torch::tensor({static_cast<double>(tokens_sent), static_cast<double>(tokens_read)}));
  result.share_moved = (moved[0] / moved[1]).item<double>();
  return result;
}

/// The program on one rank. Returns 0 if the trainings agree, 1 if they differ, 2 for wrong
/// usage.
int run(int argc, char** argv)
{
  job_communicator world = require(join_job());
  bool const speaks = world.rank() == ballast::rank_id{0};
  auto const refuse = [&](std::string const& why) {
    if (speaks) { std::fputs(fmt::format("libtorch_trainer: {}\n", why).c_str(), stderr); }
    return 2;
  };
  options chosen;
  CLI::App app(
      "Trains a transformer on the ranks of a job of mpirun or torchrun, without a balancer and "
      "over "
      "bags, and compares losses and gradients");
  CLI::Range const count(1, 1'000'000);
  app.option_defaults()->always_capture_default();
  auto* const trace = app.add_option("--trace", chosen.data.trace,
                                     "CSV file of sample lengths (default: lognormal lengths)");
  auto* const length = app.add_option("--length", chosen.data.length,
                                      "Length of a sample: a column, or a sum of columns");
  trace->needs(length);
  length->needs(trace);
  app.add_option("--shortest", chosen.data.shortest, "Tokens of the shortest sample")->check(count);
  app.add_option("--longest", chosen.data.longest, "Tokens that the longest sample is scaled to")
      ->check(count);
  app.add_option("--batch", chosen.data.batch, "Samples of a step, over all ranks")->check(count);
  app.add_option("--bags", chosen.bags,
                 "Bags such as g3n1+g1n1 for a training; give the option several times to compare")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  app.add_option("--steps", chosen.steps, "Optimizer steps")->check(count);
  app.add_option("--seed", chosen.data.seed, "Seed of lengths, texts and parameters");
  try {
    app.parse(argc, argv);
  } catch (CLI::Success const& asked) {
    return speaks ? app.exit(asked) : 0;
  } catch (CLI::ParseError const& wrong) {
    return refuse(wrong.what());
  }

  if (chosen.data.shortest > chosen.data.longest) {
    return refuse(
        fmt::format("--shortest {} is above --longest {}; lower the one or raise the other",
                    chosen.data.shortest, chosen.data.longest));
  }
  auto const lengths = load_lengths(chosen.data);
  if (!lengths) { return refuse(lengths.error().message); }
  auto const machines = ballast::cluster_of(world.size(), world.size());
  if (!machines) { return refuse(machines.error().message); }
  std::vector<std::pair<std::string, std::optional<ballast::bag_layout>>> settings = {
      {"no balancer", std::nullopt}};
  for (std::string const& text : chosen.bags) {
    auto const spec = ballast::parse_bags(text);
    if (!spec) { return refuse(spec.error().message); }
    auto bags = ballast::lay_out(*spec, *machines);
    if (!bags) { return refuse(bags.error().message); }
    settings.emplace_back(text, *std::move(bags));
  }

  std::vector<training> trainings;
  for (auto const& [name, bags] : settings) {
    trainings.push_back(train(world, chosen, *lengths, name, bags));
  }
  if (!speaks) { return 0; }  // all ranks have the same to say
  fmt::print("{} ranks, {} steps of {} samples, {} to {} tokens each: {}\n", world.size(),
             chosen.steps, chosen.data.batch, std::ranges::min(*lengths),
             std::ranges::max(*lengths),
             chosen.data.trace.empty()
                 ? "lognormal lengths, since there is no --trace"
                 : chosen.data.trace.substr(chosen.data.trace.find_last_of('/') + 1));
  return print_comparison(trainings) ? 0 : 1;
}

}  // namespace
}  // namespace trainer

int main(int argc, char** argv)
{
  bool const over_mpi = !trainer::started_by_torchrun();
  if (over_mpi) { MPI_Init(&argc, &argv); }
  int code = 1;
  try {
    at::set_num_threads(1);  // the ranks share the cores of this machine
    torch::set_default_dtype(caffe2::TypeMeta::Make<double>());
    code = trainer::run(argc, argv);
  } catch (std::exception const& problem) {
    std::fputs(fmt::format("libtorch_trainer: {}\n", problem.what()).c_str(), stderr);
    if (over_mpi) { MPI_Abort(MPI_COMM_WORLD, 1); }  // others may be waiting for this rank
  }
  if (over_mpi) { MPI_Finalize(); }
  return code;
}
