// Package configmaps tests one controller, that of examples/configmaps, written with client-go
// and with controller-runtime, against a control plane of plane/planetest. Its tests show how
// tests for envtest run without its binaries.
package configmaps
