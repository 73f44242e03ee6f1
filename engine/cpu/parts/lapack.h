// LAPACK as OpenBLAS exports it: Fortran symbols with column-major matrices, 32-bit integers, every argument by
// reference and the lengths of character arguments at the end; then one overloaded name per routine for f32 and f64.
#pragma once

#include <cstddef>

#define BOCHNER_LAPACK(T, p)                                                                                           \
  extern "C" {                                                                                                         \
  void p##gelqf_(const int*, const int*, T*, const int*, T*, T*, const int*, int*);                                    \
  void p##orglq_(const int*, const int*, const int*, T*, const int*, const T*, T*, const int*, int*);                  \
  void p##syevd_(const char*, const char*, const int*, T*, const int*, T*, T*, const int*, int*, const int*, int*,     \
                 size_t, size_t);                                                                                      \
  void p##gesdd_(const char*, const int*, const int*, T*, const int*, T*, T*, const int*, T*, const int*, T*,          \
                 const int*, int*, int*, size_t);                                                                      \
  void p##potrf_(const char*, const int*, T*, const int*, int*, size_t);                                               \
  void p##getrf_(const int*, const int*, T*, const int*, int*, int*);                                                  \
  void p##getrs_(const char*, const int*, const int*, const T*, const int*, const int*, T*, const int*, int*, size_t); \
  void p##trsm_(const char*, const char*, const char*, const char*, const int*, const int*, const T*, const T*,        \
                const int*, T*, const int*, size_t, size_t, size_t, size_t);                                           \
  }                                                                                                                    \
  namespace bochner::cpu::lapack {                                                                                     \
  /* A (m x n) = L Q by reflections, kept in a and tau */                                                              \
  inline int gelqf(int m, int n, T* a, int lda, T* tau, T* work, int lwork) {                                          \
    int info = 0;                                                                                                      \
    p##gelqf_(&m, &n, a, &lda, tau, work, &lwork, &info);                                                              \
    return info;                                                                                                       \
  }                                                                                                                    \
  /* the first m rows of Q, from k reflections */                                                                      \
  inline int orglq(int m, int n, int k, T* a, int lda, const T* tau, T* work, int lwork) {                             \
    int info = 0;                                                                                                      \
    p##orglq_(&m, &n, &k, a, &lda, tau, work, &lwork, &info);                                                          \
    return info;                                                                                                       \
  }                                                                                                                    \
  /* eigenvalues w and, as columns of a, eigenvectors; the upper triangle of a is read */                              \
  inline int syevd(int n, T* a, T* w, T* work, int lwork, int* iwork, int liwork) {                                    \
    int info = 0;                                                                                                      \
    p##syevd_("V", "U", &n, a, &n, w, work, &lwork, iwork, &liwork, &info, 1, 1);                                      \
    return info;                                                                                                       \
  }                                                                                                                    \
  /* the thin A = U S V^T */                                                                                           \
  inline int gesdd(int m, int n, T* a, T* s, T* u, T* vt, T* work, int lwork, int* iwork) {                            \
    const int k = m < n ? m : n;                                                                                       \
    int info = 0;                                                                                                      \
    p##gesdd_("S", &m, &n, a, &m, s, u, &m, vt, &k, work, &lwork, iwork, &info, 1);                                    \
    return info;                                                                                                       \
  }                                                                                                                    \
  /* A = U^T U in the upper triangle */                                                                                \
  inline int potrf(int n, T* a) {                                                                                      \
    int info = 0;                                                                                                      \
    p##potrf_("U", &n, a, &n, &info, 1);                                                                               \
    return info;                                                                                                       \
  }                                                                                                                    \
  /* A = P L U */                                                                                                      \
  inline int getrf(int n, T* a, int* pivots) {                                                                         \
    int info = 0;                                                                                                      \
    p##getrf_(&n, &n, a, &n, pivots, &info);                                                                           \
    return info;                                                                                                       \
  }                                                                                                                    \
  /* A^T X = B from it */                                                                                              \
  inline void getrs_transposed(int n, int columns, const T* a, const int* pivots, T* b) {                              \
    int info = 0;                                                                                                      \
    p##getrs_("T", &n, &columns, a, &n, pivots, b, &n, &info, 1);                                                      \
  }                                                                                                                    \
  /* X op(A) = B with triangular A (n x n) and B (m x n) */                                                            \
  inline void trsm_right(bool upper, bool transposed, int m, int n, const T* a, T* b) {                                \
    const T one = 1;                                                                                                   \
    p##trsm_("R", upper ? "U" : "L", transposed ? "T" : "N", "N", &m, &n, &one, a, &n, b, &m, 1, 1, 1, 1);             \
  }                                                                                                                    \
  }
BOCHNER_LAPACK(float, s)
BOCHNER_LAPACK(double, d)
#undef BOCHNER_LAPACK
