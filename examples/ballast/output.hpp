// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "job.hpp"
#include "outcome.hpp"

#include <ballast/topology/cluster.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cli {

/// "1 GPU", "8 GPUs".
[[nodiscard]] std::string count_of(std::size_t things, std::string_view name);

/// What stands behind the last slash: pages say which file it was, not where it lay.
[[nodiscard]] std::string file_name_of(std::string const& path);

/// "12.3 us", "1.50 ms", "2.00 s".
[[nodiscard]] std::string duration_text(double seconds);

/// Three digits and a decimal prefix: "12.3 MB".
[[nodiscard]] std::string bytes_text(double bytes);

/// "6144 bytes per token: bf16 activations of width 3072".
[[nodiscard]] std::string array_text(job const& work);

/// "at most 0.3 % above the best", or that none is better.
[[nodiscard]] std::string gap_text(double gap, bool is_proven);

/// "450 GB/s within a node, 50 GB/s between nodes, latency 10 us".
[[nodiscard]] std::string machines_text(job const& work);
[[nodiscard]] std::string network_text(ballast::cluster const& machines);

/// The policy, and the constraints that plans have to meet.
[[nodiscard]] std::string policy_text(job_options const& options);

/// What stands behind "256 samples per step" where the last step of a pass of the trace has fewer.
[[nodiscard]] std::string short_step_text(job const& work);

/// The lines above a table: which samples, how many, on what, and how they are planned.
[[nodiscard]] std::string heading_of(job const& work, std::int64_t samples);

/// How many samples of a layout's steps leave GPUs of their bag without a token.
[[nodiscard]] std::string short_samples_text(std::string const& bags, std::size_t short_samples,
                                             std::size_t samples);

/// The settings of a job and of one of its layouts, as JSON begins with them.
[[nodiscard]] nlohmann::ordered_json settings_json(job const& work, std::string const& bags,
                                                   std::int64_t samples);

/// Which measured times the fit misses, to follow what it says of its errors; empty where none.
[[nodiscard]] std::string misfits_text(job const& work);

/// What the fit found, but its errors. Expects work.fit.
[[nodiscard]] std::string fit_text(job const& work);

/// What --measured gave. Expects work.fit.
[[nodiscard]] nlohmann::ordered_json fit_json(job const& work);

/// The rows of a CSV text, an object on a line each, with the columns as keys. A field is a number
/// where it looks like one, but in a column `id` that has others too.
[[nodiscard]] std::string json_lines_of(std::string_view csv, bool are_ids_numbers = true);

/// Prints all of it, or says why it could not.
[[nodiscard]] outcome<void> print(std::string const& text);

/// Prints an array, or its element where it has one.
[[nodiscard]] outcome<void> print_json(nlohmann::ordered_json const& layouts);

}  // namespace cli
