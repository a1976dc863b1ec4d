// Package modes tests that a chain of authorizers decides as kube-apiserver's --authorization-mode
// does, and that a refusal has the same text.
package modes
