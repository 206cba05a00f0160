"""What stands for the names of JAX and optax: modules, other names, and reasons for none."""

from __future__ import annotations

MODULES: dict[str, str] = {
    "jax": "fgrad",
    "jax.numpy": "fgrad.numpy",
    "jax.numpy.linalg": "fgrad.numpy.linalg",
    "jax.numpy.fft": "fgrad.numpy.fft",
    "jax.lax": "fgrad.lax",
    "jax.lax.linalg": "fgrad.lax.linalg",
    "jax.nn": "fgrad.nn",
    "jax.nn.initializers": "fgrad.nn.initializers",
    "jax.random": "fgrad.random",
    "jax.tree": "fgrad.tree",
    "jax.tree_util": "fgrad.tree",
    "jax.flatten_util": "fgrad.tree",
    "jax.ops": "fgrad.lax",
    "jax.debug": "fgrad.debug",
    "jax.scipy.cluster.vq": "fgrad.scipy.cluster",
    "jax.scipy.fft": "fgrad.scipy.fft",
    "jax.scipy.integrate": "fgrad.scipy.integrate",
    "jax.scipy.interpolate": "fgrad.scipy.interpolate",
    "jax.scipy.linalg": "fgrad.scipy.linalg",
    "jax.scipy.ndimage": "fgrad.scipy.ndimage",
    "jax.scipy.optimize": "fgrad.scipy.optimize",
    "jax.scipy.signal": "fgrad.scipy.signal",
    "jax.scipy.sparse.linalg": "fgrad.scipy.sparse.linalg",
    "jax.scipy.spatial.transform": "fgrad.scipy.spatial.transform",
    "jax.scipy.special": "fgrad.scipy.special",
    "jax.scipy.stats": "fgrad.scipy.stats",
    "optax": "fgrad.optim",
}

OTHER: dict[str, str] = {
    "jax.Array": "np.ndarray",
    "jax.P": "fgrad.distributed.P",
    "jax.ShapeDtypeStruct": "fgrad.ShapeDtype",
    "jax.check_tracer_leaks": "an error always says where a leaked value comes from",
    "jax.checking_leaks": "an error always says where a leaked value comes from",
    "jax.custom_gradient": "fgrad.custom_vjp",
    "jax.debug_infs": "fgrad.debug.nans",
    "jax.debug_nans": "fgrad.debug.nans",
    "jax.disable_jit": "fgrad.config.disable_jit = True",
    "jax.ds": "slice(start, start + size), or fgrad.lax.dynamic_slice",
    "jax.explain_cache_misses": "fgrad.explain_retrace",
    "jax.fwd_and_bwd": "fgrad.vjp, whose pullback goes through jit and can be pickled",
    "jax.jacobian": "fgrad.jacrev",
    "jax.make_jaxpr": "fgrad.make_program",
    "jax.make_mesh": "fgrad.distributed.simulate",
    "jax.shard_map": "fgrad.distributed.shard_map",
    "jax.smap": "fgrad.distributed.shard_map",
    "jax.debug.log": "fgrad.debug.print",
    "jax.flatten_util.ravel_pytree": "fgrad.tree.ravel",
    "jax.numpy.ComplexWarning": "np.exceptions.ComplexWarning",
    "jax.numpy.complex_": "np.complex128",
    "jax.numpy.float_": "np.float64",
    "jax.numpy.newaxis": "None",
    "jax.numpy.bfloat16": "ml_dtypes.bfloat16",
    "jax.nn.initializers.Initializer": "typing.Callable",
    "jax.random.PRNGKey": "fgrad.random.key",
    "jax.random.clone": "key",
    "jax.random.key_data": "key",
    "jax.random.wrap_key_data": "key",
    "jax.tree.static": "dataclasses.field(metadata={'static': True})",
    "jax.tree.reduce_associative": "fgrad.tree.reduce",
    "jax.tree_util.KeyPath": "tuple",
    "jax.tree_util.PyTreeDef": "fgrad.tree.TreeDef",
    "jax.tree_util.all_leaves": "all(map(fgrad.tree.is_leaf, xs))",
    "jax.tree_util.flatten_one_level": "fgrad.tree.children",
    "jax.tree_util.flatten_one_level_with_keys": "fgrad.tree.leaves_with_path",
    "jax.tree_util.is_tree_node": "not fgrad.tree.is_leaf(x)",
    "jax.tree_util.register_pytree_node": "fgrad.tree.register_node",
    "jax.tree_util.register_pytree_node_class": "fgrad.tree.register_node_class",
    "jax.tree_util.register_pytree_with_keys": "fgrad.tree.register_node_with_keys",
    "jax.tree_util.register_pytree_with_keys_class": "fgrad.tree.register_node_with_keys",
    "jax.tree_util.tree_reduce_associative": "fgrad.tree.reduce",
    "jax.tree_util.treedef_children": "treedef.children()",
    "jax.tree_util.treedef_is_leaf": "treedef.is_leaf()",
    "jax.tree_util.treedef_tuple": "fgrad.tree.tuple_of",
    **{
        f"jax.tree_util.tree_{name}": f"fgrad.tree.{name}"
        for name in (
            "all", "broadcast", "flatten", "flatten_with_path", "leaves", "leaves_with_path", "map",
            "map_with_path", "reduce", "structure", "transpose", "unflatten",
        )
    },
}  # fmt: skip

