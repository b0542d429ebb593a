// SPDX-License-Identifier: Apache-2.0
#pragma once

/// All of ballast/text: reading CSV, decimal numbers, files, and the expressions of command lines.

// IWYU pragma: begin_exports
#include <ballast/text/column_expression.hpp>
#include <ballast/text/csv.hpp>
#include <ballast/text/decimal.hpp>
#include <ballast/text/excerpt.hpp>
#include <ballast/text/read_file.hpp>
// IWYU pragma: end_exports
