"""L6. The native part of graphs: which one of a program is nearest to a call's addresses, and which
of its nodes have to be set anew before it is launched.

A graph and each of its nodes are records of words, which `graph.py` writes.
"""

from __future__ import annotations

from functools import lru_cache

from fgrad.compile.llvm.blocks import each_loop, put, word
from fgrad.compile.llvm.runtime import Source, build
from fgrad.lower_cuda.device.driver_api import CAPTURE_THREAD_LOCAL
from fgrad.lower_cuda.host import ERROR, FUNCTION, STATE_WORDS, STREAM, WORD, keep

# The words of a graph: `LAST`, `WEIGHTS` and `STARTS` are tables with an entry for each slot, the
# members from one start to the next are the numbers of nodes that use the slot.
LOCK, EXECUTABLE, COUNT, LAST, WEIGHTS, LIMIT, STARTS, MEMBERS, EPOCH, NODES, SIDE = range(11)
# and of a node: a launch has no address, and `LO` is where its parameters are.
ADDRESS, HANDLE, BUFFERS, PLACES, VALUES, LO, HI, MARK = range(8)


@lru_cache
def attempt_address() -> int:
    """The address of `attempt(table, given, state)`: 0 if a graph was launched."""
    text = _attempt("f")[0]
    return build([Source(f"cuda graph {text}", _attempt)])[0]


def _attempt(symbol: str) -> tuple[str, set[str]]:
    """The nearest graph, if it is near enough and not in use."""
    nearer = (
        "  %graph_k = add i64 %choose_i, 2\n"
        + word("candidate", "table", "%graph_k", "ptr")
        + f"  %cost = call i64 @{symbol}_cost(ptr %candidate, ptr %given)\n"
        + "  %least_before = load i64, ptr %least_at, align 8\n"
        + "  %is_nearer = icmp slt i64 %cost, %least_before\n"
        + "  %kept_before = load ptr, ptr %best_at, align 8\n"
        + "  %least_now = select i1 %is_nearer, i64 %cost, i64 %least_before\n"
        + "  %best_now = select i1 %is_nearer, ptr %candidate, ptr %kept_before\n"
        + "  store i64 %least_now, ptr %least_at, align 8\n"
        + "  store ptr %best_now, ptr %best_at, align 8\n"
    )
    text = (
        f"define i64 @{symbol}(ptr %table, ptr %given, ptr %state) #0 {{\nentry:\n"
        + word("graphs", "table", 0)
        + word("answer", "table", 1)
        + "  %best_at = alloca ptr, align 8\n  %least_at = alloca i64, align 8\n"
        + "  store ptr null, ptr %best_at, align 8\n"
        + f"  store i64 {2**62}, ptr %least_at, align 8\n  br label %choose\n"
        + each_loop("choose", "%graphs", nearer, "chosen")
        + "chosen:\n  %graph = load ptr, ptr %best_at, align 8\n"
        + "  %least = load i64, ptr %least_at, align 8\n"
        + "  %none = icmp eq ptr %graph, null\n  br i1 %none, label %far, label %some\nsome:\n"
        + word("limit", "graph", LIMIT)
        + "  %near = icmp sle i64 %least, %limit\n  br i1 %near, label %take, label %far\n"
        + "far:\n  ret i64 %answer\n"
        + "take:\n  %pair = cmpxchg ptr %graph, i64 0, i64 1 acquire monotonic, align 8\n"
        + "  %won = extractvalue { i64, i1 } %pair, 1\n"
        + "  br i1 %won, label %refresh, label %busy\nbusy:\n  ret i64 1\n"
        + "refresh:\n"
        + f"  %changed = call i32 @{symbol}_refresh(ptr %graph, ptr %given, ptr %state)\n"
        + "  %sound = icmp eq i32 %changed, 0\n  br i1 %sound, label %launch, label %broken\n"
        + "broken:\n"
        + keep("never", "%graph", LIMIT, "-1")
        + "  store atomic i64 0, ptr %graph release, align 8\n  ret i64 1\nlaunch:\n"
        + word("executable", "graph", EXECUTABLE, "ptr")
        + word("stream", "state", STREAM, "ptr")
        + word("function", "state", FUNCTION["cuGraphLaunch"], "ptr")
        + "  %result = call i32 %function(ptr %executable, ptr %stream)\n"
        + "  store atomic i64 0, ptr %graph release, align 8\n"
        + "  %code = zext i32 %result to i64\n"
        + keep("error", "%state", ERROR, "%code")
        + "  ret i64 0\n}\n"
    )
    return text + _cost(symbol) + _refresh(symbol) + _touch(symbol) + _update(symbol), {
        "declare ptr @memcpy(ptr, ptr, i64)"
    }