_DEVICES = "there is one device to a function, `jit(f, device=...)`, and arrays are NumPy's"
_SETTING = "a setting of JAX's own machinery"
_SHARDING = "arrays are whole; `fgrad.distributed.shard_map` runs a function on blocks of them"
_SMALL = "numbers of 8 bits and less are stored by `ml_dtypes`, and not computed with"
_REFS = "arrays are written in place as in NumPy, `x[i] = v`, also under `jit`"

# Patterns, and why there is no such name; the first that fits counts.
REFUSED: dict[str, str] = {
    **dict.fromkeys(
        (
            "jax.Device", "jax.default_backend", "jax.default_device", "jax.device_count",
            "jax.devices", "jax.host_*", "jax.live_arrays", "jax.local_device*", "jax.process_*",
            "jax.pmap", "jax.copy_to_host_async", "jax.transfer_guard*", "jax.memory",
        ),
        _DEVICES,
    ),
    **dict.fromkeys(
        (
            "jax.NamedSharding", "jax.Shard", "jax.make_array_from_*", "jax.reshard",
            "jax.set_mesh",
            "jax.auto_pcast", "jax.remove_size_one_mesh_axis_from_type", "jax.debug.*shard*",
            "jax.lax.with_sharding_constraint", "jax.lax.pcast", "jax.lax.p*send", "jax.lax.precv",
        ),
        _SHARDING,
    ),
    **dict.fromkeys(
        (
            "jax.ad", "jax.allow_f16_reductions", "jax.array_garbage_collection_guard",
            "jax.clear_caches", "jax.default_matmul_precision", "jax.effects_barrier",
            "jax.enable_checks", "jax.jax2tf_*", "jax.log_compiles", "jax.make_user_context",
            "jax.no_execution", "jax.no_tracing", "jax.numpy_dtype_promotion",
            "jax.numpy_rank_promotion", "jax.print_environment_info", "jax.softmax_custom_jvp",
            "jax.thread_guard", "jax.debug.*Effect", "jax.tree_util.default_registry",
            "jax.tree_util.KeyEntry",
        ),
        _SETTING,
    ),
    **dict.fromkeys(("jax.Ref", "jax.*_ref", "jax.freeze"), _REFS),
    **dict.fromkeys(
        (
            "jax.debug_key_reuse", "jax.default_prng_impl", "jax.enable_custom_prng",
            "jax.legacy_prng_key", "jax.threefry_partitionable", "jax.random.key_*",
            "jax.random.random_gamma_p",
        ),
        "there is one generator; a key is an array of two words",
    ),
    "jax.enable_x64": "dtypes are NumPy's: float64 stays float64",
    "jax.ensure_compile_time_eval": "what is known is computed at once; `fgrad.config` has no mode",
    "jax.nn.*scaled_dot_general*": _SMALL,
    "jax.nn.scaled_matmul": _SMALL,
    "jax.float0": "integers have no derivative, and none is returned for them",
    "jax.named_*": "cards and profiles name functions and lines by themselves",
    "jax.numpy.*int[124]": _SMALL,
    "jax.numpy.float[468]_*": _SMALL,
    "jax.numpy.float8*": _SMALL,
    "jax.lax.*_p": "primitives of JAX; `fgrad.primitive` makes one of your own",
    "jax.lax.linalg.*_p": "primitives of JAX; `fgrad.primitive` makes one of your own",
}  # fmt: skip
