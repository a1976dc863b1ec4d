//go:build race

package webhook_test

// slowdown is the factor by which the race detector slows short loops down.
const slowdown = 20
