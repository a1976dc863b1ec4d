//go:build !race

package used

// Slowdown is 1 because this build has no race detector.
const Slowdown = 1
