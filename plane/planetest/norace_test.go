//go:build !race

package planetest_test

// slowdown is 1 because this build has no race detector.
const slowdown = 1