def _cost(symbol: str) -> str:
    """The weight of the nodes whose addresses are others than at the last launch."""
    add = (
        word("was", "last", "%slot_i")
        + word("is", "given", "%slot_i")
        + word("weight", "weights", "%slot_i")
        + "  %same = icmp eq i64 %was, %is\n  %more = select i1 %same, i64 0, i64 %weight\n"
        + "  %sum = load i64, ptr %sum_at, align 8\n  %new = add i64 %sum, %more\n"
        + "  store i64 %new, ptr %sum_at, align 8\n"
    )
    return (
        f"define internal i64 @{symbol}_cost(ptr %graph, ptr %given) #0 {{\nentry:\n"
        + "  %sum_at = alloca i64, align 8\n  store i64 0, ptr %sum_at, align 8\n"
        + word("count", "graph", COUNT)
        + word("last", "graph", LAST, "ptr")
        + word("weights", "graph", WEIGHTS, "ptr")
        + "  br label %slot\n"
        + each_loop("slot", "%count", add, "added")
        + "added:\n  %total = load i64, ptr %sum_at, align 8\n  ret i64 %total\n}\n"
    )


def _refresh(symbol: str) -> str:
    """Set the nodes of all slots that changed; the first failure."""
    one = (
        word("was", "last", "%slot_i")
        + word("is", "given", "%slot_i")
        + "  %same = icmp eq i64 %was, %is\n  br i1 %same, label %slot_next, label %other\n"
        + "other:\n  store i64 %is, ptr %was_at, align 8\n"
        + f"  %set = call i32 @{symbol}_touch(ptr %graph, i64 %slot_i, ptr %given, ptr %state)\n"
        + "  %before = load i32, ptr %first, align 4\n  %all = or i32 %before, %set\n"
        + "  store i32 %all, ptr %first, align 4\n"
    )
    return (
        f"define internal i32 @{symbol}_refresh(ptr %graph, ptr %given, ptr %state) #0 {{\n"
        + "entry:\n  %first = alloca i32, align 4\n  store i32 0, ptr %first, align 4\n"
        + word("count", "graph", COUNT)
        + word("last", "graph", LAST, "ptr")
        + word("epoch", "graph", EPOCH)
        + "  %now = add i64 %epoch, 1\n  store i64 %now, ptr %epoch_at, align 8\n"
        + "  br label %slot\n"
        + each_loop("slot", "%count", one, "set_all")
        + "set_all:\n  %result = load i32, ptr %first, align 4\n  ret i32 %result\n}\n"
    )


def _touch(symbol: str) -> str:
    """Set the nodes that use a slot, unless that was done in this call."""
    one = (
        word("number", "members", "%member_i")
        + word("node", "nodes", "%number", "ptr")
        + word("mark", "node", MARK)
        + "  %done = icmp eq i64 %mark, %epoch\n"
        + "  br i1 %done, label %member_next, label %stale\nstale:\n"
        + "  store i64 %epoch, ptr %mark_at, align 8\n"
        + f"  %set = call i32 @{symbol}_update(ptr %graph, ptr %node, ptr %given, ptr %state)\n"
        + "  %before = load i32, ptr %first, align 4\n  %all = or i32 %before, %set\n"
        + "  store i32 %all, ptr %first, align 4\n"
    )
    arguments = "ptr %graph, i64 %slot, ptr %given, ptr %state"
    return (
        f"define internal i32 @{symbol}_touch({arguments}) #0 {{\nentry:\n"
        + "  %first = alloca i32, align 4\n  store i32 0, ptr %first, align 4\n"
        + word("starts", "graph", STARTS, "ptr")
        + word("nodes", "graph", NODES, "ptr")
        + word("all_members", "graph", MEMBERS, "ptr")
        + word("epoch", "graph", EPOCH)
        + word("start", "starts", "%slot")
        + "  %after = add i64 %slot, 1\n"
        + word("stop", "starts", "%after")
        + "  %count = sub i64 %stop, %start\n"
        + "  %members = getelementptr i64, ptr %all_members, i64 %start\n  br label %member\n"
        + each_loop("member", "%count", one, "set_all")
        + "set_all:\n  %result = load i32, ptr %first, align 4\n  ret i32 %result\n}\n"
    )


