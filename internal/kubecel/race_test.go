//go:build race

package kubecel_test

// slowdown is the factor by which the race detector slows code down.
const slowdown = 15

// race divides what is tried.
const race = 10
