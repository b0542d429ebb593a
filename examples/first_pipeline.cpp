// Two ranks train y = w1 w0 x to be x: each has one of the two weights.

// [first_pipeline]
#include <ballast/comm.hpp>
#include <ballast/pipeline.hpp>
#include <ballast/runtime.hpp>

#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

using namespace ballast;
std::vector<std::vector<double>> const x{{0.1, 0.9, 0.3}, {0.7}, {0.2, 0.4}};  // three microbatches

struct half_model {  // multiplies its rows by a weight
  double w = 0.5, dw = 0;

  double forward(forward_call const& call)  // returns the loss, in the stage that has one
  {
    double loss = 0;
    for (std::size_t i = 0; double const given : x[call.microbatch]) {
      if (call.stage == stage_id{0}) { call.output<double>()[i] = w * given; }
      if (call.stage == stage_id{1}) { loss += std::pow(w * call.input<double>()[i] - given, 2); }
      ++i;
    }
    return loss;
  }

  void backward(backward_call const& call)
  {
    for (std::size_t i = 0; double const given : x[call.microbatch]) {
      bool const is_first = call.stage == stage_id{0};
      double const in = is_first ? given : call.input<double>()[i];
      double const dy = is_first ? call.output_gradient<double>()[i] : 2 * (w * in - given);
      if (!is_first) { call.input_gradient<double>()[i] = w * dy; }
      dw += dy * in;
      ++i;
    }
  }
};
// [first_pipeline]

int main()
{
  // [first_pipeline_run]
  pipeline_setup const setup{
      process_grid({{.data = 1, .pipeline = 2, .tensor = 1}}),
      compiled_schedule(chain_of_stages(2, 2), one_forward_one_backward{}, 3),
      {sizeof(double)}};
  std::vector const order{microbatch_id{2}, microbatch_id{0}, microbatch_id{1}};
  auto const plan = pipeline_plan{}.fill(  // sample s is in microbatch order[s]
      setup, order, [&](auto s, auto) { return x[order[s]].size(); });

  run_ranks(2, [&](auto& comm) {  // over MPI: mpi_communicator comm(MPI_COMM_WORLD);
    auto runner = pipeline_runner<>::make(setup, comm.rank()).value();
    or_throw(runner.plan(plan));
    half_model half;
    for (int step = 0; step < 200; ++step) {
      or_throw(runner.run(comm, order, half));
      half.w -= 0.1 * std::exchange(half.dw, 0);
    }
    std::printf("rank %zu: w %.3f, loss %.5f\n", to_index(comm.rank()), half.w, runner.loss());
  });
  // [first_pipeline_run]
}
