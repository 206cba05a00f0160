"""L7. Programs in files: what is traced and compiled here runs in other processes, and in C.

export(f, x, path="f.fgx")      the program as text, its constants, machine code
load("f.fgx")                   a function; the compiler is loaded if the text is compiled
export_c(f, x, path="f")        f.o, f.h and a shared library
"""
