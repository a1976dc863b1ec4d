// Package apiserver serves declarative resources over the Kubernetes wire
// protocol.
package apiserver
