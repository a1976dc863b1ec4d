// Package abac tests that package authz/abac decides as kube-apiserver's ABAC
// authorizer does: the same random policy files, users and requests to both.
//
//	go test -v ./abac -args -decisions 5000000 -seed 17
package abac
