#include "tensors.h"

const ParameterTensor *tensors_at(const TensorList *list, size_t parameter) {
    const ParameterTensor *tensor = list->tensors;
    while (parameter >= tensor->first + tensor->count)
        tensor++;
    return tensor;
}

void tensors_floor_variances(float *parameters, const TensorList *list) {
    for (int t = 0; t < list->count; t++) {
        const ParameterTensor *tensor = &list->tensors[t];
        for (size_t i = 0; i < tensor->count && tensor_is_variance(tensor); i++)
            if (parameters[tensor->first + i] < 0) parameters[tensor->first + i] = 0;
    }
}
