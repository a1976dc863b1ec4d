//go:build !race

package apiserver_test

// slowdown is that of the race detector, which is not here.
const slowdown = 1
