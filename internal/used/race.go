//go:build race

package used

// Slowdown is the factor by which the race detector slows code down.
const Slowdown = 15
