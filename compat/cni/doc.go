// Package cni tests planekit's CNI plugins with the reference library, libcni, and the reference plugins
// with planekit's invoker, each in network namespaces of its own. Both host-local plugins share one
// directory of addresses.
package cni
