// Package compat tests planekit with stock clients, unmodified, against the
// real programs. It is a module of its own so that what it imports never
// becomes a dependency of planekit.
package compat
