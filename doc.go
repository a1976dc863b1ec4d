// Package planekit is the root of a library of Kubernetes-style control-plane
// building blocks. It is empty: each block is a package below, usable alone.
// README.md lists them, ARCHITECTURE.md walks one pod through all of them, and
// examples/cluster composes them into a whole cluster.
package planekit
