// Package plugins tests that admission plugins make of random pods what those of
// kube-apiserver make of them, and that their names, their order and which are on
// are the same.
package plugins
