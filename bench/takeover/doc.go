// Package takeover tests that planekit can take over the etcd of a stock kube-apiserver, and
// kube-apiserver that of planekit.
//
//	go test ./takeover -args -stock bin
//
// runs it with the etcd and kube-apiserver in bin; without -stock they are built, which takes
// minutes the first time.
package takeover
