"""L6. The same kernels on an NVIDIA GPU: kernels -> NVVM text -> cubins, and what launches them.

Nothing here is imported by the layers below; neither a GPU nor a driver is needed to compile.
"""
