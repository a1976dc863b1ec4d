//go:build race

package webhook_test

// slowdown is what the race detector makes of short loops.
const slowdown = 20
