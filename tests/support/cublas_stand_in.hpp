// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../../examples/ballast/gpu/cublas.hpp"

#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace ballast_test {

/// What the stand-in was asked for, and what it is to refuse.
struct cublas_record {
  cudaStream_t stream = nullptr;
  std::size_t workspace_bytes = 0;
  bool workspace_is_last = false;  // cublasSetStream takes it back
  std::size_t handles = 0;
  std::size_t products = 0;
  std::size_t largest_batch = 0;
  char const* fails = "";
  cublasStatus_t failure = CUBLAS_STATUS_SUCCESS;
};

inline cublas_record cublas_said;

inline cublasStatus_t answer_of(char const* function)
{
  return std::string_view(cublas_said.fails) == function ? cublas_said.failure
                                                         : CUBLAS_STATUS_SUCCESS;
}

/// A product as cuBLAS documents it: matrices by columns, one number after the other in fp32.
inline cublasStatus_t multiply_on_host(cublasOperation_t of_a, cublasOperation_t of_b, int m, int n,
                                       int k, void const* alpha, void const* a, int lda,
                                       void const* b, int ldb, void const* beta, void* c,
                                       cudaDataType type, int ldc)
{
  bool const fits = lda >= (of_a == CUBLAS_OP_N ? m : k) && ldb >= (of_b == CUBLAS_OP_N ? k : n) &&
                    ldc >= m && m > 0 && n > 0 && k > 0;
  if (!fits) { return CUBLAS_STATUS_INVALID_VALUE; }
  auto const at = [](void const* matrix, int stride, int row, int column) {
    return __bfloat162float(static_cast<__nv_bfloat16 const*>(
        matrix)[static_cast<std::ptrdiff_t>(column) * stride + row]);
  };
  float const by = *static_cast<float const*>(alpha);
  float const keep = *static_cast<float const*>(beta);
  for (int column = 0; column < n; ++column) {
    for (int row = 0; row < m; ++row) {
      float sum = 0;
      for (int i = 0; i < k; ++i) {
        float const left = of_a == CUBLAS_OP_N ? at(a, lda, row, i) : at(a, lda, i, row);
        float const right = of_b == CUBLAS_OP_N ? at(b, ldb, i, column) : at(b, ldb, column, i);
        sum += left * right;
      }
      std::ptrdiff_t const place = static_cast<std::ptrdiff_t>(column) * ldc + row;
      if (type == CUDA_R_32F) {
        float& to = static_cast<float*>(c)[place];
        to = by * sum + (keep == 0 ? 0 : keep * to);
      } else {
        __nv_bfloat16& to = static_cast<__nv_bfloat16*>(c)[place];
        to = __float2bfloat16(by * sum + (keep == 0 ? 0 : keep * __bfloat162float(to)));
      }
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

inline void const* numbers_on(void const* matrix, long long numbers)
{
  return static_cast<__nv_bfloat16 const*>(matrix) + numbers;
}

/// cuBLAS on the host, for the streams of cuda_shim.cpp: each product waits for what is before it.
inline cli::cublas_functions cublas_stand_in()
{
  cli::cublas_functions made;
  made.create = [](cublasHandle_t* handle) {
    *handle = answer_of("create") == CUBLAS_STATUS_SUCCESS
                  ? reinterpret_cast<cublasHandle_t>(&cublas_said)
                  : nullptr;
    if (*handle != nullptr) { ++cublas_said.handles; }
    return answer_of("create");
  };
  made.destroy = [](cublasHandle_t) {
    --cublas_said.handles;
    return CUBLAS_STATUS_SUCCESS;
  };
  made.set_stream = [](cublasHandle_t, cudaStream_t stream) {
    cublas_said.stream = stream;
    cublas_said.workspace_is_last = false;
    return answer_of("set_stream");
  };
  made.set_workspace = [](cublasHandle_t, void* memory, std::size_t bytes) {
    cublas_said.workspace_bytes = memory != nullptr ? bytes : 0;
    cublas_said.workspace_is_last = true;
    return answer_of("set_workspace");
  };
  made.set_math_mode = [](cublasHandle_t, cublasMath_t) { return answer_of("set_math_mode"); };
  made.get_version = [](cublasHandle_t, int* version) {
    *version = 130'002;
    return CUBLAS_STATUS_SUCCESS;
  };
  made.status_text = [](cublasStatus_t) { return "as cuBLAS says it"; };
  made.gemm = [](cublasHandle_t, cublasOperation_t of_a, cublasOperation_t of_b, int m, int n,
                 int k, void const* alpha, void const* a, cudaDataType, int lda, void const* b,
                 cudaDataType, int ldb, void const* beta, void* c, cudaDataType type, int ldc,
                 cublasComputeType_t, cublasGemmAlgo_t) {
    ++cublas_said.products;
    if (answer_of("gemm") != CUBLAS_STATUS_SUCCESS) { return answer_of("gemm"); }
    if (cudaStreamSynchronize(cublas_said.stream) != cudaSuccess) {
      return CUBLAS_STATUS_EXECUTION_FAILED;
    }
    return multiply_on_host(of_a, of_b, m, n, k, alpha, a, lda, b, ldb, beta, c, type, ldc);
  };
  made.gemm_batched = [](cublasHandle_t, cublasOperation_t of_a, cublasOperation_t of_b, int m,
                         int n, int k, void const* alpha, void const* a, cudaDataType, int lda,
                         long long next_a, void const* b, cudaDataType, int ldb, long long next_b,
                         void const* beta, void* c, cudaDataType type, int ldc, long long next_c,
                         int batch, cublasComputeType_t, cublasGemmAlgo_t) {
    ++cublas_said.products;
    cublas_said.largest_batch =
        std::max(cublas_said.largest_batch, static_cast<std::size_t>(batch));
    if (cudaStreamSynchronize(cublas_said.stream) != cudaSuccess) {
      return CUBLAS_STATUS_EXECUTION_FAILED;
    }
    for (int each = 0; each < batch; ++each) {
      auto const status =
          multiply_on_host(of_a, of_b, m, n, k, alpha, numbers_on(a, each * next_a), lda,
                           numbers_on(b, each * next_b), ldb, beta,
                           const_cast<void*>(numbers_on(c, each * next_c)), type, ldc);
      if (status != CUBLAS_STATUS_SUCCESS) { return status; }
    }
    return CUBLAS_STATUS_SUCCESS;
  };
  return made;
}

}  // namespace ballast_test
