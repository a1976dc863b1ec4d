// Package structured tests that an authentication configuration means what it does
// to kube-apiserver: what is refused, in which words, and whom it makes of tokens,
// with the same random configurations and claims given to both.
//
//	go test -v ./structured -args -configurations 2000
package structured
