/* Reports to the user: why a call goes through MPI, what failed, and how many calls took which path. */
#include "internal.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const call_names[CALLS] = {
    "MPI_Allreduce", "MPI_Iallreduce", "MPI_Reduce", "MPI_Bcast", "MPI_Barrier",
};

static atomic_ulong ours[CALLS], theirs[CALLS], bytes_ours;
static atomic_flag said = ATOMIC_FLAG_INIT;

void say_why(MPI_Comm comm, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    int rank = -1;

    if (PMPI_Comm_rank(comm, &rank) != MPI_SUCCESS || rank != 0 || atomic_flag_test_and_set(&said))
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    /* One line, whatever is in the text. */
    for (char *at = text; (at = strchr(at, '\n')); at++)
        *at = ' ';
    fprintf(stderr, "pascaline-mpi: goes through MPI: %s\n", text);
}

void count_ours(enum call call, size_t bytes)
{
    atomic_fetch_add_explicit(&ours[call], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&bytes_ours, bytes, memory_order_relaxed);
}

void count_theirs(enum call call)
{
    atomic_fetch_add_explicit(&theirs[call], 1, memory_order_relaxed);
}

void print_statistics(void)
{
    const char *wanted = getenv("PASCALINE_STATS");
    unsigned long all_ours = 0, all_theirs = 0;
    char line[512];
    int rank = 0, length;

    if (!wanted || strcmp(wanted, "1") != 0)
        return;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int call = 0; call < CALLS; call++) {
        all_ours += ours[call];
        all_theirs += theirs[call];
    }
    length = snprintf(line, sizeof line,
                      "pascaline-mpi: rank %d: %lu calls with %lu bytes through the appliance, %lu by MPI",
                      rank, all_ours, (unsigned long)bytes_ours, all_theirs);
    for (int call = 0; call < CALLS; call++)
        length += snprintf(line + length, sizeof line - (size_t)length, "%s%s %lu+%lu", call ? ", " : " (",
                           call_names[call], (unsigned long)ours[call], (unsigned long)theirs[call]);
    fprintf(stderr, "%s)\n", line);
}

void end_call(struct job *job, pascaline_status status, struct outcome *outcome)
{
    outcome->status = status;
    outcome->text[0] = 0;
    if (status != PASCALINE_OK)
        snprintf(outcome->text, sizeof outcome->text, "%s", pascaline_last_error(job->handle));
    pthread_mutex_unlock(&job->calls);
}

int conclude(MPI_Comm comm, enum call call, const struct outcome *outcome, size_t bytes)
{
    int rank = -1, code = MPI_ERR_OTHER;
    const char *text = pascaline_strerror(outcome->status);

    if (outcome->status == PASCALINE_OK) {
        count_ours(call, bytes);
        return MPI_SUCCESS;
    }
    PMPI_Comm_rank(comm, &rank);
    fprintf(stderr, "pascaline-mpi: rank %d: %s: %s: %s\n", rank, call_names[call], text, outcome->text);
    /* So that MPI_Error_string tells it as well. */
    if (PMPI_Add_error_code(MPI_ERR_OTHER, &code) == MPI_SUCCESS)
        PMPI_Add_error_string(code, text);
    PMPI_Comm_call_errhandler(comm, code);
    return code;
}

int no_memory(MPI_Comm comm, enum call call)
{
    return conclude(comm, call, &(struct outcome){PASCALINE_ERR_SYSTEM, "no memory"}, 0);
}

int no_buffer(MPI_Comm comm)
{
    PMPI_Comm_call_errhandler(comm, MPI_ERR_BUFFER);
    return MPI_ERR_BUFFER;
}
