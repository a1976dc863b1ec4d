// Package modes tests that authorizers asked in order decide as
// kube-apiserver's --authorization-mode does, and that a refusal has the same
// words.
package modes
