/* What MPI's types and operations are to the appliance. */
#include "internal.h"

#include <stdint.h>

/* The type of elements, 0 if the appliance has none such. Handles are addresses in some MPIs: no switch. */
static int dtype_of(MPI_Datatype datatype)
{
    if (datatype == MPI_FLOAT || datatype == MPI_REAL || datatype == MPI_REAL4)
        return PASCALINE_F32;
    if (datatype == MPI_DOUBLE || datatype == MPI_DOUBLE_PRECISION || datatype == MPI_REAL8)
        return PASCALINE_F64;
    if (datatype == MPI_INT || datatype == MPI_INT32_T || datatype == MPI_INTEGER || datatype == MPI_INTEGER4)
        return PASCALINE_I32;
    if (datatype == MPI_LONG)
        return PASCALINE_I32;
    if (datatype == MPI_UNSIGNED || datatype == MPI_UINT32_T || datatype == MPI_UNSIGNED_LONG)
        return PASCALINE_U32;
    return 0;
}

/* Whether elements are as long as the appliance's of that type. Those of C's long and of Fortran's types
 * depend on compilers and their options: MPI_REAL may have 8 bytes. */
static bool is_as_long(MPI_Datatype datatype, int dtype)
{
    int size, wanted = dtype == PASCALINE_F64 ? sizeof(double) : sizeof(int32_t);

    return PMPI_Type_size(datatype, &size) == MPI_SUCCESS && size == wanted;
}

static int operation_of(MPI_Op op)
{
    if (op == MPI_SUM)
        return PASCALINE_SUM;
    if (op == MPI_MIN)
        return PASCALINE_MIN;
    if (op == MPI_MAX)
        return PASCALINE_MAX;
    return -1;
}

bool known(enum call call, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, int *dtype, int *operation)
{
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length;

    *dtype = dtype_of(datatype);
    if (*dtype && !is_as_long(datatype, *dtype))
        *dtype = 0;
    *operation = operation_of(op);
    /* Where MPI's integers wrap, the appliance's signed ones would saturate. */
    if (*dtype == PASCALINE_I32 && *operation == PASCALINE_SUM)
        *dtype = PASCALINE_U32;
    if (!*dtype) {
        PMPI_Type_get_name(datatype, name, &length);
        say_why(comm, "%s of %s: the appliance has float, double, int and unsigned", call_names[call],
                *name ? name : "a derived type");
        return false;
    }
    if (*operation < 0) {
        say_why(comm, "%s: the appliance has MPI_SUM, MPI_MIN and MPI_MAX", call_names[call]);
        return false;
    }
    return true;
}

bool is_plain(MPI_Datatype datatype)
{
    int integers, addresses, datatypes, combiner, size;
    MPI_Aint lower, extent;

    /* Only of types that MPI itself names is the order known. Pairs such as MPI_DOUBLE_INT may have gaps. */
    return PMPI_Type_get_envelope(datatype, &integers, &addresses, &datatypes, &combiner) == MPI_SUCCESS &&
           combiner == MPI_COMBINER_NAMED && PMPI_Type_size(datatype, &size) == MPI_SUCCESS &&
           PMPI_Type_get_extent(datatype, &lower, &extent) == MPI_SUCCESS && lower == 0 && extent == size;
}

bool are_for_all(const void *sendbuf, const void *recvbuf, int count)
{
    return recvbuf != MPI_IN_PLACE && (sendbuf != recvbuf || count == 1);
}

size_t bytes_of(int count, MPI_Datatype datatype, MPI_Comm comm)
{
    int size, between;

    /* What is wrong with arguments, MPI says best. */
    if (count <= 0 || datatype == MPI_DATATYPE_NULL || comm == MPI_COMM_NULL)
        return 0;
    if (PMPI_Comm_test_inter(comm, &between) != MPI_SUCCESS || between)
        return 0;
    if (PMPI_Type_size(datatype, &size) != MPI_SUCCESS || size <= 0)
        return 0;
    return (size_t)count * (size_t)size;
}
