// Two ranks train y = w1 tanh(w0 x) to be x: each has one of the two weights.

// [first_pipeline]
#include <ballast/comm.hpp>
#include <ballast/pipeline.hpp>
#include <ballast/runtime.hpp>

#include <cmath>
#include <cstdio>
#include <vector>

using namespace ballast;
std::vector<std::vector<double>> const x{{0.1, 0.9, 0.3}, {0.7}, {0.2, 0.4}};  // three microbatches

struct half_model {
  double w = 0.5;
  double dw = 0;

  double forward(forward_call const& call)  // returns the loss, in the stage that has one
  {
    double loss = 0;
    auto const& rows = x[to_index(call.microbatch)];
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (call.stage == stage_id{0}) { call.output<double>()[i] = std::tanh(w * rows[i]); }
      if (call.stage == stage_id{1}) { loss += std::pow(w * call.input<double>()[i] - rows[i], 2); }
    }
    return loss;
  }

  void backward(backward_call const& call)
  {
    auto const& rows = x[to_index(call.microbatch)];
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (call.stage == stage_id{0}) {
        double const slope = 1 - std::pow(std::tanh(w * rows[i]), 2);
        dw += call.output_gradient<double>()[i] * slope * rows[i];
      } else {
        double const error = 2 * (w * call.input<double>()[i] - rows[i]);
        call.input_gradient<double>()[i] = error * w;
        dw += error * call.input<double>()[i];
      }
    }
  }
};
// [first_pipeline]

int main()
{
  // [first_pipeline_run]
  auto const stages = chain_of_stages(2, 2);
  auto const schedule = compiled_schedule::make(stages, one_forward_one_backward{}, 3).value();
  std::vector<unit_sizes> const modules{{.data = 1, .pipeline = 2, .tensor = 1}};
  pipeline_setup const setup{process_grid::make(modules).value(), schedule, {sizeof(double)}};
  std::vector const given{microbatch_id{0}, microbatch_id{1}, microbatch_id{2}};
  pipeline_plan const plan{3, given, {{3, 1, 2}}, {{}}};  // a sample in each, of 3, 1 and 2 rows

  run_ranks(2, [&](auto& comm) {  // over MPI: mpi_communicator comm(MPI_COMM_WORLD);
    auto runner = pipeline_runner<>::make(setup, comm.rank()).value();
    or_throw(runner.plan(plan));
    half_model half;
    for (int step = 0; step < 200; ++step) {
      half.dw = 0;
      or_throw(runner.run(comm, std::vector{given[2], given[0], given[1]}, half));
      half.w -= 0.1 * half.dw;
    }
    std::printf("rank %zu: w %.3f, loss %.5f\n", to_index(comm.rank()), half.w, runner.loss());
  });
  // [first_pipeline_run]
}
