"""Torch forms of the ops, for tensors on any device.

Triton kernels replace torch where its own functions are far from the speed of the device. Only this
package imports torch; only `mercer.parallel.device` imports it, once a device or a tensor is used.
"""

from __future__ import annotations

from mercer.ops.torch import codes as codes
from mercer.ops.torch import device_array as device_array
from mercer.ops.torch import linalg as linalg
from mercer.ops.torch import matmul as matmul
from mercer.ops.torch import sparse as sparse
from mercer.ops.torch import transfer as transfer
from mercer.ops.torch.device_array import DeviceArray as DeviceArray
