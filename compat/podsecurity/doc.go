// Package podsecurity tests that Pod Security admission decides as Kubernetes' library does, in the same words, for
// random pods at all levels and versions and for random requests, and that a control plane passes the library's own
// tests of a cluster.
package podsecurity
