// SPDX-License-Identifier: Apache-2.0
// The functions of MPI that this folder calls, in a program without it (-Dmpi=disabled, or sealed settings of one
// rank): every one fails. A run on several machines is refused before the first call (`bascule run`), so none is
// reached. The handles have the types of Open MPI, so that sources compiled with either header can be linked together.
#pragma once

struct ompi_communicator_t;
struct ompi_datatype_t;
struct ompi_op_t;
struct ompi_request_t;
using MPI_Comm = ompi_communicator_t*;
using MPI_Datatype = ompi_datatype_t*;
using MPI_Op = ompi_op_t*;
using MPI_Request = ompi_request_t*;
struct MPI_Status {};

inline constexpr int MPI_SUCCESS = 0, MPI_ERR_OTHER = 1, MPI_UNDEFINED = -1;
inline constexpr int MPI_THREAD_SINGLE = 0, MPI_THREAD_MULTIPLE = 3;
inline constexpr int MPI_MAX_ERROR_STRING = 1, MPI_MAX_LIBRARY_VERSION_STRING = 1;
inline constexpr MPI_Comm MPI_COMM_NULL = nullptr, MPI_COMM_WORLD = nullptr;
inline constexpr MPI_Datatype MPI_BYTE = nullptr, MPI_INT = nullptr, MPI_UINT64_T = nullptr;
inline constexpr MPI_Op MPI_BOR = nullptr;
inline constexpr MPI_Request MPI_REQUEST_NULL = nullptr;
inline constexpr MPI_Status* MPI_STATUS_IGNORE = nullptr;
inline constexpr MPI_Status* MPI_STATUSES_IGNORE = nullptr;
inline constexpr void* MPI_IN_PLACE = nullptr;
inline constexpr int (*MPI_ERRORS_RETURN)() = nullptr;

inline int MPI_Get_library_version(char*, int*) { return MPI_ERR_OTHER; }
inline int MPI_Error_string(int, char*, int*) { return MPI_ERR_OTHER; }
inline int MPI_Init_thread(int*, char***, int, int*) { return MPI_ERR_OTHER; }
inline int MPI_Finalize() { return MPI_ERR_OTHER; }
inline int MPI_Comm_set_errhandler(MPI_Comm, int (*)()) { return MPI_ERR_OTHER; }
inline int MPI_Comm_size(MPI_Comm, int*) { return MPI_ERR_OTHER; }
inline int MPI_Comm_rank(MPI_Comm, int*) { return MPI_ERR_OTHER; }
inline int MPI_Comm_split(MPI_Comm, int, int, MPI_Comm*) { return MPI_ERR_OTHER; }
inline int MPI_Comm_dup(MPI_Comm, MPI_Comm*) { return MPI_ERR_OTHER; }
inline int MPI_Test(MPI_Request*, int*, MPI_Status*) { return MPI_ERR_OTHER; }
inline int MPI_Testsome(int, MPI_Request*, int*, int*, MPI_Status*) { return MPI_ERR_OTHER; }
inline int MPI_Isend(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*) { return MPI_ERR_OTHER; }
inline int MPI_Irecv(void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*) { return MPI_ERR_OTHER; }
inline int MPI_Ibarrier(MPI_Comm, MPI_Request*) { return MPI_ERR_OTHER; }
inline int MPI_Ibcast(void*, int, MPI_Datatype, int, MPI_Comm, MPI_Request*) { return MPI_ERR_OTHER; }
inline int MPI_Allgather(const void*, int, MPI_Datatype, void*, int, MPI_Datatype, MPI_Comm) { return MPI_ERR_OTHER; }
inline int MPI_Iallgather(const void*, int, MPI_Datatype, void*, int, MPI_Datatype, MPI_Comm, MPI_Request*) {
  return MPI_ERR_OTHER;
}
inline int MPI_Iallgatherv(const void*, int, MPI_Datatype, void*, const int*, const int*, MPI_Datatype, MPI_Comm,
                           MPI_Request*) {
  return MPI_ERR_OTHER;
}
inline int MPI_Ireduce(const void*, void*, int, MPI_Datatype, MPI_Op, int, MPI_Comm, MPI_Request*) {
  return MPI_ERR_OTHER;
}
inline int MPI_Iallreduce(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Request*) {
  return MPI_ERR_OTHER;
}
