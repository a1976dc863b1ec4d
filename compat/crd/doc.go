// Package crd compares what apiserver/crd and internal/structural do with schemas and objects with what
// k8s.io/apiextensions-apiserver does.
package crd
