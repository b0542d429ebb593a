// SPDX-License-Identifier: Apache-2.0
#include "plan_command.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <string>

namespace {

void add_plan(CLI::App& app, cli::plan_options& options)
{
  auto* const plan = app.add_subcommand(
      "plan", "Place the samples of training steps on GPU bags and say how even the work is");
  auto const positive = CLI::Range(1.0, 1e9);
  plan->add_option("--trace", options.trace, "CSV file of sample lengths, with a header row");
  plan->add_option("--length", options.length,
                   "Length of a sample: a column, or a sum such as text_tokens+visual_tokens");
  plan->add_option("--codes", options.codes,
                   "Instead of a trace, data codes such as g4b5i512f1s0,g8b1i2048f1s0");
  plan->add_option("--gpus", options.gpus, "GPUs of the job (default: as codes or bags say)")
      ->check(CLI::Range(1, 1 << 24));
  plan->add_option("--gpus-per-node", options.gpus_per_node, "GPUs of a node")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  plan->add_option("--bags", options.bags,
                   "Compute bags such as g1n2+g2n1+g4n1, repeated over the job; give the option "
                   "several times to compare (default: bags of one GPU)")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  plan->add_flag("--relay", options.relay,
                 "Re-lay bags that would straddle a node or be misaligned");
  plan->add_option("--cost", options.cost, "Cost model: transformer:d=3072,gamma=0.405 or tokens")
      ->capture_default_str();
  plan->add_option("--measured", options.measured,
                   "CSV file with the columns length,seconds to fit the model's gamma to");
  plan->add_option("--tflops", options.tflops, "TFLOP/s of a GPU, for predicted times")
      ->check(positive)
      ->capture_default_str();
  plan->add_option("--policy", options.policy, "One of " + std::string(ballast::policy_names))
      ->capture_default_str();
  plan->add_option("--batch", options.batch, "Samples per step over all GPUs (default: 8 per GPU)")
      ->check(CLI::Range(1, 1 << 30));
  plan->add_option("--steps", options.steps, "Steps to plan")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  plan->add_option("--seed", options.seed, "Seed of all that is drawn")->capture_default_str();
  plan->add_option("--format", options.format, "How to print the result")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();
  plan->add_option("--picture", options.picture, "Write the work per GPU as an SVG file");
  plan->add_option("--report", options.report, "Write an HTML page with pictures to this file");
  plan->add_option("--timeline", options.timeline,
                   "Write a timeline for ui.perfetto.dev to this file");
}

int complain(int exit_code, std::string const& message)
{
  fmt::print(stderr, "ballast: {}\n", message);
  return exit_code;
}

}  // namespace

int main(int argc, char** argv)
{
  try {
    CLI::App app(
        "ballast plans who computes what, so that every GPU of a training job is equally busy");
    app.require_subcommand(1);
    app.set_version_flag(
        "--version", fmt::format("{}.{}.{}", BALLAST_VERSION / 10000, BALLAST_VERSION / 100 % 100,
                                 BALLAST_VERSION % 100));
    cli::plan_options plan;
    add_plan(app, plan);
    try {
      app.parse(argc, argv);
    } catch (CLI::Success const& asked) {  // --help or --version
      return app.exit(asked);
    } catch (CLI::ParseError const& wrong) {
      return complain(2, std::string(wrong.what()) + "; see ballast plan --help");
    }

    auto const run = cli::run_plan(plan);
    if (!run) { return complain(run.error().exit_code, run.error().message); }
    auto const shown = cli::show_plan(*run);
    return shown ? 0 : complain(shown.error().exit_code, shown.error().message);
  } catch (std::exception const& problem) {
    return complain(1, problem.what());
  }
}
