//go:build race

package crd_test

// slowdown is the factor by which the race detector slows down short loops: 100,000
// terms take 0.5 s without it and 9 s with it.
const slowdown = 20
