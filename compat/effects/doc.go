// Package effects tests that an API server over a cluster of stock etcd members gives each write one effect
// and an honest answer, while members are killed, paused and cut off.
package effects