def _update(symbol: str) -> str:
    """Set the addresses of one node."""
    take = (
        "  %even = mul i64 %take_i, 2\n  %odd = add i64 %even, 1\n  %next = add i64 %take_i, 1\n"
        + word("slot", "places", "%even")
        + word("offset", "places", "%odd")
        + word("base", "given", "%slot")
        + "  %address = add i64 %base, %offset\n"
        + "  %value_at = getelementptr i64, ptr %values, i64 %next\n"
        + "  store i64 %address, ptr %value_at, align 8\n"
    )
    arguments = "ptr %graph, ptr %node, ptr %given, ptr %state"
    return (
        f"define internal i32 @{symbol}_update({arguments}) #0 {{\nentry:\n"
        + word("count", "node", BUFFERS)
        + word("places", "node", PLACES, "ptr")
        + word("values", "node", VALUES, "ptr")
        + word("call", "node", ADDRESS, "ptr")
        + word("handle", "node", HANDLE, "ptr")
        + word("lo", "node", LO)
        + word("hi", "node", HI)
        + word("executable", "graph", EXECUTABLE, "ptr")
        + "  br label %take\n"
        + each_loop("take", "%count", take, "taken")
        + "taken:\n  %is_launch = icmp eq ptr %call, null\n"
        + "  br i1 %is_launch, label %launch, label %other\nlaunch:\n"
        + word("set", "state", FUNCTION["cuGraphExecKernelNodeSetParams_v2"], "ptr")
        + "  %parameters = inttoptr i64 %lo to ptr\n"
        + "  %is_set = call i32 %set(ptr %executable, ptr %handle, ptr %parameters)\n"
        + "  ret i32 %is_set\nother:\n"
        + _capture()
        + "}\n"
    )


def _capture() -> str:
    """The rest of a function that captures %call anew and makes it the node's graph."""
    return (
        word("side", "graph", SIDE)
        + word("begin", "state", FUNCTION["cuStreamBeginCapture_v2"], "ptr")
        + word("end", "state", FUNCTION["cuStreamEndCapture"], "ptr")
        + word("replace", "state", FUNCTION["cuGraphExecChildGraphNodeSetParams"], "ptr")
        + word("destroy", "state", FUNCTION["cuGraphDestroy"], "ptr")
        + f"  %own = alloca i64, i64 {STATE_WORDS}, align 16\n"
        + "  %child_at = alloca ptr, align 8\n  store ptr null, ptr %child_at, align 8\n"
        + f"  %copied = call ptr @memcpy(ptr %own, ptr %state, i64 {WORD * STATE_WORDS})\n"
        + keep("stream", "%own", STREAM, "%side")
        + keep("fresh", "%own", ERROR, "0")
        + put("own_state", "values", "0", "%own")
        + f"  %begun = call i32 %begin(i64 %side, i32 {CAPTURE_THREAD_LOCAL})\n"
        + "  call void %call(ptr %values, i64 %lo, i64 %hi)\n"
        + "  %ended = call i32 %end(i64 %side, ptr %child_at)\n"
        + word("failure", "own", ERROR)
        + "  %failed = trunc i64 %failure to i32\n"
        + "  %child = load ptr, ptr %child_at, align 8\n"
        + "  %replaced = call i32 %replace(ptr %executable, ptr %handle, ptr %child)\n"
        + "  %freed = call i32 %destroy(ptr %child)\n"
        + "  %a = or i32 %begun, %ended\n  %b = or i32 %failed, %replaced\n"
        + "  %both = or i32 %a, %b\n  ret i32 %both\n"
    )
