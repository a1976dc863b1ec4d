// Package takeover tests that planekit goes on with the etcd of a stock
// kube-apiserver, and kube-apiserver with that of planekit.
//
//	go test ./takeover -args -stock bin
//
// runs it with the etcd and kube-apiserver in bin; without -stock it is skipped,
// for they take minutes to build (go build -o bin ./cmd/etcd ./cmd/kube-apiserver).
package takeover
