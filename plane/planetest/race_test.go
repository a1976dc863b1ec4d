//go:build race

package planetest_test

// slowdown is the factor by which the race detector slows code down.
const slowdown = 15
