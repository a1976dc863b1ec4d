// Package plugins tests that admission plugins change random pods as those of kube-apiserver do,
// and that their names, their order and their defaults are the same.
package plugins
