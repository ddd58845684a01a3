// The compiled kernels of this folder, as part of the binary.
#ifndef BATON_TESTS_CUDA_BENCH_BENCH_IMAGES_H_
#define BATON_TESTS_CUDA_BENCH_BENCH_IMAGES_H_

extern "C" {
// A fat binary like that of engine/cuda/kernels/images.h.
extern const unsigned char baton_cuda_bench_kernels[];
}

#endif  // BATON_TESTS_CUDA_BENCH_BENCH_IMAGES_H_
