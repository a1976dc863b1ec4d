// Package node tests that package authz/node decides as kube-apiserver's Node
// authorizer does, and package admission/noderestriction as its plugin of that
// name: the same random objects, requests and writes to both, and the same words
// where they refuse.
//
//	go test -v ./node -args -decisions 5000000
package node
