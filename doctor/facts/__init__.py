"""What was observed on one host: plain frozen dataclasses and value types.

Belongs here: the shape of facts, `Reading`, versions, compute capabilities,
the wire form. Does not belong here: reading a machine, or judging.
Standard library only, Python 3.9: this folder travels in the zipapp.
"""

from doctor.facts.accelerators import (
    AscendFacts,
    CambriconFacts,
    CudaToolkit,
    Device,
    DeviceHealth,
    DriverLibrary,
    FabricManager,
    Link,
    Mig,
    NvidiaFacts,
    RocmFacts,
    TopologyLink,
)
from doctor.facts.codes import CodeTarget, Coverage, Kernels
from doctor.facts.host import Cpu, HostFacts, Libc, Limits, OsRelease
from doctor.facts.model import Expected, Facts, LogText
from doctor.facts.reading import UNSTATED, Missing, MissingFact, Reading, missing, seen
from doctor.facts.scopes import (
    REPORTED,
    Binary,
    ContainerEngine,
    ImageRef,
    Package,
    PythonInfo,
    Scope,
    TorchBuild,
    Workload,
)
from doctor.facts.values import ComputeCapability
from doctor.facts.version import Specifier, Version
from doctor.facts.wire import to_wire

__all__ = [
    "REPORTED",
    "UNSTATED",
    "AscendFacts",
    "Binary",
    "CambriconFacts",
    "CodeTarget",
    "ComputeCapability",
    "ContainerEngine",
    "Coverage",
    "Cpu",
    "CudaToolkit",
    "Device",
    "DeviceHealth",
    "DriverLibrary",
    "Expected",
    "FabricManager",
    "Facts",
    "HostFacts",
    "ImageRef",
    "Kernels",
    "Libc",
    "Limits",
    "Link",
    "LogText",
    "Mig",
    "Missing",
    "MissingFact",
    "NvidiaFacts",
    "OsRelease",
    "Package",
    "PythonInfo",
    "Reading",
    "RocmFacts",
    "Scope",
    "Specifier",
    "TopologyLink",
    "TorchBuild",
    "Version",
    "Workload",
    "missing",
    "seen",
    "to_wire",
]
