// Package matchcel tests that match conditions of webhooks evaluate as in
// kube-apiserver: the same expressions over random texts to both.
//
//	go test -v ./matchcel -args -expressions 200000
package matchcel
