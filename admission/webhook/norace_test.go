//go:build !race

package webhook_test

// slowdown is that of the race detector, which is not here.
const slowdown = 1
