"""The data set as people write it: one sample at a time, through PIL and a chain of transforms."""
import torch
from PIL import Image
from torch.utils.data import Dataset

from common import MEAN, STDDEV, load

try:
    from torchvision import transforms

    CHAIN = "torchvision"
    to_input = transforms.Compose([transforms.ToTensor(), transforms.Normalize((MEAN,), (STDDEV,))])
except ImportError:  # what ToTensor and Normalize do, where torchvision is not installed
    import numpy

    CHAIN = "written out"

    def to_input(image):
        pixels = torch.from_numpy(numpy.array(image, numpy.uint8, copy=True)).view(image.size[1], image.size[0], 1)
        tensor = pixels.permute((2, 0, 1)).contiguous().to(dtype=torch.get_default_dtype()).div(255)
        mean, stddev = (torch.as_tensor([x], dtype=tensor.dtype).view(-1, 1, 1) for x in (MEAN, STDDEV))
        return tensor.clone().sub_(mean).div_(stddev)


class Images(Dataset):
    def __init__(self, data, split):
        self.images, self.labels = load(data, split)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image = Image.fromarray(self.images[index].numpy(), mode="L")
        return to_input(image), int(self.labels[index])
