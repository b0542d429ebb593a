/* SPDX-License-Identifier: Apache-2.0 */
/* Plans two steps of ten samples over eight GPUs, from C. */
// [c_first_plan]
#include <ballast.h>
#include <stdio.h>

int main(void)
{
  int64_t const lengths[] = {16000, 3900, 2800, 2600, 2200, 1800, 1700, 1300, 900, 700};
  ballast_planner* const planner = ballast_create();

  /* 1: the job, once */
  ballast_plan_options const options = {.struct_size = sizeof options,
                                        .gpus = 8,
                                        .bags = "g1n4+g4n1",
                                        .cost = "transformer:d=3072,gamma=0.405",
                                        .policy = "refine"};
  int status = ballast_set_up_plan(planner, &options);
  for (int training_step = 0; training_step < 2 && status == BALLAST_OK; ++training_step) {
    /* 2: every step, the lengths of all ranks */
    ballast_plan_step const step = {.struct_size = sizeof step, .samples = 10, .lengths = lengths};
    ballast_plan plan = {.struct_size = sizeof plan};
    status = ballast_partition(planner, &step, &plan);

    /* 3: the samples of each bag */
    for (size_t bag = 0; status == BALLAST_OK && bag < plan.bags; ++bag) {
      for (size_t at = plan.first[bag]; at < plan.first[bag + 1]; ++at) {
        printf("%6ld", (long)lengths[plan.sample[at]]);
      }
      puts("");
    }
    if (status == BALLAST_OK) {
      printf("at most %.1f %% above the best plan there is\n", 100 * plan.gap);
    }
  }
  if (status != BALLAST_OK) { fprintf(stderr, "%s\n", ballast_error(planner)); }
  ballast_destroy(planner);
  return status;
}
// [c_first_plan]
