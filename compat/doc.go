// Package compat tests planekit with stock clients, unmodified: kubectl against
// the cluster program, client-go and controller-runtime against a server in the
// test's own process, over TLS. It is a module of its own so that what it
// imports never becomes a dependency of planekit.
//
// The folders below hold packages of planekit against those of kube-apiserver:
// random policies, requests and objects to both, which must say the same.
//
// The tests write the table of clients in COMPATIBILITY.md (go test . -update),
// and fail where it is not what ran.
package compat
