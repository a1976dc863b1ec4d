//go:build !race

package kubecel_test

// slowdown is 1 because this build has no race detector.
const slowdown = 1

// race divides what is tried.
const race = 1
