"""Programs that reach what they read in many ways: a global `FACTOR`, or what `SET` changes."""

from __future__ import annotations

PROGRAMS: dict[str, str] = {
    "singledispatch": """
@functools.singledispatch
def g(x): return x*FACTOR
@g.register
def _(x: np.ndarray): return x*FACTOR+1
def f(x): return g(x)
""",
    "partial": """
def g(k,x): return x*FACTOR*k
h=functools.partial(g,2.0)
def f(x): return h(x)
""",
    "dataclass": """
@dataclasses.dataclass
class D:
 a: float=1.0
 def go(self,x): return x*FACTOR*self.a
d=D()
def f(x): return d.go(x)
""",
    "dataclass made": """
@dataclasses.dataclass
class D:
 a: float=1.0
 def go(self,x): return x*FACTOR*self.a
def f(x): return D(2.0).go(x)
""",
    "post_init": """
@dataclasses.dataclass
class D:
 a: float=1.0
 def __post_init__(self): self.b=FACTOR
def f(x): return D(2.0).b*x
""",
    "field default_factory": """
def mk(): return FACTOR
@dataclasses.dataclass
class D:
 a: float=dataclasses.field(default_factory=mk)
def f(x): return D().a*x
""",
    "abc": """
class A(abc.ABC):
 @abc.abstractmethod
 def go(self,x): ...
 def run(self,x): return self.go(x)
class B(A):
 def go(self,x): return x*FACTOR
b=B()
def f(x): return b.run(x)
""",
    "super call": """
class A:
 def __call__(self,x): return x*FACTOR
class B(A):
 def __call__(self,x): return super().__call__(x)+1
def f(x): return B()(x)
""",
    "super obj": """
class A:
 def __call__(self,x): return x*FACTOR
class B(A):
 def __call__(self,x): return super().__call__(x)+1
b=B()
def f(x): return b(x)
""",
    "dict of functions": """
def g(x): return x*FACTOR
OPS={'g':g}
def f(x): return OPS['g'](x)
""",
    "list of functions": """
def g(x): return x*FACTOR
OPS=[g,np.sin]
def f(x):
 for o in OPS: x=o(x)
 return x
""",
    "getattr": """
class O:
 def g(self,x): return x*FACTOR
o=O()
def f(x): return getattr(o,'g')(x)
""",
    "getattr computed": """
class O:
 def g_one(self,x): return x*FACTOR
o=O()
def f(x): return getattr(o,'g_'+'one')(x)
""",
    "globals": """
def g(x): return x*FACTOR
def f(x): return globals()['g'](x)
""",
    "methodcaller": """
class O:
 def g(self,x): return x*FACTOR
o=O()
def f(x): return operator.methodcaller('g',x)(o)
""",
    "attrgetter": """
class O: pass
o=O(); o.p=O()
def up(): o.p.k=FACTOR
def f(x):
 up()
 return operator.attrgetter('p.k')(o)*x
""",
    "map": """
def g(x): return x*FACTOR
def f(x): return np.stack(list(map(g,[x,x])))
""",
    "reduce": """
def g(a,b): return a+b*FACTOR
def f(x): return functools.reduce(g,[x,x,x])
""",
    "sorted key": """
def key(k): return k*FACTOR-k**2
def f(x): return sorted([1.,2.,3.],key=key)[0]*x
""",
    "closure factory": """
def mk(k):
 def g(x): return x*FACTOR*k
 return g
h=mk(3.)
def f(x): return h(x)
""",
    "closure factory inside": """
def mk(k):
 def g(x): return x*FACTOR*k
 return g
def f(x): return mk(3.)(x)
""",
    "class made in function": """
def f(x):
 class L:
  def __call__(self,x): return x*FACTOR
 return L()(x)
""",
    "class from factory": """
def mk():
 class L:
  def __call__(self,x): return x*FACTOR
  def __matmul__(self,x): return x*FACTOR
 return L
def f(x): return mk()() @ x
""",
    "instance from factory": """
class L:
 def __call__(self,x): return x*FACTOR
def mk(): return L()
def f(x): return mk()(x)
""",
    "type(o)()": """
class L:
 def __call__(self,x): return x*FACTOR
o=L()
def f(x): return type(o)()(x)
""",
    "__class__": """
class L:
 def __call__(self,x): return x*FACTOR
o=L()
def f(x): return o.__class__()(x)
""",
    "registry by decorator": """
REG={}
def reg(n):
 def d(g): REG[n]=g; return g
 return d
@reg('a')
def g(x): return x*FACTOR
key='a'
def f(x): return REG[key](x)
""",
    "enum": """
class E(enum.Enum):
 A=2.0
 B=3.0
 def go(self,x): return x*FACTOR*self.value
def f(x): return E.A.go(x)
""",
    "namedtuple method": """
class N(typing.NamedTuple):
 a: float
 def go(self,x): return x*FACTOR*self.a
n=N(2.)
def f(x): return n.go(x)
""",
    "namedtuple made": """
class N(typing.NamedTuple):
 a: float
 def go(self,x): return x*FACTOR*self.a
 def __add__(self,x): return x*FACTOR
def f(x): return N(2.)+x
""",
    "property": """
class O:
 @property
 def k(self): return FACTOR
o=O()
def f(x): return o.k*x
""",
    "cached_property": """
class O:
 @functools.cached_property
 def k(self): return FACTOR
def f(x): return O().k*x
""",
    "contextmanager": """
@contextlib.contextmanager
def c():
 yield FACTOR
def f(x):
 with c() as k: return k*x
""",
    "generator": """
def g():
 yield FACTOR
def f(x): return next(g())*x
""",
    "yield from": """
def g():
 yield FACTOR
def h():
 yield from g()
def f(x): return sum(h())*x
""",
    "lru_cache none": """
def g(): return FACTOR
def f(x): return (lambda: g())()*x
""",
    "staticmethod": """
class O:
 @staticmethod
 def g(x): return x*FACTOR
def f(x): return O.g(x)
""",
    "classmethod": """
class O:
 K=2.0
 @classmethod
 def g(cls,x): return x*FACTOR*cls.K
def f(x): return O.g(x)
""",
    "descriptor": """
class Desc:
 def __get__(self,o,t): return FACTOR
class O:
 k=Desc()
o=O()
def f(x): return o.k*x
""",
    "bound in list": """
class O:
 def g(self,x): return x*FACTOR
L=[O().g]
def f(x): return L[0](x)
""",
    "default arg": """
def g(x): return x*FACTOR
def f(x,h=g): return h(x)
""",
    "kw default": """
def g(x): return x*FACTOR
def f(x,*,h=g): return h(x)
""",
    "operator overload obj": """
class V:
 def __init__(s,a): s.a=a
 def __mul__(s,o): return V(s.a*o*FACTOR)
 def __array__(s,*a,**k): return np.asarray(s.a)
v=V(2.)
def f(x): return (v*3.).a*x
""",
    "eval": """
def f(x): return eval('x*FACTOR')
""",
    "lambda in class attr": """
class O:
 g=lambda self,x: x*FACTOR
o=O()
def f(x): return o.g(x)
""",
    "weakref": """
class O:
 def g(self,x): return x*FACTOR
o=O(); r=weakref.ref(o)
def f(x): return r().g(x)
""",
    "contextvar": """
cv=contextvars.ContextVar('c',default=0)
def f(x):
 return cv.get()*x
def SET(v): cv.set(v)
""",
    "threadlocal": """
tl=threading.local(); tl.k=2.0
def f(x): return tl.k*x
def SET(v): tl.k=v
""",
    "environ": """
import os
os.environ['FK']='2.0'
def f(x): return float(os.environ['FK'])*x
def SET(v): os.environ['FK']=str(v)
""",
    "class attr": """
class C: k=2.0
def f(x): return C.k*x
def SET(v): C.k=v
""",
    "instance dict": """
class C: pass
c=C(); c.__dict__['k']=2.0
def f(x): return c.__dict__['k']*x
def SET(v): c.k=v
""",
    "slots": """
class C:
 __slots__=('k',)
c=C(); c.k=2.
def f(x): return c.k*x
def SET(v): c.k=v
""",
    "deque": """
q=collections.deque([2.])
def f(x): return q[0]*x
def SET(v): q[0]=v
""",
    "defaultdict": """
q=collections.defaultdict(float)
def f(x): return q['a']*x
def SET(v): q['a']=v
""",
    "chainmap": """
q=collections.ChainMap({},{'a':2.})
def f(x): return q['a']*x
def SET(v): q.maps[1]['a']=v
""",
    "counter": """
q=collections.Counter(a=2)
def f(x): return q['a']*x
def SET(v): q['a']=int(v)
""",
    "mappingproxy": """
d={'a':2.}; q=types.MappingProxyType(d)
def f(x): return q['a']*x
def SET(v): d['a']=v
""",
    "nested containers": """
d={'a':[({'b':2.},)]}
def f(x): return d['a'][0][0]['b']*x
def SET(v): d['a'][0][0]['b']=v
""",
    "array.array": """
import array
q=array.array('d',[2.])
def f(x): return q[0]*x
def SET(v): q[0]=v
""",
    "bytearray": """
q=bytearray([2])
def f(x): return q[0]*x
def SET(v): q[0]=int(v)
""",
    "memoryview": """
z=np.array([2.]); q=memoryview(z)
def f(x): return q[0]*x
def SET(v): z[0]=v
""",
    "set": """
q={2.}
def f(x): return sum(q)*x
def SET(v): q.clear(); q.add(v)
""",
    "simplenamespace": """
q=types.SimpleNamespace(a=2.)
def f(x): return q.a*x
def SET(v): q.a=v
""",
    "ctypes": """
import ctypes
q=ctypes.c_double(2.)
def f(x): return q.value*x
def SET(v): q.value=v
""",
    "ctypes array": """
import ctypes
q=(ctypes.c_double*2)(2.,3.)
def f(x): return q[0]*x
def SET(v): q[0]=v
""",
    "fraction": """
import fractions
class C: q=fractions.Fraction(2)
def f(x): return float(C.q)*x
def SET(v): C.q=fractions.Fraction(v)
""",
    "structured": """
q=np.zeros(2,dtype=[('a','f8')]); q['a'][0]=2.
def f(x): return q['a'][0]*x
def SET(v): q['a'][0]=v
""",
    "masked mask": """
q=np.ma.array([2.,3.],mask=[0,1])
def f(x): return float(q.filled(7.)[0])*x
def SET(v):
 if v==3: q.mask=[1,0]
 else: q.mask=[0,1]
""",
    "masked": """
q=np.ma.array([2.,3.],mask=[0,1])
def f(x): return float(q[0])*x
def SET(v): q[0]=v
""",
    "object array": """
q=np.array([2.,None],dtype=object)
def f(x): return q[0]*x
def SET(v): q[0]=v
""",
    "0d array": """
q=np.array(2.)
def f(x): return float(q)*x
def SET(v): q[...]=v
""",
    "nonlocal state": """
def mk():
 k=2.0
 def g(x): return x*k
 def s(v):
  nonlocal k
  k=v
 return g,s
g_,s_=mk()
def f(x): return g_(x)
def SET(v): s_(v)
""",
    "function attr": """
def g(x): return x*g.k
g.k=2.
def f(x): return g(x)
def SET(v): g.k=v
""",
    "method attr": """
class C:
 k=2.
 def g(self,x): return x*self.k
c=C()
def f(x): return c.g(x)
def SET(v): C.k=v
""",
    "userdict": """
class D(collections.UserDict): pass
q=D(a=2.)
def f(x): return q['a']*x
def SET(v): q['a']=v
""",
    "dict subclass missing": """
class D(dict):
 def __missing__(self,k): return FACTOR
q=D()
def f(x): return q['z']*x
""",
    "inherit builtin float": """
class F(float):
 def go(self,x): return x*FACTOR*self
q=F(2.)
def f(x): return q.go(x)
""",
    "functools.cached global": """
class K:
 v=2.
@functools.lru_cache
def g(n): return n
def f(x): return g(3)*K.v*x
def SET(v): K.v=v
""",
    "iterator protocol": """
class I:
 def __iter__(self): self.n=0; return self
 def __next__(self):
  self.n+=1
  if self.n>2: raise StopIteration
  return FACTOR
def f(x): return sum(I())*x
""",
    "format": """
def f(x): return float(f'{FACTOR:.1f}')*x
""",
    "class getitem obj": """
class T:
 def __getitem__(self,k): return FACTOR*k
t=T()
def f(x): return t[2]*x
""",
    "fspath hash": """
class T:
 def __hash__(self): return int(FACTOR)
def f(x): return hash(T())*x
""",
    "array_ufunc": """
class T:
 def __array_ufunc__(self,u,m,*a,**k): return FACTOR
t=T()
def f(x): return np.add(t,1)*x
""",
    "wrapped property of made": """
class T:
 @property
 def kk(self): return FACTOR
def f(x): return T().kk*x
""",
    "copy hook": """
class T:
 def __copy__(s): return FACTOR
t=T()
def f(x): return copy.copy(t)*x
""",
    "instancecheck": """
class M(type):
 def __instancecheck__(c,o): return FACTOR>2.5
class T(metaclass=M): pass
def f(x): return x if isinstance(1,T) else -x
""",
    "abc register": """
class A(abc.ABC):
 @classmethod
 def __subclasshook__(c,o): return FACTOR>2.5
def f(x): return x*FACTOR if isinstance(1.0,A) else -x*FACTOR
""",
    "setattr hook": """
class T:
 def __setattr__(s,k,v): object.__setattr__(s,k,v*FACTOR)
def f(x):
 t=T(); t.a=1.0
 return t.a*x
""",
    "init_subclass": """
class B:
 def __init_subclass__(c): c.k=FACTOR
def f(x):
 class C(B): pass
 return C.k*x
""",
    "set_name": """
class D:
 def __set_name__(s,o,n): o.k2=FACTOR
def f(x):
 class C: d=D()
 return C.k2*x
""",
    "prepare": """
class M(type):
 @classmethod
 def __prepare__(m,n,b): return {'k':FACTOR}
def f(x):
 class C(metaclass=M): pass
 return C.k*x
""",
    "decor class in f": """
def dec(c): c.k=FACTOR; return c
def f(x):
 @dec
 class C: pass
 return C.k*x
""",
    "await": """
async def g(x): return x*FACTOR
def f(x):
 c=g(x)
 try: c.send(None)
 except StopIteration as e: return e.value
""",
    "sort lt": """
class T:
 def __init__(s,v): s.v=v
 def __lt__(s,o): return (s.v<o.v) == (FACTOR>2.5)
def f(x): return sorted([T(1.),T(2.)])[0].v*x
""",
    "exception class": """
class Err(Exception):
 def __init__(s): s.k=FACTOR
def f(x):
 try: raise Err()
 except Err as e: return e.k*x
""",
}
