"""L7. Programs as texts and files that other compilers and runtimes read: StableHLO and ONNX."""
